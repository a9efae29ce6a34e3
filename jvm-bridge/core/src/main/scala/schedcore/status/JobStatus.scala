package schedcore
package status

import java.time.Instant
import java.time.temporal.ChronoUnit.SECONDS

import com.fasterxml.jackson.databind.JsonNode
import schedcore.ledger.ShadowCounters
import schedcore.marks.JobMark
import schedcore.plan.{EndForecast, JobPlan, Start}

/**
 * One active stage of a job, as Spark and enforcement see it.
 *
 * @param waiting tasks that wait for a slot
 * @param gated those of them that wait for the stage's pilots first
 * @param pilots tasks that run now and are pilots
 * @param pilotsFirst whether only pilots may start
 * @param atOnce slots without which none of its tasks starts
 */
final case class StageFacts(
    stage: String, name: String, tasks: Int, done: Int, running: Int, waiting: Int, slotsPerTask: Int = 1,
    pilotsFirst: Boolean = false, gated: Int = 0, pilots: Int = 0, atOnce: Int = 1) {

  /** That it can never start, and what to do. @param limit who has too few slots, and how many; @param remedy against that */
  def neverStarts(limit: String, remedy: String): String =
    if (atOnce > slotsPerTask) s"stage $stage needs $atOnce slots at once, and $limit: $remedy, make the stage smaller, or cancel the job"
    else s"each task of stage $stage needs $atOnce slots, and $limit: $remedy, give its tasks fewer cores, or cancel the job"
}

/**
 * Slot time of one job so far, in slot-milliseconds.
 *
 * @param wouldHaveHeldMs that it would have held idle, had not the application been in shadow mode
 * @param heldAtMostMs what equation 4 expects of `heldIdleMs` at most; 0 at an isolation level of 1, where nothing bounds it, and
 *   in sums, where jobs without a bound may be part of `heldIdleMs`
 */
final case class SlotTimes(
    runMs: Long, heldIdleMs: Long, evictedMs: Long, copiedMs: Long, wouldHaveHeldMs: Long = 0L, heldAtMostMs: Long = 0L) {
  def +(o: SlotTimes): SlotTimes = both(o)(_ + _)
  def -(o: SlotTimes): SlotTimes = both(o)(_ - _)
  /** The greater one of each kind. */
  def atLeast(o: SlotTimes): SlotTimes = both(o)(math.max)

  /** By the names that documents have for the kinds; what would have been and what is expected are there if they exist. */
  def byName: Seq[(String, Long)] =
    Seq("run" -> runMs, "held_idle" -> heldIdleMs, "evicted" -> evictedMs, "copied" -> copiedMs) ++
      Option.when(wouldHaveHeldMs > 0)(s"${ShadowCounters.Prefix}held_idle" -> wouldHaveHeldMs) ++
      Option.when(heldAtMostMs > 0)("held_idle_at_most" -> heldAtMostMs)

  /** All of it in words, with lengths of time as `text` writes them. */
  def inWords(text: Long => String): String = {
    val atMost = if (heldAtMostMs > 0) s" (by equation 4 at most ${text(heldAtMostMs)})" else ""
    val wouldHave = if (wouldHaveHeldMs > 0) s"; ${text(wouldHaveHeldMs)} would have been held idle" else ""
    s"${text(runMs)} run, ${text(heldIdleMs)} held idle$atMost, ${text(evictedMs)} evicted, ${text(copiedMs)} copied$wouldHave"
  }

  private def both(o: SlotTimes)(f: (Long, Long) => Long): SlotTimes =
    SlotTimes(
      f(runMs, o.runMs), f(heldIdleMs, o.heldIdleMs), f(evictedMs, o.evictedMs), f(copiedMs, o.copiedMs),
      f(wouldHaveHeldMs, o.wouldHaveHeldMs))
}

object SlotTimes {
  val Zero: SlotTimes = SlotTimes(0L, 0L, 0L, 0L)

