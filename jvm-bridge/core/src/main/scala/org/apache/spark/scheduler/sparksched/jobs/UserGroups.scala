package org.apache.spark.scheduler.sparksched
package jobs

import java.util.concurrent.{Callable, ExecutionException, ExecutorService, Future, TimeUnit, TimeoutException}

import scala.collection.mutable
import scala.util.control.NonFatal

import org.apache.spark.SparkConf
import org.apache.spark.internal.Logging
import org.apache.spark.internal.config.UI.USER_GROUPS_MAPPING
import org.apache.spark.security.GroupMappingServiceProvider
import org.apache.spark.util.{ThreadUtils, Utils}

/**
 * The groups of users, by the provider that `spark.user.groups.mapping` names, as for Spark's ACLs.
 *
 * A provider may ask a server that is slow or away, so that it is asked in threads of its own. `learn` waits for the first answer about a
 * user, for a limited time and without the scheduler's lock. `known` never waits. An answer is kept for some minutes; then the user is
 * asked about again, and the old answer counts until there is a new one. After a failure the next try is a minute later, and a provider
 * that gave no answer in time is not waited for during the next minute, whatever user it is asked about.
 *
 * @param ask the provider
 * @param limitMs how long `learn` waits
 */
private[sparksched] final class UserGroups(
    ask: String => Set[String], threads: ExecutorService, limitMs: Long = UserGroups.LimitMs, nowNs: () => Long = () => System.nanoTime())
    extends Logging {
  import UserGroups._

  private final class Entry(val asked: Future[Set[String]], val sinceNs: Long, before: Option[Set[String]]) {
    /** The last answer; None: there has been none. */
    def groups: Option[Set[String]] = answer.orElse(before)
    def answer: Option[Set[String]] =
      if (!asked.isDone) None
      else try Some(asked.get()) catch { case _: ExecutionException => None }
    def isOver: Boolean = asked.isDone && nowNs() - sinceNs > (if (answer.isDefined) KeptNs else RetryNs)
  }

  // When it last gave no answer in time. It is not waited for soon again: the others would wait for each user of it.
  @volatile private var silentNs = Option.empty[Long]
  private val entries = mutable.LinkedHashMap.empty[String, Entry]

  /** The user's groups as far as they are known now; None: they are not. */
  def known(user: String): Option[Set[String]] = synchronized(entries.get(user)).flatMap(_.groups)

  /** Asks about the user where that is due, and waits for a limited time if nothing is known. */
  def learn(user: String): Unit = {
    val (entry, isNew) = synchronized {
      val old = entries.get(user)
      if (old.exists(!_.isOver)) (old.get, false)
      else {
        val entry = new Entry(threads.submit(new Callable[Set[String]] {
          override def call(): Set[String] = answered(user)
        }), nowNs(), old.flatMap(_.groups))
        entries -= user
        entries(user) = entry
        if (entries.size > MostUsers) entries -= entries.head._1
        (entry, true)
      }
    }
    val waits = isNew && entry.groups.isEmpty && !silentNs.exists(nowNs() - _ <= RetryNs)
    if (waits) try entry.asked.get(limitMs, TimeUnit.MILLISECONDS) catch {
      case _: TimeoutException =>
        silentNs = Some(nowNs())
        logWarning(s"spark_sched: the groups of a user are unknown: no answer within $limitMs ms")
      case _: ExecutionException => // It is logged where it failed.
    }
  }

  private def answered(user: String): Set[String] = try {
    // Programs that providers run take it for an option.
    if (user.isEmpty || user.startsWith("-")) throw new IllegalArgumentException("no such user name is asked for")
    ask(user)
  } catch {
    case NonFatal(thrown) =>
      logWarning("spark_sched: the groups of a user are unknown", thrown)
      throw thrown
  }

  def stop(): Unit = threads.shutdownNow()
}

private[sparksched] object UserGroups {
  val LimitMs = 2000L
  private val KeptNs = TimeUnit.MINUTES.toNanos(5)
  private val RetryNs = TimeUnit.MINUTES.toNanos(1)
  private val MostUsers = 10000
  private val MostThreads = 4

  def of(conf: SparkConf): UserGroups = {
    lazy val provider = conf.get(USER_GROUPS_MAPPING) match {
      case "" => throw new IllegalStateException(s"${USER_GROUPS_MAPPING.key} is empty")
      case name => Utils.classForName[GroupMappingServiceProvider](name).getConstructor().newInstance()
    }
    new UserGroups(provider.getGroups(_), ThreadUtils.newDaemonCachedThreadPool("spark-sched-groups", MostThreads))
  }
}
