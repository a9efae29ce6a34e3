package org.apache.spark.scheduler.sparksched
package jobs

import org.apache.spark.scheduler.sparksched.sql.MapOutput

/**
 * A task set among the tenants' jobs.
 *
 * @param index place in its job
 * @param restartable its tasks may run again for our own ends, as copies or after evictions
 * @param runsOnce not even Spark's own speculation may run a task of it twice
 * @param slotsPerTask slots that each of its tasks takes
 * @param executorProfile resource profile of the executors that it may use
 * @param output sizes of its output, if adaptive execution derives the next stage from them
 * @param hasDeadline its job has one
 * @param last its job ends with it, as far as the DAG tells
 * @param onlyShuffles its input comes from shuffles alone
 */
private[sparksched] final case class StagePlace(
    job: String, index: Int, restartable: Boolean, runsOnce: Boolean, slotsPerTask: Int = 1, executorProfile: Int = 0,
    output: Option[MapOutput] = Option.empty, hasDeadline: Boolean = false, last: Boolean = false,
    onlyShuffles: Boolean = false)

private[sparksched] object StagePlace {
  /** The place of a task set under Spark's own scheduling only. */
  val None: StagePlace = StagePlace("", 0, restartable = false, runsOnce = false)
}
