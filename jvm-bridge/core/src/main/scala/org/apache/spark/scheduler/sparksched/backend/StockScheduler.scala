package org.apache.spark.scheduler.sparksched
package backend

import org.apache.spark.SparkContext
import org.apache.spark.scheduler.{SchedulerBackend, TaskScheduler, TaskSchedulerImpl}

/**
 * The scheduler that the inner master's own manager builds. It schedules nothing here, but it has what that manager adds
 * to Spark's scheduler: YARN's knows racks, and tells the ApplicationMaster that the context is there.
 */
private[sparksched] final class StockScheduler private (scheduler: TaskSchedulerImpl) {
  def getRacksForHosts(hosts: Seq[String]): Seq[Option[String]] = scheduler.getRacksForHosts(hosts)

  /** Also waits for the backend. */
  def postStartHook(backend: SchedulerBackend): Unit = {
    scheduler.backend = backend
    scheduler.postStartHook()
  }

  /** Ends its threads; the backend is not its own. */
  def stop(): Unit = {
    scheduler.backend = null
    scheduler.stop()
  }
}

private[sparksched] object StockScheduler {
  def apply(scheduler: TaskScheduler): Option[StockScheduler] = scheduler match {
    case spark: TaskSchedulerImpl => Some(new StockScheduler(spark))
    case _ => None
  }
}

/** A scheduler of ours that keeps the stock one's part, and has a part in dynamic allocation. */
private[sparksched] abstract class ManagedScheduler(
    context: SparkContext, maxTaskFailures: Int, isLocal: Boolean, stock: Option[StockScheduler])
    extends TaskSchedulerImpl(context, maxTaskFailures, isLocal) {

  /** The context makes Spark's after it has started this scheduler. */
  @volatile private[sparksched] var allocation = Option.empty[PlannedAllocation]

  /** First the stock one's, before there are executors: in cluster mode YARN gives none until it was told. */
  override def postStartHook(): Unit = {
    stock.foreach(_.postStartHook(backend))
    super.postStartHook()
  }

  override def getRacksForHosts(hosts: Seq[String]): Seq[Option[String]] =
    stock.fold(super.getRacksForHosts(hosts))(_.getRacksForHosts(hosts))

  override def stop(exitCode: Int): Unit = try stock.foreach(_.stop()) finally super.stop(exitCode)
}
