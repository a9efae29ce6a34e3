package org.apache.spark.scheduler.sparksched

import java.nio.file.Files

import org.apache.spark.{SparkConf, SparkContext}
import org.scalatest.funsuite.AnyFunSuite

final class StopSuite extends AnyFunSuite {

  test("an interrupted thread ends all of the scheduler, though it has to wait for the planner") {
    val events = Files.createTempFile("events", ".jsonl")
    try SilentPlanner { python =>
      val context = new SparkContext(new SparkConf().setMaster("spark-sched:local[1]").setAppName("interrupted")
        .set("spark.ui.enabled", "false").set("spark.sched.planner.python", python).set("spark.sched.events.path", events.toString))
      try {
        val scheduler = context.taskScheduler.asInstanceOf[SchedTaskScheduler]
        while (scheduler.counters("planner_pid") == -1) Thread.sleep(5)
        Thread.currentThread.interrupt()
        scheduler.stop()
        assert(Thread.interrupted())
        assert(!SparkSched.attached(context))
      } finally {
        Thread.interrupted()
        context.stop()
      }
    } finally Files.delete(events)
  }
}
