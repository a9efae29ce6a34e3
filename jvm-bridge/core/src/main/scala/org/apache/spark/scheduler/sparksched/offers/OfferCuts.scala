package org.apache.spark.scheduler.sparksched
package offers

import org.apache.spark.scheduler.WorkerOffer
import schedcore.ledger.Ledger
import scala.collection.mutable

/**
 * Takes from the offers of a round what nobody can use. Spark offers each slot to each task set, and asks again at each level of locality.
 *
 * Executors without free cores are left out, and of the others the held slots that none of the waiting task sets may take. What the
 * ledger would answer to each of these is the same (`docs/adr/0055-offers-without-what-nobody-takes.md`). Used under the scheduler's
 * lock only.
 */
private[sparksched] final class OfferCuts(scheduler: SchedTaskScheduler, ledger: Ledger) {
  // The task sets of each job: of a job that holds slots it matters whether any of them wants some.
  private val ofJob = mutable.HashMap.empty[String, List[SchedTaskSetManager]]
  // Held slots that this round does not offer, by executor, and the first of the jobs that wanted slots then.
  private val cut = mutable.LinkedHashMap.empty[String, Int]
  private var first = Option.empty[String]
  private val wanting = mutable.HashMap.empty[String, Boolean]

  def add(m: SchedTaskSetManager): Unit = ofJob(m.job) = m :: setsOf(m.job)
  def remove(m: SchedTaskSetManager): Unit = ofJob.updateWith(m.job)(_.map(_.filterNot(_ eq m)).filter(_.nonEmpty))

  /** A job's task sets that are not over. */
  def setsOf(job: String): List[SchedTaskSetManager] = ofJob.getOrElse(job, Nil)

  def begin(): Unit = cut.clear()

  /** Slots of an executor that this round does not offer. */
  def of(executor: String): Int = if (cut.isEmpty) 0 else cut.getOrElse(executor, 0)

  /** Executors of which it does not offer all slots. */
  def executors: Int = cut.size

  /** The offers without those of no cores. Spark must hear of each new executor. */
  def withCores(offers: IndexedSeq[WorkerOffer]): IndexedSeq[WorkerOffer] =
    offers.filter(o => o.cores > 0 || !scheduler.isExecutorAlive(o.executorId))

  /** The offers without slots that are held from all task sets that want some. @param firstWanting the first of their jobs */
  def withoutHeld(offers: IndexedSeq[WorkerOffer], firstWanting: Option[String]): IndexedSeq[WorkerOffer] = {
    first = firstWanting
    wanting.clear()
    offers.flatMap { o =>
      val kept = heldFromAll(o.executorId)
      if (kept == 0) Some(o)
      else {
        cut(o.executorId) = kept
        val open = scheduler.slots.free(o) - kept
        Option.when(open > 0 || !scheduler.isExecutorAlive(o.executorId))(scheduler.slots.atMost(o, open))
      }
    }
  }

  /** Whether a slot that was not offered could be taken now. @param firstWanting the first of the jobs that want slots now */
  def yieldsNow(firstWanting: => Option[String]): Boolean = cut.nonEmpty && {
    first = firstWanting
    wanting.clear()
    first.isDefined && cut.exists { case (executor, kept) => ledger.freeOn(executor) > 0 && heldFromAll(executor) < kept }
  }

  private def heldFromAll(executor: String): Int = first.fold(0)(ledger.heldFromAll(executor, _, wants))

  private def wants(job: String): Boolean = wanting.getOrElseUpdate(job, setsOf(job).exists(_.wantsSlots))
}
