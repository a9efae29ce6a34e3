package org.apache.spark.scheduler.sparksched

import org.apache.spark.scheduler.TaskSet

/** What differs between Spark's lines. */
private[sparksched] object SparkLine extends Spark4 with StreamingIds {
  type Cores = BigDecimal
  def cores(count: Double): Cores = BigDecimal(count)

  /** Whether its output goes to another stage while it runs: no task of it can be run again by itself. */
  def isPipelined(taskSet: TaskSet): Boolean = taskSet.isPipelined
}
