package org.apache.spark.sql.sparksched

import org.apache.spark.sql.classic
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.adaptive.ResultQueryStageExec
import org.apache.spark.sql.execution.exchange.ShuffleExchangeLike
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart

/** What differs between Spark's lines in SQL. */
private[sparksched] object SqlLine {
  type Session = classic.SparkSession

  /** The job group of the thread that the execution started in. */
  def groupOf(start: SparkListenerSQLExecutionStart): Option[String] = start.jobGroupId

  def isResult(plan: SparkPlan): Boolean = plan.isInstanceOf[ResultQueryStageExec]

  /** The shuffle's number, once it is submitted: to ask earlier would make it. */
  def submitted(shuffle: ShuffleExchangeLike): Option[Int] =
    Option.when(shuffle.futureAction.get.isDefined)(shuffle.shuffleId)
}
