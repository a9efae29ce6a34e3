package org.apache.spark.sql.sparksched

import java.util.concurrent.ConcurrentHashMap
import java.lang.ref.WeakReference

import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.SparkContext
import org.apache.spark.scheduler.sparksched.SparkSched
import org.apache.spark.sql.{SparkSession, SparkSessionExtensions, SparkSessionExtensionsProvider}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.command.ResetCommand
import schedcore.marks.{JobMark, MarkSources}
import SqlLine.Session

/**
 * Sees each SQL session, and each plan that it analyses, in the thread that analyses it. Changes no plan, and refuses a `SET` that would
 * not count. Adds the functions that read the status. Spark finds it by
 * its service file, in all sessions of applications with the bridge on their class path; also in those that the bridge does
 * not fit and leaves to Spark's own scheduler. There it does nothing.
 */
final class SessionExtensions extends SparkSessionExtensionsProvider {
  override def apply(extensions: SparkSessionExtensions): Unit = {
    extensions.injectCheckRule { session =>
      if (!SparkSched.attached(session.sparkContext)) _ => ()
      else {
        SeenSessions.add(session)
        plan => {
          SeenSessions.analysed(session, plan)
          SetStatements.check(session, plan)
        }
      }
    }
    // The context is there before any session is.
    if (SparkContext.getActive.exists(SparkSched.attached)) StatusFunctions.inject(extensions)
  }
}

/** The SQL sessions that are alive, and the marks of streaming queries' threads. */
private[sparksched] object SeenSessions {
  private val sessions = new ConcurrentHashMap[String, WeakReference[Session]]
  // By streaming query, the batch and the marks that the query's thread had when it began.
  private val batches = mutable.LinkedHashMap.empty[String, (String, Map[String, String])]

  def add(session: SparkSession): Unit = session match {
    case s: Session =>
      if (!sessions.containsKey(s.sessionUUID)) sessions.values.removeIf(_.get == null)
      sessions.put(s.sessionUUID, new WeakReference(s))
    case _ =>
  }

  def alive: Iterator[Session] = sessions.values.asScala.iterator.flatMap(s => Option(s.get))
  def get(id: String): Option[Session] = Option(sessions.get(id)).flatMap(s => Option(s.get))

  /** The marks that a streaming query's thread had when its batch began. */
  def marksAtBegin(query: String, batch: String): Option[Map[String, String]] =
    synchronized(batches.get(query)).collect { case (`batch`, marks) => marks }

  /** What goes wrong here must not make a query fail. */
  def analysed(session: SparkSession, plan: LogicalPlan): Unit =
    try session match {
      case s: Session =>
        batchMayBegin(s)
        plan match {
          case ResetCommand(Some(key)) if Blocks(key) => resetMarks(s)
          case _ =>
        }
      case _ =>
    } catch { case _: LinkageError | NonFatal(_) => }

  /** A micro-batch analyses its own plan first: what is in the thread then, no callback has set. */
  private def batchMayBegin(session: Session): Unit = {
    def local(key: String): Option[String] = Option(session.sparkContext.getLocalProperty(key))
    for (query <- local(JobMark.StreamingQuery); batch <- local(JobMark.StreamingBatch)) synchronized {
      if (!batches.get(query).exists(_._1 == batch)) {
        batches -= query
        batches(query) = batch -> new MarkSources(local, SqlSessions.originIn(session)).own
        if (batches.size > MostQueries) batches -= batches.head._1
      }
    }
  }

  /** `RESET` of a mark's name or id resets the whole mark: its priority, isolation and so on were meant for this job. */
  private def resetMarks(session: Session): Unit = {
    val (conf, defaults) = (session.sessionState.conf, session.sparkContext.getConf)
    JobMark.Fields.map(JobMark.Prefix + _).foreach { key =>
      defaults.getOption(key) match {
        case Some(value) => conf.setConfString(key, value)
        case None => conf.unsetConf(key)
      }
    }
  }

  private val Blocks = Set("id", "name").map(JobMark.Prefix + _)
  private val MostQueries = 1000
}
