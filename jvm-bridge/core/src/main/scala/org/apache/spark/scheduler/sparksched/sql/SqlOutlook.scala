package org.apache.spark.scheduler.sparksched
package sql

import java.util.concurrent.{ConcurrentHashMap, LinkedBlockingQueue, RejectedExecutionException, ThreadPoolExecutor, TimeUnit}

import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.SparkContext
import org.apache.spark.internal.Logging
import org.apache.spark.scheduler.MapStatus
import org.apache.spark.sql.sparksched.AdaptivePlans
import org.apache.spark.util.ThreadUtils

/**
 * Predicts what follows a stage of a SQL query under adaptive execution. No DAG contains it: each shuffle is a Spark job of
 * its own, and Spark plans the stage that reads the shuffle once the shuffle is written.
 *
 * A thread of its own reads the plans, because a plan may not be ready yet, and neither Spark's event loop nor the
 * scheduler's lock may wait for it. So answers come late. An answer about a stage that has ended is ignored.
 *
 * @param next called with a stage, and with the stage that follows: its name, the slots that it needs if they are known, whether all
 *   its other inputs have begun or ended, and all stages whose outputs it reads
 * @param last called with whether a query ends with a stage
 */
private[sparksched] final class SqlOutlook(
    next: (String, String, Option[Int], Boolean, Seq[String]) => Unit, last: (String, Boolean) => Unit) extends Logging {
  private val outputs = new ConcurrentHashMap[Int, MapOutput]
  // The latest stages by the shuffles that they wrote: a stage may read several shuffles, of which some ended earlier.
  private val writers = mutable.LinkedHashMap.empty[Int, String]
  // Stages that give what is broadcast, by the tags of their Spark jobs.
  private val results = mutable.LinkedHashMap.empty[String, String]
  private val reading = new ThreadPoolExecutor(
    1, 1, 0L, TimeUnit.SECONDS, new LinkedBlockingQueue[Runnable](SqlOutlook.MostWaiting), ThreadUtils.namedThreadFactory("spark-sched-sql"))

  def stop(): Unit = reading.shutdownNow()

  /** Number of plans that wait to be read. */
  def waiting: Int = reading.getQueue.size

  /** A stage began that writes this. */
  def began(output: MapOutput): Unit = {
    outputs.put(output.shuffle, output)
    remember(writers, output.shuffle, output.stage)
    // How many tasks read it is not known yet, but which other shuffles they read is.
    inBackground(lookAhead(output))
  }

  def ended(output: MapOutput): Unit = outputs.remove(output.shuffle, output)

  /** A task has written its part. At some of these, the number of tasks that will read the shuffle is estimated again. */
  def written(output: MapOutput, index: Int, status: MapStatus): Unit = inBackground {
    if (output.add(index, status)) lookAhead(output)
  }

  /**
   * A stage with a result of the query began. The result is the query's own, or it is broadcast for a join that adaptive
   * execution planned again.
   *
   * @param broadcasts the tags of what it gives, if that is broadcast
   * @param ends the job ends with its query
   * @param lastByDefault the answer for a stage whose plan does not say whether the query ends with it
   */
  def resultBegan(stage: String, execution: Long, broadcasts: Seq[String], ends: Boolean, lastByDefault: Boolean): Unit = {
    // Until the plan is read: an unneeded hold costs less than the release of a slot that is needed.
    if (ends && lastByDefault) last(stage, false)
    val read = inBackground {
      if (ends) last(stage, AdaptivePlans.isFinal(execution).getOrElse(lastByDefault))
      broadcasts.foreach(remember(results, _, stage))
      outputs.values.asScala.filter(_.execution == execution).foreach(lookAhead)
    }
    if (!read && ends && lastByDefault) last(stage, true)
  }

  private def lookAhead(output: MapOutput): Unit =
    AdaptivePlans.readerOf(output.execution, output.shuffle, id => Option(outputs.get(id)).flatMap(_.expected)).foreach { r =>
      val inputs = synchronized(r.shuffles.flatMap(writers.get(_)) ++ r.broadcasts.flatMap(results.get(_)))
      next(output.stage, r.name, r.tasks.map(_ * output.slotsPerTask), r.ready, inputs)
    }

  private def remember[K](stages: mutable.LinkedHashMap[K, String], key: K, stage: String): Unit = synchronized {
    stages(key) = stage
    if (stages.size > SqlOutlook.MostStages) stages -= stages.head._1
  }

  /** Whether it will be read: not after `stop`, and not if too many reads wait for a plan that is not ready. */
  private def inBackground(read: => Unit): Boolean =
    try {
      reading.execute(() =>
        try read
        catch {
          // Without an answer the next stage is unknown.
          case thrown @ (NonFatal(_) | _: LinkageError) => logDebug("spark_sched cannot read a query's plan", thrown)
        })
      true
    } catch { case _: RejectedExecutionException => false }
}

private[sparksched] object SqlOutlook {
  val ExecutionId = "spark.sql.execution.id"

  /**
   * Those of the tags in a Spark job's properties that Spark gives to broadcasts, one to each.
   *
   * @param property without what a session's `SET` may have given
   */
  def broadcasts(property: String => Option[String]): Seq[String] =
    property(SparkContext.SPARK_JOB_TAGS).toList.flatMap(_.split(SparkContext.SPARK_JOB_TAGS_SEP)).filter(_.startsWith("broadcast exchange"))

  /** Far more than the shuffles, and the broadcasts, of queries that run at once. */
  private val MostStages = 10000

  /** Reads that wait while a plan is not ready: far more than tasks end within a few seconds. */
  private[sparksched] val MostWaiting = 10000
}
