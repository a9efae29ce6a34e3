package org.apache.spark.scheduler.sparksched

import org.apache.spark.scheduler.{DAGScheduler, TaskSet}

/** What differs between Spark's lines. */
private[sparksched] object SparkLine extends Spark4 with StreamingIds {
  type Cores = Int
  def cores(count: Double): Cores = count.toInt

  /** Stages that hand their output to others while they run came with Spark 4.3. */
  def groupTasks(dag: DAGScheduler, taskSet: TaskSet): Option[Int] = None
}
