package org.apache.spark.scheduler.sparksched
package sql

import scala.collection.mutable
import scala.util.Try

import org.apache.spark.internal.Logging
import org.apache.spark.network.util.JavaUtils

/**
 * Queries that wait for slots while a time limit of Spark's own runs, which does not know why they wait: once half of the limit is
 * over, the job's story and the log say so, once for each query. Used under the scheduler's lock only.
 *
 * These limits count waiting time: that of a broadcast, unless the query is adaptive, and that of a Thrift server's statement. A limit
 * that a JDBC client sets for one statement is not seen in the driver.
 *
 * @param application a setting of the application, for what the session does not set
 * @param tell writes a sentence into a job's story
 */
private[sparksched] final class WaitingQueries(application: String => Option[String], tell: (String, String) => Unit) extends Logging {
  import WaitingQueries._

  private val byStage = mutable.HashMap.empty[String, Seq[Query]]
  // When the first stage of each could start. Later stages come when earlier ones are over.
  private val sinceMs = mutable.LinkedHashMap.empty[String, Long]
  private val warned = mutable.LinkedHashSet.empty[String]

  /**
   * A stage may start its tasks.
   *
   * @param sparkJob that submitted it
   * @param isStatement whether a Thrift server runs it
   * @param property a local property of the Spark job; Spark copies the session's SQL settings there
   */
  def stageStarted(
      stage: String, job: String, name: String, sparkJob: Int, isStatement: Boolean, property: String => Option[String],
      nowMs: Long): Unit = {
    def limit(setting: String, default: String): Option[Long] =
      Try(1000L * JavaUtils.timeStringAsSec(property(setting).orElse(application(setting)).getOrElse(default))).toOption.filter(_ > 0)
    // Adaptive execution waits for a broadcast without a limit, and asks for it when it is there.
    def isAdaptive = property(Adaptive).orElse(application(Adaptive)).forall(_.trim.equalsIgnoreCase("true"))
    val broadcast = SqlOutlook.broadcasts(property).headOption.filterNot(_ => isAdaptive)
    val execution = property(SqlOutlook.ExecutionId)
    // A statement may be cancelled before the limit of its broadcast is over.
    val found =
      broadcast.flatMap(id => limit(Broadcast, "300").map((Broadcast, _, id))).toList ++
        Option.when(isStatement)(limit(Statement, "0")).flatten.map((Statement, _, execution.getOrElse(job)))
    if (found.nonEmpty) byStage(stage) = found.map { case (setting, limitMs, id) =>
      val since = sinceMs.getOrElseUpdate(id, nowMs)
      if (sinceMs.size > MostKnown) sinceMs -= sinceMs.head._1
      Query(id, job, s"query ${execution.getOrElse(s"of Spark job $sparkJob")} of job $name", setting, limitMs, since)
    }
  }

  def stageEnded(stage: String): Unit = byStage -= stage

  /** @param waits whether a stage has tasks that wait, and none that runs */
  def look(waits: String => Boolean, nowMs: Long): Unit = if (byStage.nonEmpty) for ((stage, queries) <- byStage; q <- queries) {
    if (nowMs - q.sinceMs >= q.limitMs / 2 && !warned(q.id) && waits(stage)) {
      warned += q.id
      if (warned.size > MostKnown) warned -= warned.head
      val sentence = s"waits for slots, and half of ${q.setting} (${q.limitMs / 1000} s) is over, which counts this time: Spark fails the " +
        "query when all of it is. Give the query a priority, a pool with a minimum share, or a longer limit"
      tell(q.job, sentence)
      // What people typed must not look like further lines.
      logWarning(s"spark_sched: ${q.words.replaceAll("\\p{Cntrl}", " ")} $sentence")
    }
  }

  /** Stages that are watched. */
  def watched: Int = byStage.size
}

private[sparksched] object WaitingQueries {
  private val Broadcast = "spark.sql.broadcastTimeout"
  private val Adaptive = "spark.sql.adaptive.enabled" // by default it is
  private val Statement = "spark.sql.thriftServer.queryTimeout"

  /** Queries of which the start is known, and which are not warned of again. */
  private val MostKnown = 10000

  /**
   * @param id of what the limit is for: a broadcast, or a statement
   * @param words for people
   * @param sinceMs when its first stage could start
   */
  private final case class Query(id: String, job: String, words: String, setting: String, limitMs: Long, sinceMs: Long)
}
