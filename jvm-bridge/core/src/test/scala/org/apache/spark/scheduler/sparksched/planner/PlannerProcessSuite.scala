package org.apache.spark.scheduler.sparksched
package planner

import java.io.{InputStream, OutputStream}
import java.nio.file.Files
import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicInteger

import org.apache.spark.SparkConf
import org.scalatest.funsuite.AnyFunSuite
import schedcore.settings.Settings

/** With another program in Python's place, mostly one that ends at once. */
final class PlannerProcessSuite extends AnyFunSuite with Waiting {

  private def running(backoff: String, onStart: () => Unit, python: String = "/bin/true")(test: PlannerProcess => Unit): Unit = {
    val settings = Settings.from(Map(
      "spark.sched.planner.python" -> python, "spark.sched.planner.restartBackoff" -> backoff,
      "spark.sched.planner.restartBackoffMax" -> backoff))
    val planner = new PlannerProcess(settings.planner, new PlannerPythons(Seq(python)), new PlannerEntry(null), "a test", onStart)
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
    val planner = new PlannerProcess(settings.planner, new PlannerPythons(Seq("python3")), new PlannerEntry(null), "a test", () => ())
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

  private def program(lines: String*): String = {
    val file = Files.createTempFile("spark-sched-test", "")
    Files.write(file, (("#!/bin/sh" +: lines).mkString("", "\n", "\n")).getBytes)
    file.toFile.setExecutable(true)
    file.toFile.deleteOnExit()
    file.toString
  }

  private val without = program("echo \"$0: No module named spark_sched\" >&2", "exit 1")
  private val nowhere = "/nowhere/python3"

  private def trying(pythons: String*)(test: PlannerProcess => Unit): Unit = {
    val planner = new PlannerProcess(Settings.from(Map.empty).planner, new PlannerPythons(pythons), new PlannerEntry(null), "a test", () => ())
    try {
      planner.start()
      test(planner)
    } finally planner.stop(patient = false)
  }

  test("where no Python has a planner, that is said once, with each reason, and nobody waits for one") {
    val lines = LoggedLines.of(classOf[PlannerProcess].getName)(trying(nowhere, without) { planner =>
      assert(planner.refusal() === None)
      assert(planner.counters("planner_starts") === 1)
    })
    val said = lines.filter(_.contains("No planner runs"))
    assert(said.size === 1, lines)
    assert(said.head.contains(s"$nowhere: No such file or directory; $without: No module named spark_sched"), said)
    assert(!lines.exists(_.contains("could not be started")), lines)
  }

  test("a Python without a planner is passed over for one that may have one") {
    SilentPlanner(python => trying(nowhere, without, python)(planner => until(planner.counters("planner_pid") > 0 && planner.counters("planner_starts") == 2)))
  }

  test("the application's Python is tried before the usual one, unless one is given for the planner") {
    def of(settings: (String, String)*): Seq[String] = {
      val conf = new SparkConf(false).setAll(settings)
      PlannerPythons.of(conf, Settings.from(conf.getAll.toMap).planner)
    }
    assert(of("spark.pyspark.python" -> "/a/python").head === "/a/python")
    assert(of("spark.pyspark.python" -> "/a/python").last === "python3")
    assert(of("spark.pyspark.python" -> "/a/python", "spark.sched.planner.python" -> "/b/python") === Seq("/b/python"))
  }
}