  /** From what a document has as `slot_ms`, which may be an older version's: [[SlotTimes.byName]]. */
  def ofNode(node: JsonNode): SlotTimes = {
    def ms(kind: String) = node.path(kind).asLong
    SlotTimes(
      ms("run"), ms("held_idle"), ms("evicted"), ms("copied"), ms(s"${ShadowCounters.Prefix}held_idle"), ms("held_idle_at_most"))
  }
}

/** When a job was submitted, began with its first task, and ended; None where that has not happened. */
final case class JobTimes(submittedMs: Long, begunMs: Option[Long] = None, endedMs: Option[Long] = None)

/**
 * The plan in force and the tenants' queue as they concern one job.
 *
 * @param start what the job's waiting tasks may do
 * @param rules None: the plan does not contain the job
 * @param forecast of the job's end
 * @param queuedBehind number of jobs before it, if it waits and its end is unknown
 * @param keptFor names of the jobs with a planned start for which free slots are kept, if the job may take spare slots only
 */
final case class PlanForJob(
    start: Start = Start.Now, rules: Option[JobPlan] = None, forecast: Option[EndForecast] = None, keptFor: Seq[String] = Nil,
    queuedBehind: Option[Int] = None, queue: JobQueue = JobQueue())

/**
 * A job's queue of tenants.
 *
 * @param name its path; None: the application has none
 * @param waits why it lets the job have no further slot, in a sentence, if the job waits for one
 * @param place among the jobs of the queue that wait to be admitted; 0: it does not wait
 * @param never of stages of the job that can never start as things are, by its queue or the executors, in sentences
 */
final case class JobQueue(name: Option[String] = None, waits: Option[String] = None, never: Seq[String] = Nil, place: Int = 0)

object JobQueue {
  /** How sentences about a job that waits end. */
  def placed(place: Int): String = s"; number $place of those that wait"
}

/**
 * A copy of one job's state at a moment, to be read without the scheduler's lock.
 *
 * @param priority in force
 * @param isolation in force
 * @param heldUpBy names of the jobs whose held slots are all that it could have
 * @param onHold whether an operator lets nothing of it start
 * @param outcome how it ended, such as [[JobFacts.Failed]]; None: it has not
 */
final case class JobFacts(
    mark: JobMark, arrival: Int, times: JobTimes, priority: Int, isolation: Double, stages: Seq[StageFacts],
    runningSlots: Int, heldSlots: Int, copiedSlots: Int, slotTimes: SlotTimes, plan: PlanForJob = PlanForJob(),
    heldUpBy: Seq[String] = Nil, outcome: Option[String] = None, onHold: Boolean = false) {

  private def slotsOf(tasks: StageFacts => Int): Int = stages.map(s => tasks(s) * s.slotsPerTask).sum

  def tasks: Int = stages.map(_.tasks).sum
  def tasksDone: Int = stages.map(_.done).sum
  def pilotSlots: Int = slotsOf(_.pilots)
  def waitingSlots: Int = slotsOf(_.waiting)

  /** Slots that its tasks wait for and that the plan keeps from them. */
  def deferredSlots: Int = if (plan.start == Start.Now) slotsOf(_.gated) else waitingSlots

  def slotKinds: SlotKinds = SlotKinds(runningSlots, heldSlots, pilotSlots, copiedSlots, waitingSlots, deferredSlots)

  lazy val state: JobState = JobState.of(this)
  /** The state without what it waits for, which [[Why]] says. */
  def stateWord: String = if (outcome.isDefined) state.text else state.kind.replace('_', ' ')

  /** Slots that it could take if they are free, and that the plan forbids it to take yet. */
  def slotsForLater: Int = if (plan.start == Start.Planned || plan.start == Start.Evicted) waitingSlots else 0

  /** It has work and no slots. */
  def waits: Boolean = JobFacts.Waiting(state.kind)

  /** It is past its deadline, or will more likely miss than meet it. */
  def atRisk(nowMs: Long): Boolean =
    mark.deadlineMs.exists(nowMs > _) || plan.forecast.flatMap(_.deadlineProbability).exists(_ < JobFacts.EvenChance)

  /** It ended, and what it was to do is done. */
  def succeeded: Boolean = outcome.exists(o => o != JobFacts.Failed && o != JobFacts.Cancelled)

  /** It ended in time. */
  def metDeadline: Boolean = succeeded && mark.deadlineMs.zip(times.endedMs).exists { case (at, end) => end <= at }

  /** It ended and has not met its deadline, and no operator cancelled it before. */
  def missedDeadline: Boolean = outcome.isDefined && mark.deadlineMs.isDefined && !metDeadline &&
    (!outcome.contains(JobFacts.Cancelled) || mark.deadlineMs.zip(times.endedMs).exists { case (at, end) => end > at })

  /** How many jobs are before it, where that is all that is known about its end. A plan may be older than its first task. */
  def afterJobs: Option[Int] = plan.queuedBehind.filter(_ => plan.forecast.isEmpty && times.begunMs.isEmpty)

  /** Why the plan treats it as it does: a queue's word is no plan's. */
  def reason: String = if (onHold) JobFacts.OnHold else plan.rules.map(_.reason).filter(_.nonEmpty).getOrElse(JobFacts.NoPlan)
}

