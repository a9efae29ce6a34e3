package org.apache.spark.scheduler.sparksched

import org.apache.spark.scheduler.{TaskDescription, TaskSetManager, WorkerOffer}
import schedcore.{Ledger, Start}

/**
 * One round of offers: who may start under the plan in force, in which order, and who takes what is left over.
 *
 * A round may offer twice: first to those with a start, then what nobody took to those that may only take spare slots.
 * Used under the scheduler's lock only.
 *
 * @param ledger says which slots are held
 * @param queue the task sets in the order in which they are offered slots
 */
private[sparksched] final class OfferRound(
    scheduler: SchedTaskScheduler, registry: Registry, ledger: Ledger, queue: () => Iterable[TaskSetManager]) {
  import OfferRound._

  private val plans = scheduler.plans
  private var nowMs = 0L
  private var spareWanted = false
  private var sparing = false
  private var spareSlots = 0
  private var queueLoads = IndexedSeq.empty[Double]

  /** Whether the present offers are of what was left over. */
  def givesSpare: Boolean = sparing

  /** @param place Spark's own round of offers */
  def run(offers: IndexedSeq[WorkerOffer], isAllFreeResources: Boolean, atMs: Long)(place: Place): Placed = {
    nowMs = atMs
    spareWanted = false
    queueLoads = plans.queueLoads(registry.runningByJob)
    val first = place(offers, isAllFreeResources)
    if (spareWanted) first ++ spareOffers(offers, first, place) else first
  }

  /** A second go at what nobody took, for those that come after all others. */
  private def spareOffers(offers: IndexedSeq[WorkerOffer], taken: Placed, place: Place): Placed = {
    val byExecutor = taken.flatten.groupBy(_.executorId)
    val left = offers.map(o => byExecutor.get(o.executorId).fold(o)(SparkLine.less(o, _)))
    val idle = left.iterator.map(o => SparkLine.slots(o, scheduler) - ledger.heldOn(o.executorId)).filter(_ > 0).sum
    val kept = queue().iterator.collect {
      case m: SchedTaskSetManager if keepsSlots(plans.starts.of(m.job, nowMs)) => m.waitingTasks
    }.sum
    spareSlots = idle - kept
    sparing = true
    try place(left, false)
    finally sparing = false
  }

  private def keepsSlots(start: Start): Boolean = start == Start.Now || start == Start.Planned

  /** What the plan says of starts and pilots. Slots that are held for others are another matter. */
  def mayStart(manager: SchedTaskSetManager): Boolean = {
    val start = if (plans.starts.active) plans.starts.of(manager.job, nowMs) else Start.Now
    start match {
      case Start.Now if sparing || !manager.pilotsFirst => true
      case Start.Now =>
        spareWanted = true
        manager.idlePilots.nonEmpty
      case Start.Spare =>
        spareWanted = true
        sparing && spareSlots > 0
      case Start.Planned | Start.Evicted => false
    }
  }

  def launched(job: String): Unit =
    if (sparing && plans.starts.active && plans.starts.of(job, nowMs) == Start.Spare) spareSlots -= 1

  def rank(manager: TaskSetManager): RankedPool.Rank = manager match {
    case ours: SchedTaskSetManager =>
      val priority = -registry.priority(ours.job)
      // Of what is left over, those that may take nothing else come last, in the order of their arrival.
      if (sparing) (priority, if (comesLast(ours)) 1.0 else 0.0, 0, registry.arrival(ours.job))
      else {
        val queue = if (queueLoads.isEmpty) None else plans.queue(ours.job).filter(_ < queueLoads.size)
        queue.fold((priority, 0.0, 0, plans.rank(ours.job)))(q => (priority, queueLoads(q), q, plans.rank(ours.job)))
      }
    case _ => (0, 0.0, 0, 0)
  }

  private def comesLast(manager: SchedTaskSetManager): Boolean =
    manager.pilotsFirst || (plans.starts.active && plans.starts.of(manager.job, nowMs) == Start.Spare)
}

private[sparksched] object OfferRound {
  /** What was launched, by offer. */
  type Placed = Seq[Seq[TaskDescription]]
  type Place = (IndexedSeq[WorkerOffer], Boolean) => Placed
}
