package org.apache.spark.scheduler.sparksched

import java.util.concurrent.atomic.AtomicInteger

import org.scalatest.funsuite.AnyFunSuite
import schedcore.Settings

/** With another program in Python's place, mostly one that ends at once. */
final class PlannerProcessSuite extends AnyFunSuite with Waiting {

  private def running(backoff: String, onStart: () => Unit, python: String = "/bin/true")(test: PlannerProcess => Unit): Unit = {
    val settings = Settings.from(Map(
      "spark.sched.planner.python" -> python, "spark.sched.planner.restartBackoff" -> backoff,
      "spark.sched.planner.restartBackoffMax" -> backoff))
    val planner = new PlannerProcess(settings.planner, new PlannerEntry(null), "a test", onStart)
    try {
      planner.start()
      test(planner)
    } finally planner.stop(patient = false)
  }

  override protected def mostMinutes: Long = 2L

  for (thrown <- Seq(new IllegalStateException("a test"), new OutOfMemoryError("unable to create native thread")))
    test(s"the next planner is started though one could not be for ${thrown.getClass.getSimpleName}") {
      val tried = new AtomicInteger
      running("1ms", () => if (tried.incrementAndGet() == 1) throw thrown)(planner => until(planner.counters("planner_starts") >= 2))
    }

  test("from the death of a planner on, and not from the start of the next one, what happens is kept for that") {
    val told = new AtomicInteger
    running("10min", () => told.incrementAndGet()) { planner =>
      until(told.get == 2)
      assert(planner.counters("planner_starts") === 1)
    }
  }

  test("an application that is given up while it waits for its planner leaves none") {
    SilentPlanner(python => running("10min", () => (), python) { planner =>
      until(planner.counters("planner_pid") > 0)
      Thread.currentThread.interrupt()
      intercept[InterruptedException](planner.refusal())
      until(planner.counters("planner_pid") == -1)
    })
  }
}
