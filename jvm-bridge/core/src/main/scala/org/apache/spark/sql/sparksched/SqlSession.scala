package org.apache.spark.sql.sparksched

import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd

/**
 * The session of a SQL execution and its settings as they are now; `None` where the event came from elsewhere. Only
 * Spark SQL's own packages may ask for it.
 */
private[spark] object SqlSession {
  def of(end: SparkListenerSQLExecutionEnd): Option[(String, String => Option[String])] = Option(end.qe).map { execution =>
    val session = execution.sparkSession
    session.sessionUUID -> ((key: String) => session.conf.getOption(key))
  }
}
