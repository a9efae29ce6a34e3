package org.apache.spark.scheduler.sparksched
package jobs

import org.apache.spark.internal.Logging
import org.apache.spark.scheduler.{JobSucceeded, SparkListener, SparkListenerEvent, SparkListenerJobEnd}
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd
import org.apache.spark.sql.streaming.StreamingQueryListener.{QueryProgressEvent, QueryTerminatedEvent}
import org.apache.spark.util.Utils

/**
 * Reads the ends of jobs, SQL executions and micro-batches, which Spark reports on the listener bus only. An overrun bus drops
 * events, so nothing depends on these alone.
 */
private[sparksched] final class JobEndListener(scheduler: SchedTaskScheduler) extends SparkListener with Logging {
  @volatile private var warned = false

  override def onJobEnd(end: SparkListenerJobEnd): Unit =
    scheduler.sparkJobEnded(end.jobId, failed = end.jobResult != JobSucceeded)

  /** Catches also errors that NonFatal lets pass, at which Spark would stop the application: a missed end is the smaller loss. */
  override def onOtherEvent(event: SparkListenerEvent): Unit =
    try heard(event)
    catch {
      case thrown @ (_: LinkageError | _: StackOverflowError) =>
        if (!warned) logWarning(s"spark_sched cannot read events such as ${event.getClass.getName}", thrown)
        warned = true
    }

  private def heard(event: SparkListenerEvent): Unit =
    // By name first: a driver without Spark SQL has no such class to compare with.
    event.getClass.getName match {
      case JobEndListener.SqlStart => scheduler.records.origins.executionStarted(event)
      case JobEndListener.SqlEnd => SqlEvents.executionEnded(event, scheduler)
      case JobEndListener.BatchEnd => SqlEvents.batchEnded(event, scheduler)
      case JobEndListener.StreamEnd => SqlEvents.streamEnded(event, scheduler)
      case JobEndListener.ThriftStart => JobEndListener.statementStarted(event, scheduler)
      case name if name.startsWith(JobEndListener.Connect) => scheduler.records.origins.connectSeen()
      case _ =>
    }
}

private[sparksched] object JobEndListener {
  private val SqlStart = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart"
  private val Connect = "org.apache.spark.sql.connect."
  private val SqlEnd = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd"
  private val BatchEnd = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent"
  private val StreamEnd = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryTerminatedEvent"
  private val ThriftStart = "org.apache.spark.sql.hive.thriftserver.ui.SparkListenerThriftServerOperationStart"

  /** The Thrift server keeps the class to itself, but it is a case class. It runs a statement as a job group. */
  private def statementStarted(event: Any, scheduler: SchedTaskScheduler): Unit = userOfGroup(event).foreach {
    case (group, user) => scheduler.records.origins.groupStarted(group, user)
  }

  /** The job group and the user of an event that has both, by the names of its fields. */
  def userOfGroup(event: Any): Option[(String, String)] = event match {
    case e: Product =>
      val fields = e.productElementNames.zip(e.productIterator).toMap
      (for (g <- fields.get("groupId"); u <- fields.get("userName")) yield (g, u)).collect {
        case (group: String, user: String) if group.nonEmpty && user.nonEmpty && user != "UNKNOWN" => group -> user
      }
    case _ => None
  }
}

/** The only code that needs Spark SQL's classes. */
private object SqlEvents {
  def executionEnded(event: SparkListenerEvent, scheduler: SchedTaskScheduler): Unit = {
    val end = event.asInstanceOf[SparkListenerSQLExecutionEnd]
    scheduler.jobOver(_.sqlExecutionEnded(end.executionId, failed = end.errorMessage.exists(_.nonEmpty), _))
    Utils.tryLogNonFatalError(scheduler.records.origins.executionEnded(end).foreach { over =>
      over.blocks.foreach(scheduler.endJob)
      scheduler.jobOver(_.sqlSessionSeen(over.session, over.setting, _))
    })
  }

  def batchEnded(event: SparkListenerEvent, scheduler: SchedTaskScheduler): Unit = {
    val progress = event.asInstanceOf[QueryProgressEvent].progress
    scheduler.jobOver(_.batchEnded(progress.id.toString, progress.batchId.toString, _))
  }

  def streamEnded(event: SparkListenerEvent, scheduler: SchedTaskScheduler): Unit =
    scheduler.jobOver(_.streamEnded(event.asInstanceOf[QueryTerminatedEvent].id.toString, _))
}
