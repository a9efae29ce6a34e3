package org.apache.spark.scheduler.sparksched
package jobs

import scala.annotation.tailrec
import scala.collection.mutable
import scala.util.Try

import schedcore.marks.SessionUsers

/**
 * Waits for the users of a Thrift server's statements. The server reports them on Spark's listener bus, which is asynchronous: the first
 * stage of a session's first statement may come before the report, and its job would be the application's user's, in the queue of that.
 *
 * The report was posted before the statement began, so that it is on its way. After a wait in vain nobody is waited for within a minute: the
 * bus is overloaded, or has dropped the report. For the same job group nobody waits again: it may be that of a stream, which is a UUID, too.
 *
 * @param served whether a Thrift server runs in this JVM
 * @param pause waits for some milliseconds
 */
private[sparksched] final class StatementUsers(
    users: SessionUsers, served: () => Boolean = () => StatementUsers.serverThere, nowNs: () => Long = () => System.nanoTime(),
    pause: Long => Unit = Thread.sleep(_)) {
  import StatementUsers._

  private var silentNs = Option.empty[Long]
  private val silent = mutable.LinkedHashSet.empty[String] // the latest job groups that were awaited in vain

  /** Called in the thread of Spark's DAG scheduler, without the scheduler's lock. @param group the job group of a stage that comes */
  def await(group: String): Unit =
    if (Statement.matcher(group).matches && users.ofGroup(group).isEmpty && !silent(group) && !silentNs.exists(nowNs() - _ <= RetryNs) && served()) {
      silentNs = None
      if (!known(group, nowNs() + LimitNs)) {
        silentNs = Some(nowNs())
        silent += group
        if (silent.size > MostSilent) silent -= silent.head
      }
    }

  @tailrec private def known(group: String, untilNs: Long): Boolean =
    if (users.ofGroup(group).isDefined) true
    else if (nowNs() - untilNs > 0) false
    else { pause(PauseMs); known(group, untilNs) }
}

private object StatementUsers {
  private val LimitNs = 2000000000L
  private val RetryNs = 60000000000L
  private val PauseMs = 5L
  private val MostSilent = 1000
  /** The server gives its statements UUIDs as job groups. */
  private val Statement = java.util.regex.Pattern.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

  /** Spark keeps the class to itself. It has a listener as soon as a server was started. */
  def serverThere: Boolean = Try {
    val server = Class.forName("org.apache.spark.sql.hive.thriftserver.HiveThriftServer2$").getField("MODULE$").get(null)
    server.getClass.getMethod("listener").invoke(server) != null
  }.getOrElse(false)
}
