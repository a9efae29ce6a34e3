package org.apache.spark.scheduler.sparksched

import org.apache.spark.{SparkConf, SparkContext}
import org.apache.spark.scheduler.{SparkListener, SparkListenerEnvironmentUpdate}
import org.apache.spark.scheduler.sparksched.planner.PlannerEntry
import org.apache.spark.sql.SparkSession
import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite

/** Sees what Spark shows of an application's configuration. */
final class EnvironmentListener extends SparkListener {
  override def onEnvironmentUpdate(update: SparkListenerEnvironmentUpdate): Unit =
    EnvironmentListener.shown = update.environmentDetails.toString
}

object EnvironmentListener {
  @volatile var shown = ""
}

/** What users of an application may claim and see. */
final class TrustSuite extends AnyFunSuite with BeforeAndAfterAll {
  private lazy val context = new SparkContext(new SparkConf()
    .setMaster("spark-sched:local[2]").setAppName("trust").set("spark.ui.enabled", "false")
    .set("spark.extraListeners", classOf[EnvironmentListener].getName)
    .set("spark.redaction.regex", "nothing is redacted")
    .set("spark.sched.planner.enabled", "false")
    .set("spark.sched.history.path", "postgresql://sched@db/runs").set("spark.sched.history.password", "hunter2")
    .set("spark.sched.limits.maxPriority", "5"))
  private lazy val scheduler = context.taskScheduler.asInstanceOf[SchedTaskScheduler]

  override def afterAll(): Unit = context.stop()

  test("the history's password is in no configuration and in nothing that Spark shows, but the planner has it") {
    assert(!context.getConf.contains("spark.sched.history.password"))
    context.listenerBus.waitUntilEmpty()
    assert(EnvironmentListener.shown.contains("postgresql://sched@db/runs"))
    assert(!EnvironmentListener.shown.contains("hunter2"))
    assert(new PlannerEntry(scheduler).config().contains(""""spark.sched.history.password":"hunter2""""))
  }

  test("a mark above the limit is lowered to it and counted") {
    context.setLocalProperty("spark.sched.job.name", "greedy")
    context.setLocalProperty("spark.sched.job.priority", "2147483647")
    assert(context.parallelize(0 until 4, 2).count() === 4)
    assert(scheduler.counters("marks_limited") === 1)
    assert(scheduler.counters("marks_ignored") === 0)
    scheduler.books.events.restart() // what comes next is the whole state
    val priorities = scheduler.books.events.poll(1000, 0).events.collect { case e: schedcore.events.Event.JobStarted => e.mark.priority }
    assert(priorities === Seq(5))
  }

  test("a broadcast's tag counts as Spark's own, and not where a session has SET it") {
    context.setLocalProperty("spark.sched.job.name", null)
    val session = SparkSession.builder().config(context.getConf).getOrCreate().newSession()
    val broadcast = "broadcast exchange (runId 01234567-89ab-cdef-0123-456789abcdef)"
    def lastStages: Seq[Boolean] = {
      scheduler.books.events.poll(1000, 0) // From here on events are told one by one.
      assert(session.range(0, 4, 1, 2).collect().length === 4)
      scheduler.books.events.poll(1000, 0).events.collect { case e: schedcore.events.Event.StageStarted => e.last }
    }
    session.sql(s"SET spark.job.tags=$broadcast")
    assert(lastStages === Seq(true))
    session.sql("RESET spark.job.tags")
    context.addJobTag(broadcast)
    assert(lastStages === Seq(false))
    context.clearJobTags()
  }
}
