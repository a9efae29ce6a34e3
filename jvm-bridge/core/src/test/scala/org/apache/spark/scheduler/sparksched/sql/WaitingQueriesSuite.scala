package org.apache.spark.scheduler.sparksched
package sql

import org.scalatest.funsuite.AnyFunSuite

import scala.collection.mutable

/** When people are told that a time limit of Spark's runs out while a query waits for slots. */
final class WaitingQueriesSuite extends AnyFunSuite {
  private val told = mutable.ArrayBuffer.empty[(String, String)]
  private def made(application: (String, String)*) = {
    told.clear()
    new WaitingQueries(application.toMap.get, (job, sentence) => told += job -> sentence)
  }

  private val limit = "spark.sql.broadcastTimeout"
  private val adaptive = "spark.sql.adaptive.enabled"
  private val tag = "spark.job.tags" -> "mine,broadcast exchange (runId 7f3a)"

  private def start(
      queries: WaitingQueries, stage: String, nowMs: Long, isStatement: Boolean, properties: (String, String)*): Unit =
    queries.stageStarted(stage, "sql-4", "report", 11, isStatement, (Map(adaptive -> "false") ++ properties).get, nowMs)

  test("a broadcast that waits for half of the session's limit is told of once") {
    val queries = made(limit -> "600")
    start(queries, "0.0", 1000, isStatement = false, tag, limit -> "4s")
    queries.look(_ => true, 2999)
    assert(told === Nil)
    queries.look(_ => true, 3000)
    assert(told.map(_._1) === Seq("sql-4"))
    assert(told.head._2.startsWith("waits for slots, and half of spark.sql.broadcastTimeout (4 s) is over"))
    queries.look(_ => true, 3500)
    // A later stage of the same broadcast is no other query.
    queries.stageEnded("0.0")
    start(queries, "1.0", 3600, isStatement = false, tag, limit -> "4s")
    queries.look(_ => true, 9000)
    assert(told.size === 1)
  }

  test("the time of a broadcast counts from its first stage") {
    val queries = made()
    start(queries, "0.0", 0, isStatement = false, tag, limit -> "4")
    start(queries, "1.0", 1900, isStatement = false, tag, limit -> "4")
    queries.look(_ == "1.0", 2000)
    assert(told.size === 1)
  }

  test("the time of a statement goes on from stage to stage, and begins with each statement of a job") {
    val queries = made("spark.sql.thriftServer.queryTimeout" -> "60")
    def of(execution: Int) = "spark.sql.execution.id" -> execution.toString
    start(queries, "0.0", 0, isStatement = true, of(7))
    queries.stageEnded("0.0")
    start(queries, "1.0", 25000, isStatement = true, of(7))
    start(queries, "2.0", 25000, isStatement = true, of(8))
    queries.look(_ => true, 29999)
    assert(told === Nil)
    queries.look(_ => true, 30000)
    assert(told.size === 1)
    queries.look(_ => true, 55000)
    assert(told.size === 2)
  }

  test("what runs or ended is not told of, nor what has no limit") {
    val queries = made(limit -> "4")
    start(queries, "0.0", 0, isStatement = false, tag)
    queries.look(_ => false, 100000)
    queries.stageEnded("0.0")
    start(queries, "1.0", 0, isStatement = false, limit -> "4") // no broadcast
    start(queries, "2.0", 0, isStatement = false, tag, limit -> "-1")
    start(queries, "3.0", 0, isStatement = true) // the limit of statements is off by default
    start(queries, "4.0", 0, isStatement = true, "spark.sql.thriftServer.queryTimeout" -> "soon")
    start(queries, "5.0", 0, isStatement = false, tag, adaptive -> "true")
    queries.stageStarted("6.0", "sql-4", "report", 11, isStatement = false, Map(tag, limit -> "4").get, 0) // adaptive by default
    queries.look(_ => true, 100000)
    assert(told === Nil && queries.watched === 0)
  }

  test("the application's limits apply where the session sets none, and Spark's defaults where nobody does") {
    val queries = made("spark.sql.thriftServer.queryTimeout" -> "1min")
    start(queries, "0.0", 0, isStatement = true)
    queries.look(_ => true, 29999)
    assert(told === Nil)
    queries.look(_ => true, 30000)
    assert(told.head._2.contains("spark.sql.thriftServer.queryTimeout (60 s)"))
    start(queries, "1.0", 0, isStatement = false, tag)
    queries.look(_ == "1.0", 149999)
    assert(told.size === 1)
    queries.look(_ == "1.0", 150000)
    assert(told.last._2.contains("spark.sql.broadcastTimeout (300 s)"))
  }

  test("a statement whose limit is over before that of its broadcast is told of in time") {
    val queries = made("spark.sql.thriftServer.queryTimeout" -> "60", limit -> "300")
    start(queries, "0.0", 0, isStatement = true, tag)
    queries.look(_ => true, 30000)
    assert(told.size === 1 && told.head._2.contains("spark.sql.thriftServer.queryTimeout (60 s)"))
    queries.look(_ => true, 150000)
    assert(told.size === 2 && told.last._2.contains("spark.sql.broadcastTimeout (300 s)"))
    queries.stageEnded("0.0")
    assert(queries.watched === 0)
  }
}
