package schedcore

import scala.collection.mutable

/**
 * What operators changed of a running application: jobs on hold, switches for all jobs, and since when a job's mark is another.
 *
 * It is the driver's, so it outlives a planner, and the next one receives it. Used under the scheduler's lock only.
 *
 * @param mode that the application began in
 */
final class Orders(mode: String = Modes.On) {
  private val onHold = mutable.HashSet.empty[String]
  private val changedAt = mutable.HashMap.empty[String, Long] // versions of events, by job
  private var switched: Option[Event.SchedulingChanged] = None

  /** Whether nothing of the job may start. */
  def isOnHold(job: String): Boolean = onHold.nonEmpty && onHold(job)

  /** The job has this mark from now on. @return the event that tells of it */
  def changed(mark: JobMark, held: Boolean, by: String, nowMs: Long): Event = {
    if (held) onHold += mark.key else onHold -= mark.key
    Event.JobChanged(nowMs, mark.key, mark.priority, mark.isolation, mark.deadlineMs, held, by)
  }

  /** The event of the job's change has this version. */
  def toldAs(job: String, version: Long): Unit = changedAt(job) = version

  def jobEnded(job: String): Unit = {
    onHold -= job
    changedAt -= job
  }

  /** A plan that was made before somebody changed the job does not undo that. */
  def over(job: String, plans: PlanInForce, planned: Rule, own: Rule): Rule =
    if (changedAt.get(job).forall(plans.knows)) planned else planned.copy(priority = own.priority, isolation = own.isolation)

  def switch(change: Event.SchedulingChanged): Unit = switched = Some(change)

  /** Whether whatever is held is so on paper only. */
  def shadow: Boolean = switched.fold(mode)(_.mode) == Modes.Shadow

  /** Whether jobs may hold slots, be it on paper. */
  def reserves: Boolean = switched.fold(mode != Modes.Off)(s => s.mode != Modes.Off && !s.reservationsPaused)

  /** What a later planner receives for all jobs. */
  def inForce: Option[Event.SchedulingChanged] = switched

  /** The same of one job, beside its present mark. */
  def retold(mark: JobMark, nowMs: Long): Seq[Event] =
    if (isOnHold(mark.key)) Seq(changed(mark, held = true, "", nowMs)) else Nil
}
