package org.apache.spark.scheduler.sparksched

import scala.collection.mutable

import schedcore._

/**
 * What the registry knows of one job that is not over.
 *
 * @param shadow whether the application was in shadow mode when the job came
 */
private[sparksched] final class RegisteredJob(var mark: JobMark, val arrival: Int, val startedMs: Long, shadow: Boolean = false) {
  val stages = mutable.LinkedHashMap.empty[String, Event.StageStarted]
  val sparkJobs = mutable.HashSet.empty[Int]
  // A retry of a stage keeps its index. Jobs may live as long as the application, so only the latest are known.
  private val indices = mutable.LinkedHashMap.empty[Int, Int]
  private var stageCount = 0
  var lastActiveMs = 0L
  // What a planner that comes later cannot see: since when the job runs.
  var begunMs: Option[Long] = None
  var succeeded = false
  var running = 0
  var runningSlots = 0
  val use = new SlotUse
  /** What it holds and was expected to hold, if that is on paper only. */
  val heldOnPaper = new SumInShadow(shadow)
  val predictedOnPaper = new SumInShadow(shadow)
  /** Where its stages wait, in FAIR mode. */
  var pool: Option[PoolShare] = None
  /** Why the job is over although task sets of it are still here: it holds nothing and ends with the last of them. */
  var closing: Option[String] = None
  /** The Spark job of it that ended last failed or was cancelled. */
  var actionFailed = false
  /** Its stage that ended last did without all of its tasks. */
  var stageCutShort = false
  /** Whether its SQL execution failed, which Spark says when that is over. */
  var queryFailed: Option[Boolean] = None
  // Spark jobs of it that an operator cancels, and whether those of the last action were.
  private val toCancel = mutable.HashSet.empty[Int]
  private var actionCancelled = false

  def idle: Boolean = stages.isEmpty && sparkJobs.isEmpty

  def sparkJobBegan(sparkJob: Int): Unit = {
    if (sparkJobs.isEmpty) actionCancelled = false
    sparkJobs += sparkJob
  }

  def sparkJobEnded(sparkJob: Int, failed: Boolean): Unit = {
    sparkJobs -= sparkJob
    actionFailed = failed
    actionCancelled = failed && (toCancel.remove(sparkJob) || actionCancelled)
  }

  /** An operator cancels what runs. */
  def cancelled(): Unit = toCancel ++= sparkJobs

  /**
   * What became of it, for people.
   *
   * @param said how it ended, as in the event for the planner
   */
  def outcome(said: String): String = {
    // Its block may be over before the listener bus says that its Spark job is. Then its last stage tells.
    val failed = queryFailed.getOrElse(if (sparkJobs.isEmpty) actionFailed else stageCutShort)
    if (!failed) said
    else if (actionCancelled || sparkJobs.exists(toCancel)) JobFacts.Cancelled
    else JobFacts.Failed
  }

  def indexOf(stage: Int): Int = indices.getOrElse(stage, {
    val index = stageCount
    stageCount += 1
    indices(stage) = index
    if (indices.size > RegisteredJob.MostStages) indices -= indices.head._1
    index
  })
}

private[sparksched] object RegisteredJob {
  /** Stages of one job that may still be retried. */
  private val MostStages = 1000
}
