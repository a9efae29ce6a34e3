package org.apache.spark.scheduler.sparksched
package backend

import scala.jdk.CollectionConverters._

import org.apache.spark.{SparkConf, SparkContext}
import org.apache.spark.scheduler._
import org.apache.spark.scheduler.local.LocalSchedulerBackend
import org.scalatest.funsuite.AnyFunSuite

class StockSchedulerSuite extends AnyFunSuite with Waiting {
  private def timers: Int = Thread.getAllStackTraces.keySet.asScala.count(_.getName == "task-starvation-timer")

  test("what the inner master's manager adds to Spark's scheduler stays: racks and the hook, once, and no threads are left") {
    val conf = new SparkConf(loadDefaults = false).setMaster(RackManager.Master).setAppName("racks")
      .set("spark.plugins", classOf[SchedPlugin].getName).set("spark.ui.enabled", "false").set("spark.sched.planner.enabled", "false")
    val before = timers
    RackManager.hooks = Nil
    val context = new SparkContext(conf)
    try {
      assert(SparkSched.attached(context) && context.master == RackManager.Master)
      assert(RackManager.hooks == Seq("of the backend that runs"))
      val ours = context.taskScheduler.asInstanceOf[SchedTaskScheduler]
      assert(ours.getRacksForHosts(Seq("a", "b")) == Seq(Some("rack of a"), Some("rack of b")))
      assert(context.range(0, 10, numSlices = 2).sum() == 45.0)
    } finally context.stop()
    until(timers <= before)
  }
}

/** Builds a scheduler that knows racks, as YARN's does. */
class RackManager extends ExternalClusterManager {
  override def canCreate(masterURL: String): Boolean = masterURL == RackManager.Master
  override def createTaskScheduler(context: SparkContext, masterURL: String): TaskScheduler = new TaskSchedulerImpl(context) {
    override def getRacksForHosts(hosts: Seq[String]): Seq[Option[String]] = hosts.map(host => Some(s"rack of $host"))
    override def postStartHook(): Unit = {
      super.postStartHook()
      RackManager.hooks :+= (if (backend eq context.schedulerBackend) "of the backend that runs" else "of another")
    }
  }
  override def createSchedulerBackend(context: SparkContext, masterURL: String, scheduler: TaskScheduler): SchedulerBackend =
    new LocalSchedulerBackend(context.getConf, scheduler.asInstanceOf[TaskSchedulerImpl], 2)
  override def initialize(scheduler: TaskScheduler, backend: SchedulerBackend): Unit = ()
}

object RackManager {
  val Master = "k8s://racks"
  @volatile var hooks: Seq[String] = Nil
}
