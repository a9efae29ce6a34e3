package org.apache.spark.scheduler.sparksched
package jobs

import scala.collection.mutable

/** The key of the job that each active Spark job belongs to. Used under the scheduler's lock only. */
private[sparksched] final class SparkJobs {
  private val jobs = mutable.HashMap.empty[Int, String]
  private var missing = Set.empty[Int] // that the DAG scheduler did not know when `lost` was last called

  def jobOf(sparkJob: Int): Option[String] = jobs.get(sparkJob)
  def began(sparkJob: Int, job: String): Unit = jobs(sparkJob) = job
  def ended(sparkJob: Int): Option[String] = jobs.remove(sparkJob)
  def forget(sparkJobs: Iterable[Int]): Unit = jobs --= sparkJobs

  /**
   * Spark jobs whose end nobody reported: the listener bus drops events when it is overrun. A Spark job is lost when it is
   * missing in two calls in a row, since `known` is asked beside the thread that changes the answer.
   *
   * @param known whether the DAG scheduler has the Spark job
   */
  def lost(known: Int => Boolean): Set[Int] = {
    val gone = jobs.keysIterator.filterNot(known).toSet
    val found = gone & missing
    missing = gone -- found
    found
  }
}