object JobFacts {
  private val Waiting = Set("waiting", "held_back", "deferred", "evicted")
  private val EvenChance = 0.5

  /** Outcomes of jobs that did not do what they were to: the last action failed, or an operator cancelled it. */
  val Failed = "failed"
  val Cancelled = "cancelled"

  /** Why a job is treated as it is where no plan in force knows it. */
  val NoPlan = "no plan in force contains the job: the configured rules apply"
  val OnHold = "an operator put it on hold: it starts no tasks until somebody resumes it"
}

/** @param kind one word for programs; `text` is for people */
final case class JobState(kind: String, text: String)

object JobState {
  private val MostNames = 3

  def of(job: JobFacts): JobState =
    if (job.outcome.isDefined) JobState("ended", if (job.succeeded) "ended" else job.outcome.get)
    else if (job.onHold) JobState("on_hold", if (job.runningSlots > 0) "on hold, the last tasks run" else "on hold")
    else if (job.plan.start == Start.Evicted && job.stages.nonEmpty) plain("evicted")
    else if (job.stages.exists(s => s.pilotsFirst && s.gated > 0)) plain("pilots")
    else if (job.runningSlots > 0) plain("running")
    else if (job.waitingSlots == 0) JobState("idle", "idle between actions")
    else job.plan.queue.waits.fold(waiting(job))(JobState("waiting", _))

  private def waiting(job: JobFacts): JobState = job.plan.start match {
    case Start.Planned =>
      val until = job.plan.rules.flatMap(_.startMs).fold("the next plan")(Instant.ofEpochMilli(_).truncatedTo(SECONDS).toString)
      JobState("deferred", s"deferred until $until")
    case Start.Unplanned => JobState("deferred", "deferred until the next plan")
    case Start.Spare =>
      val kept = job.plan.keptFor
      JobState("deferred", "deferred until slots are spare" + (if (kept.isEmpty) "" else s": free ones are kept for ${listed(kept)}"))
    case _ if job.heldUpBy.nonEmpty => JobState("held_back", s"held back by ${listed(job.heldUpBy)}")
    case _ => JobState("waiting", "waiting for slots")
  }

  private def plain(word: String): JobState = JobState(word, word)

  private def listed(names: Seq[String]): String = {
    val distinct = names.distinct
    val more = distinct.size - MostNames
    PlainText.of(distinct.take(MostNames).mkString(", ")) + (if (more > 0) s" and $more more" else "")
  }
}
