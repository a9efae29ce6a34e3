package org.apache.spark.scheduler.sparksched

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
