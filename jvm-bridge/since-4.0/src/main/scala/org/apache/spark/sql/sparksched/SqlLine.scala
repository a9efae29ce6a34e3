package org.apache.spark.sql.sparksched

import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.adaptive.ResultQueryStageExec
import org.apache.spark.sql.execution.exchange.ShuffleExchangeLike

/** What differs between Spark's lines in SQL. */
private[sparksched] object SqlLine {
  def isResult(plan: SparkPlan): Boolean = plan.isInstanceOf[ResultQueryStageExec]

  /** The shuffle's number, once it is submitted: to ask earlier would make it. */
  def submitted(shuffle: ShuffleExchangeLike): Option[Int] =
    Option.when(shuffle.futureAction.get.isDefined)(shuffle.shuffleId)
}
