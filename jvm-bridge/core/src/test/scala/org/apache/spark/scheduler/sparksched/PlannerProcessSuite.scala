package org.apache.spark.scheduler.sparksched

import java.io.{InputStream, OutputStream}
import java.util.concurrent.TimeUnit
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

  /** A process that takes its time to end, as one does that waits for a disk. */
  private final class SlowToEnd extends Process {
    val kills = new AtomicInteger
    private val looks = new AtomicInteger
    override def getOutputStream: OutputStream = OutputStream.nullOutputStream()
    override def getInputStream: InputStream = InputStream.nullInputStream()
    override def getErrorStream: InputStream = InputStream.nullInputStream()
    override def pid: Long = 1L
    override def exitValue: Int = 137
    override def destroy(): Unit = kills.incrementAndGet()
    override def destroyForcibly(): Process = {
      destroy()
      this
    }
    override def waitFor(): Int = exitValue
    override def waitFor(timeout: Long, unit: TimeUnit): Boolean = {
      Thread.sleep(5)
      kills.get > 0 && looks.incrementAndGet() > 5
    }
  }

  test("a planner that is silent for too long is counted, logged and killed once, however long its process takes to end") {
    val settings = Settings.from(Map("spark.sched.planner.stallTimeout" -> "1s", "spark.sched.planner.startTimeout" -> "1s"))
    val planner = new PlannerProcess(settings.planner, new PlannerEntry(null), "a test", () => ())
    val process = new SlowToEnd
    val lines = LoggedLines.of(classOf[PlannerProcess].getName)(planner.watch(process))
    assert(process.kills.get === 1)
    assert(planner.counters("planner_stalls") === 1)
    assert(lines.count(_.contains("has been silent for too long")) === 1, lines)
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
