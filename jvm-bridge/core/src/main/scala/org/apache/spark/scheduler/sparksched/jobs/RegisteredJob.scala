package org.apache.spark.scheduler.sparksched
package jobs

import scala.collection.mutable

import schedcore.events.Event
import schedcore.ledger.{PoolShare, ShadowSum, SlotUse}
import schedcore.marks.JobMark
import schedcore.plan.JobPlan
import schedcore.settings.MarkWarning
import schedcore.status.JobFacts

/**
 * What the registry knows of one job that is not over.
 *
 * @param shadow whether the application was in shadow mode when the job came
 */
private[sparksched] final class RegisteredJob(var mark: JobMark, val arrival: Int, val startedMs: Long, shadow: Boolean = false) {
  val stages = mutable.LinkedHashMap.empty[String, Event.StageStarted]
  /** What people are shown as a stage's name. */
  val stageNames = mutable.HashMap.empty[String, String]
  val indices = new StageIndices
  val actions = new JobActions
  val attempts = new JobAttempts
  val inShadow = new HeldInShadow(shadow)
  var lastActiveMs = 0L
  /** Where its stages wait, in FAIR mode. */
  var pool: Option[PoolShare] = None
  /** What the rule in force was made of; None: not by a plan or a change yet. */
  var ruledBy: Option[RuleSources] = None
  /** Why the job is over although it still has task sets: it holds nothing and ends with the last of them. */
  var closing: Option[String] = None

  // Stages whose waiting tasks will not start, while others of them still run.
  private val ending = mutable.LinkedHashSet.empty[String]

  def idle: Boolean = stages.isEmpty && actions.sparkJobs.isEmpty

  /** No task of the stage starts any more. @return whether that is news */
  def giveUp(stage: String): Boolean = stages.contains(stage) && ending.add(stage)

  def givenUp: collection.Set[String] = ending

  /** The stage is over. */
  def remove(stage: String): Unit = {
    stages -= stage
    stageNames -= stage
    ending -= stage
  }

  private val warningsTold = mutable.LinkedHashSet.empty[MarkWarning]

  /** Marks of one of its Spark jobs do not count as given. @return those of the warnings that are new */
  def warned(of: Seq[MarkWarning]): Seq[MarkWarning] = of.filter(w => warningsTold.sizeIs < RegisteredJob.MostWarnings && warningsTold.add(w))

  /** Its mark with the warnings about all of its Spark jobs' marks. */
  def shownMark: JobMark = if (warningsTold.isEmpty && mark.warnings.isEmpty) mark else mark.copy(warnings = warningsTold.toList)
}

/**
 * What a job's rule is made of beside the settings.
 *
 * @param planned what the plan in force says of the job
 * @param changed whether an operator changed the job's mark after that plan was made
 * @param mayHold whether nothing forbids it to hold slots
 */
private[sparksched] final case class RuleSources(
    mark: JobMark, pool: Option[PoolShare], planned: Option[JobPlan], changed: Boolean, mayHold: Boolean) {

  /** Whether the rule is the same. Cheap: of equal objects that are not one object it may say no. */
  def sameAs(other: RuleSources): Boolean = (mark eq other.mark) && pool == other.pool && changed == other.changed &&
    mayHold == other.mayHold && (if (planned.isEmpty) other.planned.isEmpty else other.planned.exists(planned.get.rulesLike))
}

private object RegisteredJob {
  /** About its marks. */
  private val MostWarnings = 10
}

/** The indices of a job's stages. A retry keeps its index. Only the latest are kept: a job may live as long as the application. */
private[sparksched] final class StageIndices {
  private val indices = mutable.LinkedHashMap.empty[Int, Int]
  private var count = 0

  def of(stage: Int): Int = indices.getOrElse(stage, {
    val index = count
    count += 1
    indices(stage) = index
    if (indices.size > StageIndices.MostStages) indices -= indices.head._1
    index
  })
}

private object StageIndices {
  /** Stages of one job that may still be retried. */
  private val MostStages = 1000
}

/** A job's Spark jobs, and from how these ended, how the job did. */
private[sparksched] final class JobActions {
  /** Those that are not over. */
  val sparkJobs = mutable.HashSet.empty[Int]
  /** The Spark job that ended last failed or was cancelled. */
  var failed = false
  /** The stage that ended last did not complete all of its tasks. */
  var stageCutShort = false
  /** Whether the SQL execution failed, which Spark reports when it is over. */
  var queryFailed: Option[Boolean] = None
  // Spark jobs that an operator cancels, and whether those of the last action were.
  private val toCancel = mutable.HashSet.empty[Int]
  private var cancelled = false

  def began(sparkJob: Int): Unit = {
    if (sparkJobs.isEmpty) cancelled = false
    sparkJobs += sparkJob
  }

  def ended(sparkJob: Int, failed: Boolean): Unit = {
    sparkJobs -= sparkJob
    this.failed = failed
    cancelled = failed && (toCancel.remove(sparkJob) || cancelled)
  }

  /** An operator cancels what runs. */
  def cancel(): Unit = toCancel ++= sparkJobs

  /**
   * The job's outcome, for people.
   *
   * @param said how it ended, as in the event for the planner
   */
  def outcome(said: String): String = {
    // Its block may be over before the listener bus reports the end of its Spark job. Then its last stage decides.
    val badly = queryFailed.getOrElse(if (sparkJobs.isEmpty) failed else stageCutShort)
    if (!badly) said
    else if (cancelled || sparkJobs.exists(toCancel)) JobFacts.Cancelled
    else JobFacts.Failed
  }
}

/** A job's running attempts, and the slot time of all its attempts. */
private[sparksched] final class JobAttempts {
  val use = new SlotUse
  private var running = 0
  private var slots = 0
  private var succeeded = false
  private var firstMs: Option[Long] = None

  /** Slots of the running attempts. */
  def runningSlots: Int = slots
  /** When the job began with its first task. A planner that starts later has not seen that. */
  def begunMs: Option[Long] = firstMs

  def launched(slotsOfIt: Int, copy: Boolean, nowMs: Long): Unit = {
    running += 1
    slots += slotsOfIt
    use.launched(slotsOfIt, copy, nowMs)
    if (firstMs.isEmpty) firstMs = Some(nowMs)
  }

  def ended(t: Event.TaskLaunched, success: Boolean, evicted: Boolean, nowMs: Long): Unit = {
    running = math.max(0, running - 1)
    slots = math.max(0, slots - t.slots)
    use.ended(t.slots, t.copy, evicted, t.timeMs, nowMs)
    succeeded ||= success
    // All of its work was lost: it starts over.
    if (running == 0 && !succeeded) firstMs = None
  }
}

/** Slot time that a job held idle, and was predicted to hold idle, in shadow mode. */
private[sparksched] final class HeldInShadow(begun: Boolean) {
  val held = new ShadowSum(begun)
  val predicted = new ShadowSum(begun)
}
