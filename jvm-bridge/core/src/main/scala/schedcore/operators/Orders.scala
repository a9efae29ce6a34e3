package schedcore
package operators

import scala.collection.mutable

import schedcore.events.Event
import schedcore.marks.JobMark
import schedcore.plan.PlanInForce
import schedcore.settings.Modes

/**
 * Changes that operators made to a running application: jobs on hold, switches for all jobs, and when each mark was changed.
 *
 * The driver keeps them, so that each new planner receives them. Used under the scheduler's lock only.
 *
 * @param mode that the application began in
 */
final class Orders(mode: String = Modes.On) {
  private val onHold = mutable.HashSet.empty[String]
  private val changedAt = mutable.HashMap.empty[String, Long] // versions of events, by job
  private var switched: Option[Event.SchedulingChanged] = None

  /** Whether nothing of the job may start. */
  def isOnHold(job: String): Boolean = onHold.nonEmpty && onHold(job)

  /** The job has this mark from now on. @return the event about it */
  def changed(mark: JobMark, held: Boolean, by: String, nowMs: Long): Event = {
    if (held) onHold += mark.key else onHold -= mark.key
    Event.JobChanged(nowMs, mark.key, mark.priority, mark.isolation, mark.deadlineMs, held, by)
  }

  /** The event of the job's change has this version. */
  def sentAs(job: String, version: Long): Unit = changedAt(job) = version

  def jobEnded(job: String): Unit = {
    onHold -= job
    changedAt -= job
  }

  /** Whether an operator changed the job after the plan in force was made: the plan does not undo the change. */
  def isNewer(job: String, plans: PlanInForce): Boolean = !changedAt.get(job).forall(plans.knows)

  def switch(change: Event.SchedulingChanged): Unit = switched = Some(change)

  /** Whether the application is in shadow mode: holds are only recorded. */
  def shadow: Boolean = switched.fold(mode)(_.mode) == Modes.Shadow

  /** Whether anything but Spark's own scheduling applies. */
  def enforces: Boolean = switched.fold(mode)(_.mode) == Modes.On

  /** Whether jobs may hold slots, or recorded ones in shadow mode. */
  def reserves: Boolean = switched.fold(mode != Modes.Off)(s => s.mode != Modes.Off && !s.reservationsPaused)

  /** What a later planner receives for all jobs. */
  def inForce: Option[Event.SchedulingChanged] = switched

  /** The same for one job; its mark is sent separately. */
  def withEnded(mark: JobMark, nowMs: Long): Seq[Event] =
    if (isOnHold(mark.key)) Seq(changed(mark, held = true, "", nowMs)) else Nil
}
