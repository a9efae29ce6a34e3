package org.apache.spark.scheduler.sparksched
package jobs

import org.apache.spark.scheduler.sparksched.sql.MapOutput

/**
 * A task set among the tenants' jobs.
 *
 * @param index place in its job
 * @param restartable whether this scheduler may run its tasks again, as copies or after evictions
 * @param runsOnce whether no task may run twice, not even by Spark's own speculation
 * @param slotsPerTask slots that each of its tasks takes
 * @param executorProfile resource profile of the executors that it may use
 * @param output sizes of its output, if adaptive execution derives the next stage from them
 * @param hasDeadline its job has one
 * @param last whether the job ends with it, by the DAG
 * @param onlyShuffles its input comes from shuffles alone
 * @param groupTasks tasks of all stages of its group, if it is a pipelined one
 */
private[sparksched] final case class StagePlace(
    job: String, index: Int, restartable: Boolean, runsOnce: Boolean, slotsPerTask: Int = 1, executorProfile: Int = 0,
    output: Option[MapOutput] = Option.empty, hasDeadline: Boolean = false, last: Boolean = false,
    onlyShuffles: Boolean = false, groupTasks: Option[Int] = Option.empty)

private[sparksched] object StagePlace {
  /** The place of a task set under Spark's own scheduling only. */
  val None: StagePlace = StagePlace("", 0, restartable = false, runsOnce = false)
}
