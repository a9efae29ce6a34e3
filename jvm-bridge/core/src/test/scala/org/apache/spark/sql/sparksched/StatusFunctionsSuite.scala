package org.apache.spark.sql.sparksched

import java.util.concurrent.atomic.AtomicInteger

import org.apache.spark.scheduler.{SparkListener, SparkListenerJobStart}
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.LocalTableScanExec
import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite
import schedcore.marks.SessionUsers

/** The status in SQL: what a call costs, and whose it is. */
final class StatusFunctionsSuite extends AnyFunSuite with BeforeAndAfterAll {
  private lazy val spark = SparkSession.builder().master("spark-sched:local[1]").config("spark.ui.enabled", "false")
    .config("spark.sched.planner.enabled", "false").getOrCreate().asInstanceOf[SparkSession]
  private def context = spark.sparkContext

  override def afterAll(): Unit = spark.stop()

  private val Status = "SELECT * FROM spark_sched_status()"

  test("the document is a constant of the plan, made anew for each query, and no Spark job runs for it") {
    val jobs = new AtomicInteger
    context.addSparkListener(new SparkListener { override def onJobStart(start: SparkListenerJobStart): Unit = jobs.incrementAndGet() })
    val queries = Seq(Status, "SELECT document FROM spark_sched_explain('nobody') WHERE length(document) > 0").map(spark.sql(_))
    queries.foreach { query =>
      assert(query.queryExecution.executedPlan.isInstanceOf[LocalTableScanExec])
      assert(query.collect().map(_.getString(0)).forall(_.contains("\"schema\"")))
      // Spark's pages show plans.
      assert(!query.queryExecution.toString.contains("\"schema\""))
    }
    context.listenerBus.waitUntilEmpty()
    assert(jobs.get === 0)
    assert(spark.range(0, 4, 1, 2).collect().length === 4)
    context.listenerBus.waitUntilEmpty()
    assert(jobs.get === 1)
    val asked = (1 to 2).map { _ => Thread.sleep(2); spark.sql(Status).collect().head.getString(0) }
    assert(asked.distinct.size === 2, "each has its own time")
  }

  test("an argument that is no text is refused with the function's usage") {
    def refused(call: String): String = intercept[RefusedStatus](spark.sql(s"SELECT * FROM $call")).getMessage
    assert(refused("spark_sched_status('a')").contains("spark_sched_status takes no argument"))
    for (given <- Seq("", "1", "NULL", "'a', 'b'", "concat('a', 'b')"))
      assert(refused(s"spark_sched_explain($given)").contains("takes one argument, the key, id or name of a job as a text"), given)
  }

  test("a statement's user is that of its job group, unless the session has SET the group, and comes with the listener bus") {
    val users = new SessionUsers
    val session = spark.newSession().asInstanceOf[SparkSession]
    def asked(group: String): Option[String] = {
      context.setLocalProperty("spark.jobGroup.id", group)
      try StatementUser.of(session, users) finally context.setLocalProperty("spark.jobGroup.id", null)
    }
    assert(asked(null) === None)
    users.learned(session.sessionUUID, "first") // a session that users share
    assert(asked(null) === None)
    val late = new Thread(() => { Thread.sleep(50); users.groupStarted("statement", "alice") })
    late.start()
    assert(asked("statement") === Some("alice"))
    late.join()
    session.sessionState.conf.setConfString("spark.jobGroup.id", "statement")
    assert(asked("statement") === None)
  }

  test("a tag of Spark Connect names the user, unless the session has SET it") {
    val some = "01234567-89ab-cdef-0123-456789abcdef"
    val tag = s"SparkConnect_OperationTag_User_alice_Session_${some}_Operation_$some"
    val session = spark.newSession().asInstanceOf[SparkSession]
    context.setLocalProperty("spark.job.tags", tag)
    try {
      assert(StatementUser.of(session, new SessionUsers) === Some("alice"))
      session.sessionState.conf.setConfString("spark.job.tags", tag)
      assert(StatementUser.of(session, new SessionUsers) === None)
    } finally context.setLocalProperty("spark.job.tags", null)
  }
}
