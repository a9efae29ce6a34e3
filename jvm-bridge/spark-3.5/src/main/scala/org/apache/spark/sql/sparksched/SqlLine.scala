package org.apache.spark.sql.sparksched

import org.apache.spark.ShuffleDependency
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.exchange.{ShuffleExchangeExec, ShuffleExchangeLike}
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart

/** What differs between Spark's lines in SQL. */
private[sparksched] object SqlLine {
  type Session = SparkSession

  /** The event of Spark 3.5 does not say it. */
  def groupOf(start: SparkListenerSQLExecutionStart): Option[String] = None

  /** Spark 3.5 has no stage for the result. */
  def isResult(plan: SparkPlan): Boolean = false

  private val dependency = {
    val field = classOf[ShuffleExchangeExec].getDeclaredField("shuffleDependency")
    field.setAccessible(true)
    field
  }

  /** The shuffle's number, once it is submitted: to ask earlier would make it. */
  def submitted(shuffle: ShuffleExchangeLike): Option[Int] = shuffle match {
    case exec: ShuffleExchangeExec => Option(dependency.get(exec).asInstanceOf[ShuffleDependency[_, _, _]]).map(_.shuffleId)
    case _ => None
  }
}
