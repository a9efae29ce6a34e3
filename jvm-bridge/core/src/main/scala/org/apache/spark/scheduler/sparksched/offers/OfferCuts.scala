package org.apache.spark.scheduler.sparksched
package offers

import org.apache.spark.scheduler.WorkerOffer
import schedcore.ledger.Ledger
import scala.collection.mutable

/**
 * Takes from the offers of a round what nobody can use. Spark offers each slot to each task set, and asks again at each level of locality.
 *
 * Executors without free cores are left out, and of the others the held slots that none of the waiting task sets may take: to each of
 * these the ledger would refuse them (`docs/adr/0055-offers-without-what-nobody-takes.md`). If such a hold goes during the round,
 * the scheduler asks for another one anyway. Used under the scheduler's lock only.
 */
private[sparksched] final class OfferCuts(scheduler: SchedTaskScheduler, ledger: Ledger) {
  // Of a job that holds slots it matters whether any of its task sets wants some.
  private val ofJob = mutable.HashMap.empty[String, List[SchedTaskSetManager]]
  private val cut = mutable.HashMap.empty[String, Int] // held slots that this round does not offer, by executor

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

  /** The offers without slots that are held from all task sets which want some. @param first of their jobs, in the order of claims */
  def withoutHeld(offers: IndexedSeq[WorkerOffer], first: String): IndexedSeq[WorkerOffer] = {
    val wanting = mutable.HashMap.empty[String, Boolean]
    def wants(job: String) = wanting.getOrElseUpdate(job, setsOf(job).exists(_.couldStart))
    offers.flatMap { o =>
      val kept = ledger.heldFromAll(o.executorId, first, wants)
      if (kept == 0) Some(o)
      else {
        cut(o.executorId) = kept
        val open = scheduler.slots.free(o) - kept
        Option.when(open > 0 || !scheduler.isExecutorAlive(o.executorId))(scheduler.slots.atMost(o, open))
      }
    }
  }
}
