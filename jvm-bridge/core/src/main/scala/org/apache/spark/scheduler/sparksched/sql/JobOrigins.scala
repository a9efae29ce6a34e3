package org.apache.spark.scheduler.sparksched
package sql

import java.util.Properties

import scala.util.control.NonFatal

import org.apache.spark.SparkContext
import org.apache.spark.internal.Logging
import org.apache.spark.scheduler.SparkListenerEvent
import org.apache.spark.sql.sparksched.SqlSessions
import schedcore.marks.{Origin, SessionUsers, StatementEnd}

/**
 * The origins of Spark jobs: their SQL sessions, and the sessions' users.
 *
 * A driver without Spark SQL has none: nothing is in a session there, and nobody can `SET` anything.
 */
private[sparksched] final class JobOrigins(context: SparkContext, users: SessionUsers) extends Logging {
  private var warned = false
  private lazy val sessions: Option[SqlSessions] =
    try Some(new SqlSessions(context, users)) catch { case _: LinkageError => None }

  /** Forbids settings that only Spark itself may give to a Spark job. */
  def start(): Unit =
    try sessions.foreach(_.protectSettings())
    catch { case thrown @ (NonFatal(_) | _: LinkageError) => logWarning("spark_sched cannot protect settings of SQL sessions", thrown) }

  def of(properties: Properties): Origin =
    if (properties == null) Origin()
    else try sessions.fold(Origin())(_.originOf(properties))
    catch {
      case thrown @ (NonFatal(_) | _: LinkageError) =>
        if (!warned) logWarning("spark_sched cannot tell whose a Spark job is: its local properties are not trusted", thrown)
        warned = true
        Origin.nobody(key => Option(properties.getProperty(key)))
    }

  /** A Spark Connect server may be there. */
  def connectSeen(): Unit = sessions.foreach(_.connectSeen())

  /** What the start and the end of a SQL execution say of its session. */
  def executionStarted(event: SparkListenerEvent): Unit = sessions.foreach(_.executionStarted(event))
  /** @return what is over; None where the event came from elsewhere */
  def executionEnded(event: SparkListenerEvent): Option[StatementEnd] = sessions.flatMap(_.executionEnded(event))

  /** A server runs a job group for this user. */
  def groupStarted(group: String, user: String): Unit = users.groupStarted(group, user)
}
