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
 * What follows a stage of a SQL query under adaptive execution, of which no DAG tells: each shuffle is a Spark job of its
 * own, and what reads it is planned when it is written.
 *
 * Plans are read on a thread of this object's own: they may have to be waited for, which neither Spark's event loop nor the
 * scheduler's lock may. So answers come late, and of stages that have ended they mean nothing.
 *
 * @param next called with what follows a stage: its name, the slots that it needs where that is known, whether all else that it
 *   reads has begun or ended, and all stages whose outputs it reads
 * @param last called with whether a query ends with a stage
 */
private[sparksched] final class SqlOutlook(
    next: (String, String, Option[Int], Boolean, Seq[String]) => Unit, last: (String, Boolean) => Unit) extends Logging {
  private val outputs = new ConcurrentHashMap[Int, MapOutput]
  // Stages by the shuffles that they wrote: what reads one may read another that ended before. The latest are known.
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
   * @param unlessTold whether the query ends with the stage where its plan does not tell
   */
  def resultBegan(stage: String, execution: Long, broadcasts: Seq[String], ends: Boolean, unlessTold: Boolean): Unit = {
    // Until the plan is read: holding a slot in vain costs less than releasing one that is needed.
    if (ends && unlessTold) last(stage, false)
    val read = inBackground {
      if (ends) last(stage, AdaptivePlans.isFinal(execution).getOrElse(unlessTold))
      broadcasts.foreach(remember(results, _, stage))
      outputs.values.asScala.filter(_.execution == execution).foreach(lookAhead)
    }
    if (!read && ends && unlessTold) last(stage, true)
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

  /** Whether it will be read: not after `stop`, nor where too much waits already for a plan that is waited for. */
  private def inBackground(read: => Unit): Boolean =
    try {
      reading.execute(() =>
        try read
        catch {
          // Without an answer a stage is treated as one of which nothing is known.
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

  /** What a plan that is waited for keeps from being read: far more than task ends within a few seconds. */
  private[sparksched] val MostWaiting = 10000
}
