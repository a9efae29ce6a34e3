package schedcore
package plan

import schedcore.ledger.{PoolShare, Rule}
import schedcore.settings.Settings

/**
 * Makes the rules of jobs: the configuration's, overlaid by a job's marks and then by the newest plan.
 *
 * `spark_sched_lab.enforce.overlay` is the twin in the simulator; the cases under `protocol/golden/rules` bind the two.
 */
object Overlay {

  /**
   * The rule of a job without a plan.
   *
   * @param priority by its mark; below `spark.sched.reservation.minPriority` it holds no slots unless it sets an isolation level
   * @param isolation by its mark; None: it sets none
   * @param copies whether its tasks may run again for the scheduler's own ends
   * @param pool of the application, where that has pools
   */
  def own(settings: Settings, priority: Int, isolation: Option[Double], copies: Boolean, pool: Option[PoolShare]): Rule = {
    val defaults = settings.defaults
    defaults.copy(
      priority = priority,
      isolation = isolation.getOrElse(if (priority >= settings.minPriority) defaults.isolation else 0.0),
      copies = defaults.copies && copies,
      pool = pool)
  }

  /**
   * The rule that holds for a job now.
   *
   * @param plan what the plan in force says of the job
   * @param changed an operator changed the job's marks after that plan was made
   * @param mayHold whether neither an operator nor the end of the job forbids it to hold slots
   */
  def inForce(settings: Settings, own: Rule, plan: Option[JobPlan], changed: Boolean, mayHold: Boolean): Rule = {
    val planned = plan.fold(own)(_.over(own))
    val marked = if (changed) planned.copy(priority = own.priority, isolation = own.isolation) else planned
    if (settings.reservationEnabled && mayHold) marked else marked.copy(isolation = 0.0)
  }
}
