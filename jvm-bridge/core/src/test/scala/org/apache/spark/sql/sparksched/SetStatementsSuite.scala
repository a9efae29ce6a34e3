package org.apache.spark.sql.sparksched

import org.scalatest.BeforeAndAfterEach
import org.scalatest.funsuite.AnyFunSuite
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.internal.SQLConf

/** What sessions may set in one application after another of the same JVM. */
final class SetStatementsSuite extends AnyFunSuite with BeforeAndAfterEach {
  override def afterEach(): Unit = {
    SparkSession.getActiveSession.orElse(SparkSession.getDefaultSession).foreach(_.stop())
    SparkSession.clearActiveSession()
    SparkSession.clearDefaultSession()
  }

  private val (priority, isolation, deadline) = ("spark.sched.job.priority", "spark.sched.job.isolation", "spark.sched.job.deadline")

  private def started(settings: (String, String)*): SparkSession = {
    val builder = SparkSession.builder().master("spark-sched:local[1]").config("spark.ui.enabled", "false").config("spark.sched.planner.enabled", "false")
    settings.foldLeft(builder) { case (b, (key, value)) => b.config(key, value) }.getOrCreate().asInstanceOf[SparkSession]
  }

  private def refused(body: => Any): String = intercept[IllegalArgumentException](body).getMessage

  test("each application of a JVM has its own limits, and its own configuration never stops a session") {
    val first = started("spark.sched.limits.marks" -> "name,priority")
    assert(refused(first.conf.set(isolation, "0.5")).contains("spark.sched.limits.marks leaves it out"))
    assert(refused(first.conf.set(priority, "high")).contains("spark.sched.job.priority is 'high' but must be a whole number"))
    first.conf.set(priority, "5")
    first.stop()
    // Between two applications there is nothing to judge by.
    new SQLConf().setConfString(priority, "high")

    val configured = Seq(priority -> "high", deadline -> "2001-01-01T00:00", "spark.sched.limits.marks" -> "isolation")
    val second = started(configured: _*)
    assert(second.range(3).cache().count() === 3)
    val sessions = Seq(second, second.newSession().asInstanceOf[SparkSession], second.cloneSession())
    for (session <- sessions; (key, value) <- configured.init) {
      assert(session.conf.get(key) === value)
      session.sql(s"SET $key=$value")
      session.sql(s"RESET $key")
      session.sql("RESET")
      session.conf.set(key, value)
      assert(session.conf.get(key) === value)
    }
    second.conf.set(isolation, "0.5")
    assert(refused(second.conf.set(priority, "3")).contains("spark.sched.limits.marks leaves it out"))
  }
}
