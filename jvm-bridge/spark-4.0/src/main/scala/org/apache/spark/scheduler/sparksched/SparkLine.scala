package org.apache.spark.scheduler.sparksched

import org.apache.spark.scheduler.{DAGScheduler, HealthTracker, TaskSet}
import org.apache.spark.scheduler.sparksched.offers.SchedTaskSetManager
import org.apache.spark.util.Clock

/** What differs between Spark's lines. */
private[sparksched] object SparkLine extends Spark4 {
  type Cores = Int
  def cores(count: Double): Cores = count.toInt

  /** Stages that hand their output to others while they run came with Spark 4.3. */
  def groupTasks(dag: DAGScheduler, taskSet: TaskSet): Option[Int] = None

  def taskSetManager(
      scheduler: SchedTaskScheduler, taskSet: TaskSet, maxTaskFailures: Int, health: Option[HealthTracker], clock: Clock): SchedTaskSetManager =
    new SchedTaskSetManager(scheduler, taskSet, maxTaskFailures, health, clock)
}
