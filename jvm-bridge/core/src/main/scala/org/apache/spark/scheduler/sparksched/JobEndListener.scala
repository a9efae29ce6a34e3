package org.apache.spark.scheduler.sparksched

import org.apache.spark.scheduler.{SparkListener, SparkListenerEvent, SparkListenerJobEnd}
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd

/**
 * Spark says only on the listener bus that a job or a SQL execution is over. The bus drops events when it is overrun,
 * so nothing depends on these alone.
 */
private[sparksched] final class JobEndListener(scheduler: SchedTaskScheduler) extends SparkListener {
  override def onJobEnd(end: SparkListenerJobEnd): Unit = scheduler.sparkJobEnded(end.jobId)

  override def onOtherEvent(event: SparkListenerEvent): Unit =
    // By name first: a driver without Spark SQL has no such class to compare with, and the bus would not survive that.
    if (event.getClass.getName == JobEndListener.SqlEnd) scheduler.sqlExecutionEnded(SqlExecution.idOf(event))
}

private[sparksched] object JobEndListener {
  private val SqlEnd = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd"
}

/** The only code that needs Spark SQL's classes. */
private object SqlExecution {
  def idOf(event: SparkListenerEvent): Long = event.asInstanceOf[SparkListenerSQLExecutionEnd].executionId
}
