package org.apache.spark.scheduler.sparksched
package backend

import java.util.concurrent.{Executor, ExecutorService}
import java.util.concurrent.atomic.AtomicBoolean

import scala.util.control.NonFatal

import org.apache.spark.{ExecutorAllocationClient, ExecutorAllocationManager, SparkContext}
import org.apache.spark.internal.{config, Logging}
import org.apache.spark.scheduler.ExecutorDecommissionInfo
import org.apache.spark.util.ThreadUtils

/**
 * Stands between Spark's dynamic allocation and the backend, whichever that is.
 *
 * Spark wants executors for every task that waits. One that a plan lets wait although slots are idle would not run on
 * further executors either, so none are asked for it. What Spark wanted is remembered, and asked for as the plan goes on.
 * And Spark decommissions idle executors without asking whether they are busy: those with held slots stay.
 *
 * @param busy whether an executor has running tasks or held slots; takes the scheduler's lock
 * @param least how many executors Spark is to have at least
 * @param asking runs what waits for an answer of the cluster
 */
private[sparksched] final class PlannedAllocation(
    backend: ExecutorAllocationClient, enforcing: () => Boolean, busy: String => Boolean, least: Int, asking: Executor)
    extends ExecutorAllocationClient with Logging {
  import PlannedAllocation._

  @volatile private var demands = Map.empty[Int, SlotDemand]
  private val pending = new AtomicBoolean
  // Guarded by this object's lock, which is held until the cluster has answered, so that its last request is the latest one.
  private var wanted = Option.empty[Request]
  private var asked = Map.empty[Int, Int]

  override def requestTotalExecutors(
      totals: Map[Int, Int], localTasks: Map[Int, Int], hosts: Map[Int, Map[String, Int]]): Boolean = synchronized {
    val request = Request(totals, localTasks, hosts)
    wanted = Some(request)
    ask(request)
  }

  /**
   * Asks again where the plan has moved on. Does not wait.
   *
   * @param present demands by resource profile; of a profile without one, Spark gets what it wants
   */
  def askAgain(present: Map[Int, SlotDemand]): Unit = {
    demands = present
    if (!pending.getAndSet(true)) asking.execute(() => {
      pending.set(false)
      try synchronized(wanted.filter(planned(_) != asked).foreach(ask))
      catch { case NonFatal(thrown) => logWarning("spark_sched could not ask for executors and will try again", thrown) }
    })
  }

  private def ask(request: Request): Boolean = {
    val totals = planned(request)
    // Spark repeats what failed of its own requests only, such as while no standalone master leads.
    asked = Map.empty
    val granted = backend.requestTotalExecutors(totals, request.localTasks, request.hosts)
    if (granted) asked = totals
    granted
  }

  private def planned(request: Request): Map[Int, Int] =
    if (!enforcing()) request.totals
    else request.totals.map { case (profile, total) => profile -> demands.get(profile).fold(total)(_.cap(total, least)) }

  override def decommissionExecutors(
      executors: Array[(String, ExecutorDecommissionInfo)], adjustTargetNumExecutors: Boolean,
      triggeredByExecutor: Boolean): Seq[String] = {
    val leaving = executors.filterNot { case (id, _) => busy(id) }
    if (leaving.isEmpty) Nil else backend.decommissionExecutors(leaving, adjustTargetNumExecutors, triggeredByExecutor)
  }

  // The backend asks the scheduler whether these are busy.
  override def killExecutors(
      executors: Seq[String], adjustTargetNumExecutors: Boolean, countFailures: Boolean, force: Boolean): Seq[String] =
    backend.killExecutors(executors, adjustTargetNumExecutors, countFailures, force)

  override def requestExecutors(additional: Int): Boolean = backend.requestExecutors(additional)
  override def getExecutorIds(): Seq[String] = backend.getExecutorIds()
  override def isExecutorActive(id: String): Boolean = backend.isExecutorActive(id)
  override def decommissionExecutorsOnHost(host: String): Boolean = backend.decommissionExecutorsOnHost(host)
  override def killExecutorsOnHost(host: String): Boolean = backend.killExecutorsOnHost(host)

  def stop(): Unit = asking match {
    case service: ExecutorService => service.shutdownNow()
    case _ =>
  }
}

private[sparksched] object PlannedAllocation extends Logging {
  private final case class Request(totals: Map[Int, Int], localTasks: Map[Int, Int], hosts: Map[Int, Map[String, Int]])

  /** Takes its place in the context's dynamic allocation, if there is any. */
  def enter(context: SparkContext, scheduler: SchedTaskScheduler): Option[PlannedAllocation] =
    context.executorAllocationManager.flatMap { manager =>
      try {
        val field = classOf[ExecutorAllocationManager].getDeclaredFields.find(_.getType == classOf[ExecutorAllocationClient]).get
        field.setAccessible(true)
        val ours = new PlannedAllocation(
          field.get(manager).asInstanceOf[ExecutorAllocationClient], () => scheduler.enforcing, scheduler.isExecutorBusy(_),
          context.conf.get(config.DYN_ALLOCATION_MIN_EXECUTORS), ThreadUtils.newDaemonSingleThreadExecutor("spark-sched-executors"))
        field.set(manager, ours)
        Some(ours)
      } catch {
        case NonFatal(thrown) =>
          logWarning("spark_sched has no part in dynamic allocation: it may ask for executors that a plan leaves idle", thrown)
          None
      }
    }
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
