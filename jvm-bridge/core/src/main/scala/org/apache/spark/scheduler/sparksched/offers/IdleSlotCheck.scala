package org.apache.spark.scheduler.sparksched
package offers

import scala.collection.mutable

import org.apache.spark.scheduler.sparksched.planner.PlanBook
import schedcore.plan.{JobPlan, Start}

/**
 * Checks the promise of the offer path: while a slot is free, not held and not planned away, some waiting task set may
 * use it. For tests: it runs under `spark.testing.schedInvariants`, and says what it finds in the plan's own words, not
 * by the gates that it judges. Used under the scheduler's lock only.
 *
 * A slot that becomes idle within a round, since its hold ends or those that it was kept for started elsewhere, is offered in
 * the next round, at the latest when Spark revives offers (`spark.scheduler.revive.interval`). So a task set must have been kept
 * from idle slots in two rounds, `patienceMs` apart, without starting a task between them.
 *
 * @param patienceMs how long a plan that does not know a job may keep it waiting
 */
private[sparksched] final class IdleSlotCheck(plans: PlanBook, patienceMs: Long) {
  private val unknownSinceMs = mutable.HashMap.empty[SchedTaskSetManager, Long]
  // With how many tasks waited then.
  private val keptSinceMs = mutable.HashMap.empty[SchedTaskSetManager, (Long, Int)]

  /**
   * Sentences about task sets that were kept from idle slots for no reason.
   *
   * @param idle slots that are free and not held after the round
   * @param refused task sets that were refused one of them for the plan's sake, and still have tasks waiting
   * @param waiting all task sets with tasks that wait
   */
  def apply(
      idle: Int, refused: Seq[SchedTaskSetManager], waiting: Seq[SchedTaskSetManager], nowMs: Long): Seq[String] = {
    unknownSinceMs.filterInPlace((m, _) => refused.contains(m) && plans.forJob(m.job).isEmpty)
    keptSinceMs.filterInPlace { case (m, (_, tasks)) => m.waitingTasks == tasks && waiting.contains(m) }
    if (idle == 0) Nil
    else refused.filterNot(plannedAway(_, waiting, nowMs)).filter { m =>
      nowMs - keptSinceMs.getOrElseUpdate(m, (nowMs, m.waitingTasks))._1 > patienceMs
    }.map { m =>
      s"$idle slots are idle and not held, but stage ${m.stage} of job ${m.job} may not use them for its ${m.waitingTasks} waiting tasks"
    }
  }

  /** Nothing is enforced now: earlier observations do not apply to later rounds. */
  def forget(): Unit = {
    unknownSinceMs.clear()
    keptSinceMs.clear()
  }

  private def plannedAway(m: SchedTaskSetManager, waiting: Seq[SchedTaskSetManager], nowMs: Long): Boolean =
    plans.forJob(m.job) match {
      case None => plans.newJobsWait && nowMs - unknownSinceMs.getOrElseUpdate(m, nowMs) <= patienceMs
      case Some(job) =>
        job.evict || startsLater(job, nowMs) || m.pilotsFirst ||
          // What is left over goes to others first, as long as there are others.
          waiting.exists(other => other.job != m.job &&
            (plans.forJob(other.job).forall(!onlySpare(_)) || hasShareLeft(other, nowMs)))
    }

  /** Slots are kept for such a job, also while it cannot use them: a barrier stage waits until there are enough. */
  private def hasShareLeft(m: SchedTaskSetManager, nowMs: Long): Boolean =
    plans.forJob(m.job).exists(_.share.isDefined) && plans.starts.of(m.job, nowMs) == Start.Now

  private def startsLater(job: JobPlan, nowMs: Long): Boolean = job.deferred && job.startMs.exists(_ > nowMs)
  private def onlySpare(job: JobPlan): Boolean = job.evict || job.share.isDefined || (job.deferred && job.startMs.isEmpty)
}
