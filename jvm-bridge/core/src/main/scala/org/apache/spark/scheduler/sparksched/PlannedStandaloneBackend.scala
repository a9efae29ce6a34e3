package org.apache.spark.scheduler.sparksched

import org.apache.spark.SparkContext
import org.apache.spark.internal.config
import org.apache.spark.resource.ResourceProfile
import org.apache.spark.scheduler.ExecutorDecommissionInfo
import org.apache.spark.scheduler.cluster.StandaloneSchedulerBackend
import org.apache.spark.util.{ThreadUtils, Utils}
import scala.concurrent.Future

/**
 * Spark's standalone backend, for dynamic allocation under plans and reservations.
 *
 * Spark wants executors for every task that waits. One that a plan lets wait although slots are idle would not run on
 * further executors either, so none are asked for it. What Spark wanted is remembered, and asked for as the plan goes on.
 */
private[sparksched] final class PlannedStandaloneBackend(
    scheduler: SchedTaskScheduler, context: SparkContext, masters: Array[String])
    extends StandaloneSchedulerBackend(scheduler, context, masters) {
  import PlannedStandaloneBackend._

  private val dynamic = Utils.isDynamicAllocationEnabled(context.conf)
  private val least = context.conf.get(config.DYN_ALLOCATION_MIN_EXECUTORS)
  // Guarded by this object's lock. Spark takes the scheduler's before it, so nothing here may ask for that.
  private var wanted = Map.empty[ResourceProfile, Int]
  private var asked = Map.empty[ResourceProfile, Int]
  private var demands = Map.empty[Int, SlotDemand]

  override def doRequestTotalExecutors(totals: Map[ResourceProfile, Int]): Future[Boolean] = synchronized {
    wanted = totals
    ask(planned)
  }

  /**
   * Asks again where the plan has moved on. Not to be called under the scheduler's lock.
   *
   * @param present demands by resource profile; of a profile without one, Spark gets what it wants
   */
  def askAgain(present: Map[Int, SlotDemand]): Unit = if (dynamic) synchronized {
    demands = present
    val now = planned
    if (wanted.nonEmpty && now != asked) ask(now)
  }

  private def ask(totals: Map[ResourceProfile, Int]): Future[Boolean] = {
    asked = totals
    val answer = super.doRequestTotalExecutors(totals)
    // Spark repeats what failed of its own requests only, such as while no master leads.
    answer.onComplete(done => if (!done.getOrElse(false)) synchronized(if (asked eq totals) asked = Map.empty))(ThreadUtils.sameThread)
    answer
  }

  private def planned: Map[ResourceProfile, Int] =
    if (!dynamic || !scheduler.enforcing) wanted
    else wanted.map { case (profile, total) => profile -> demands.get(profile.id).fold(total)(_.cap(total, least)) }

  /** Dynamic allocation decommissions idle executors without asking whether they are busy. */
  override def decommissionExecutors(
      executors: Array[(String, ExecutorDecommissionInfo)], adjustTargetNumExecutors: Boolean,
      triggeredByExecutor: Boolean): Seq[String] = {
    val leaving = executors.filterNot { case (id, info) => info.message == ScaleDown && scheduler.isExecutorBusy(id) }
    if (leaving.isEmpty) Nil else super.decommissionExecutors(leaving, adjustTargetNumExecutors, triggeredByExecutor)
  }
}

private[sparksched] object PlannedStandaloneBackend {
  /** What Spark's ExecutorAllocationManager gives as its reason. */
  private val ScaleDown = "spark scale down"
}

/**
 * Slots of the executors with one resource profile, and who wants them.
 *
 * @param executors that are registered
 * @param slots of all of them
 * @param idle slots where nothing runs and that nobody holds
 * @param startable slots that waiting tasks may take under the plan in force
 * @param deferred slots of the tasks that wait by the plan's word
 */
private[sparksched] final case class SlotDemand(executors: Int, slots: Int, idle: Int, startable: Int, deferred: Int) {

  /** How many executors to ask for where Spark wants `total`; at least one, so that a plan has something to plan with. */
  def cap(total: Int, least: Int): Int =
    if (deferred == 0 || idle <= startable) total
    else math.min(total, math.max(math.max(1, least), executorsFor(slots - idle + startable)))

  private def executorsFor(wanted: Int): Int = (wanted * executors + slots - 1) / slots
}
