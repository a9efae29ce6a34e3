package org.apache.spark.scheduler.sparksched

import java.nio.file.Files

import org.apache.spark.{SparkConf, SparkContext}
import org.apache.spark.scheduler.sparksched.planner.PlannerProcess
import org.scalatest.funsuite.AnyFunSuite

final class StopSuite extends AnyFunSuite {

  test("an application that ends without a planner says how many jobs its history lacks, and waits for none that cannot start") {
    val history = Files.createTempFile("history", ".db")
    try {
      val context = new SparkContext(new SparkConf().setMaster("spark-sched:local[2]").setAppName("no planner")
        .set("spark.ui.enabled", "false").set("spark.sched.planner.python", "/bin/false").set("spark.sched.planner.restartBackoff", "1h")
        .set("spark.sched.planner.restartBackoffMax", "1h").set("spark.sched.planner.drainTimeout", "1h")
        .set("spark.sched.history.path", history.toString))
      val lines = LoggedLines.of(classOf[PlannerProcess].getName) {
        try for (_ <- 1 to 2) context.parallelize(1 to 2, 2).count()
        finally context.stop()
      }
      assert(lines.exists(_.contains("what it keeps lacks 2 of the jobs that ended")), lines)
    } finally Files.delete(history)
  }

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
