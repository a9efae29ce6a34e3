package schedcore
package ledger

import scala.collection.mutable

// The records behind the ledger, with what follows from each of them alone. `spark_sched_lab/enforce/ledger_state.py` has the same.

/** Counts of the ledger's actions so far; times in (slot-)milliseconds. */
final class LedgerCounters {
  var holds = 0L
  var holdsUsed = 0L
  var holdsExpired = 0L
  var holdsOverridden = 0L
  var holdsGivenWay = 0L
  var holdsOverBudget = 0L
  var preReserved = 0L
  var copiesLaunched = 0L
  var copiesWon = 0L
  var copiesWastedMs = 0L
  var heldIdleSlotMs = 0L
  var predictedIdleSlotMs = 0L
}

/** Free and held slots of one executor; held ones are free too. */
private[schedcore] final class LedgerExecutor(val id: String, var free: Int, val profile: Int = 0) {
  var draining = false
  var excluded = false // as of its last offer
  /** Whether Spark offers its slots to anybody. */
  def open: Boolean = !draining && !excluded
  var held = 0
  val heldBy = mutable.LinkedHashMap.empty[LedgerJob, Int]
  var slots: Int = free // all that it ever had free at once

  /**
   * Free slots that are held against tasks of the job; None: of a job that nobody declared.
   *
   * @param taken slots promised to the job that do not count as used yet
   */
  def refusedTo(asker: Option[LedgerJob], taken: Int = 0): Int = {
    var refused = 0
    heldBy.foreach { case (holder, n) => refused += asker.fold(n)(LedgerOrder.refuses(holder, _, n, taken)) }
    refused
  }
}

/** Slot time that a job held idle, in slot-milliseconds. */
private[schedcore] final class HeldTime {
  private var slotMs = 0L // until `sinceMs`
  private var sinceMs = 0L
  var predictedMs = 0L // see LedgerStage.predictedIdleMs
  var unbounded = false // a stage ended at isolation level 1, at which equation 4 has no bound

  /** To be called before the number of held slots changes, which was `held` since the last call. */
  def settle(held: Int, nowMs: Long): Unit = {
    slotMs = until(held, nowMs)
    sinceMs = nowMs
  }

  def until(held: Int, nowMs: Long): Long = slotMs + held * (nowMs - sinceMs)
}

/** Counts the changes of jobs that hold slots: what follows from all of them together stands until the next one. */
private[schedcore] final class HolderChanges {
  var count = 0L
}

/**
 * One job's rule, its active stages and its slots.
 *
 * @param number rises in the order in which jobs start
 */
private[schedcore] final class LedgerJob(
    val key: String, val marked: Boolean, var rule: Rule, val number: Int, limits: IdleLimits, all: Barriers,
    changes: HolderChanges) {
  val order = new JobOrder(number)
  var ended = false
  val stages = mutable.LinkedHashMap.empty[String, LedgerStage]
  var held = 0
  var running = 0 // slots of distinct tasks: a copy beside its original is not counted
  var busy = 0 // slots of all its attempts
  var pool: Option[PoolUse] = None
  private var holdsUntilMs = 0L
  /** Until then it wants no slot that others release, unless something of it changes. */
  var contentUntilMs: Long = Long.MinValue
  val demand = new JobDemand
  val pause = new JobPause(limits)
  val heldTime = new HeldTime
  val barriers = new Barriers.OfJob(all)

  def mayHold: Boolean = !ended && rule.isolation > 0.0

  /** When its holds expire. */
  def deadlineMs: Long = holdsUntilMs
  def deadlineMs_=(ms: Long): Unit = {
    holdsUntilMs = ms
    changed()
  }

  /** To be called after a change of its rule, stages, demand, attempts or held slots: answers that were kept are void. */
  def changed(): Unit = {
    contentUntilMs = Long.MinValue
    if (held > 0) changes.count += 1
  }

  /** All holds of a job share one deadline: the latest of those that its stages have of their own. */
  def refreshDeadline(nowMs: Long): Unit = if (stages.nonEmpty) {
    var latest = Long.MinValue
    LedgerDemand.owners(this).foreach(p => latest = math.max(latest, p.deadlineMs(nowMs)))
    LedgerDemand.dueByMs(this).foreach(end => latest = math.max(latest, end))
    deadlineMs = latest
  }
}

/**
 * The knowledge about the next stage: the slots that it needs, None where unknown.
 *
 * @param inDag as the DAG says
 * @param atMost an upper bound, if the number is decided while the stage before it runs
 * @param last nothing follows
 * @param reads the shuffle that it reads and this stage writes, where no DAG names it
 */
private[schedcore] final class Following(
    val inDag: Option[Int], val atMost: Option[Int], var last: Boolean, val reads: Option[String] = None) {
  var learned: Option[Int] = None // as learned while the stage before it runs

  /** Whether the next stage is known without the driver's program. */
  def isKnown: Boolean = inDag.isDefined || atMost.isDefined || learned.isDefined
}

/**
 * Sums over a stage's task times. They stay when a task's result is lost, so that they are counted apart from the done tasks.
 *
 * @param killMs how long a killed attempt still takes its slots
 */
private[schedcore] final class TaskTimes(val killMs: Long) {
  var count = 0
  var shortestMs: Double = Double.PositiveInfinity // t_m
  var sumLogMs = 0.0

  def add(timeMs: Double): Unit = {
    count += 1
    shortestMs = math.min(shortestMs, timeMs)
    sumLogMs += math.log(timeMs)
  }

  /** Their geometric mean; 0 without any. */
  def typicalMs: Double = if (count == 0) 0.0 else math.exp(sumLogMs / count)
}

/** Indices of a stage's done tasks, and their number, which a BitSet has to count. */
private[schedcore] final class DoneTasks(tasks: Int) {
  private val done = new mutable.BitSet(tasks)
  private var number = 0

  def count: Int = number
  def indices: collection.Set[Int] = done
  def apply(index: Int): Boolean = done(index)
  def add(index: Int): Unit = if (done.add(index)) number += 1
  def remove(index: Int): Unit = if (done.remove(index)) number -= 1
}

/** A stage's running attempts in the order of their launch, and its tasks that have had a copy. */
private[schedcore] final class StageAttempts {
  private val running = mutable.LinkedHashMap.empty[Long, LedgerAttempt]
  val copied = mutable.BitSet.empty
  /** Launches of attempts whose tasks have no copy. */
  val uncopied = new LaunchTimes

  def count: Int = running.size
  def foreach(use: LedgerAttempt => Unit): Unit = running.valuesIterator.foreach(use)
  def originals: Iterator[LedgerAttempt] = running.valuesIterator.filter(!_.copy)

  def add(a: LedgerAttempt): Unit = {
    running(a.task) = a
    if (!a.copy) { if (!copied(a.index)) uncopied.add(a.launchMs) }
    else if (copied.add(a.index)) originals.filter(_.index == a.index).foreach(o => uncopied.remove(o.launchMs))
  }

  def remove(a: LedgerAttempt): Unit = {
    running -= a.task
    if (!a.copy && !copied(a.index)) uncopied.remove(a.launchMs)
  }
}

/** One stage's tasks and what its task times say so far. */
private[schedcore] final class LedgerStage(
    val key: String, val job: LedgerJob, val index: Int, val tasks: Int, val following: Following, val restartable: Boolean,
    startMs: Long, val slotsPerTask: Int, val profile: Int = 0, killMs: Long = 0L) {
  val done = new DoneTasks(tasks)
  val attempts = new StageAttempts
  private var lastLaunchMs: Long = startMs
  private val barrier = job.barriers.newStage(tasks)
  private val times = new TaskTimes(killMs)
  var preReserved = 0
  /** Whether a copy of one of its tasks was due when its job was last looked at. */
  var copyDue = false

  /** Slots of all its tasks. */
  def slots: Int = tasks * slotsPerTask

  /** An attempt that is no copy; it is among the stage's attempts. */
  def launched(nowMs: Long): Unit = {
    job.order.launched(key, nowMs)
    lastLaunchMs = nowMs
    barrier.openTasks = attempts.count
  }

  /** A first success of a task. */
  def finish(index: Int, tookMs: Long): Unit = {
    done.add(index)
    val durationMs = math.max(1L, tookMs).toDouble
    times.add(durationMs)
    if (job.rule.observes) barrier.taskEnded(durationMs)
  }

  /** All tasks are done: the barrier fell. */
  def fell(nowMs: Long): Unit = if (job.rule.observes) {
    job.barriers.ended(barrier, math.max(1L, nowMs - lastLaunchMs).toDouble)
  }

  /** Whether some of its tasks wait for a slot. */
  def waits: Boolean = done.count + attempts.count < tasks

  def pastThreshold: Boolean = done.count > job.rule.preReserveThreshold * tasks

  /** Slots of the tasks that are not done. */
  def left: Int = (tasks - done.count) * slotsPerTask

  /**
   * n: the slots that the next stage needs; None if unknown. Knowledge from this run precedes that from earlier runs; without
   * either, the upper bound is used.
   */
  def nextSlots: Option[Int] = following.inDag.orElse(following.learned)
    .orElse(later.headOption.map(n => math.min(n, following.atMost.getOrElse(n)))).orElse(following.atMost)

  /** Whether n is no more than a bound. */
  def nextIsBound: Boolean = following.atMost.isDefined && following.inDag.orElse(following.learned).isEmpty && later.isEmpty

  /** Whether the job ends with this stage, as its DAG says or as earlier runs did. */
  def isLast: Boolean = following.last || (!following.isKnown && isInStep && index == job.rule.stageTasks.size - 1)

  /**
   * Slots that a marked job's widest stage from here on needs, and whether that is known: the widest that earlier runs had,
   * else the widest so far.
   */
  def rest: (Int, Boolean) = later.maxOption match {
    case Some(widest) => (widest, true)
    case None =>
      val known = following.inDag.isDefined
      (if (known) job.demand.peakSlots else math.max(slots, job.demand.peakSlots), known)
  }

  /** Slots of the stages that followed this one in earlier runs; empty where this run is another. */
  private def later: IndexedSeq[Int] = {
    // Earlier runs record tasks only; their slots per task are assumed to be those of this stage.
    if (isInStep) job.rule.stageTasks.drop(index + 1).map(_ * slotsPerTask) else IndexedSeq.empty
  }

  private def isInStep: Boolean = index < job.rule.stageTasks.size && job.rule.stageTasks(index) == tasks

  /** Running tasks due for a copy: none before the idle held slots suffice for all that run (section IV-C). */
  def stragglers(nowMs: Long): Seq[LedgerAttempt] =
    if (!job.rule.copies || !restartable || job.held == 0 || !paceKnown || !attempts.uncopied.anyUntil(nowMs - copyAgeMs)) Nil
    // A lower bound of the running tasks without a copy.
    else if ((tasks - done.count - attempts.copied.size) * slotsPerTask > job.held) Nil
    else {
      val running = runningTasks
      // Tasks still waiting for a slot come before copies.
      if (running == 0 || done.count + running < tasks) Nil
      else {
        val lone = attempts.originals.filter(a => !done(a.index) && !attempts.copied(a.index)).toList
        if (lone.size * slotsPerTask > job.held) Nil
        else {
          val ageMs = copyAgeMs
          lone.filter(_.launchMs + ageMs <= nowMs)
        }
      }
    }

  /**
   * How long a task must run before a copy is worth a kill: a task as fast as its siblings ends before that.
   *
   * One attempt is killed, and its slot is missed for as long as that takes. A Pareto tail of alpha <= 2 has at least as
   * much left to run as it ran: what ran for s typical times and the time of a kill outlasts a copy by that time on average.
   */
  def copyAgeMs: Long =
    if (job.rule.copyAge.minSlowdown == 0.0) job.rule.copyAge.minTaskMs
    else math.max(job.rule.copyAge.minTaskMs, math.round(job.rule.copyAge.minSlowdown * times.typicalMs) + times.killMs)

  /** When the next running task is old enough for a copy. */
  def nextOldEnoughMs(nowMs: Long): Option[Long] = {
    val ageMs = copyAgeMs
    attempts.uncopied.firstAfter(nowMs - ageMs).map(_ + ageMs)
  }

  /** Whether a sibling has finished: without one, a straggler cannot be distinguished from a long task. */
  def paceKnown: Boolean = times.count > 0 || job.rule.copyAge.minSlowdown == 0.0

  def runningTasks: Int = attempts.originals.count(a => !done(a.index))

  /** When reservations made for this stage end (section IV-B3). */
  def deadlineMs(nowMs: Long): Long = {
    val rule = job.rule
    val holdMs =
      if (rule.calibrates) job.barriers.deadlineMs(barrier, rule.isolation)
      else if (rule.deadline == Rule.ParetoForm && rule.isolation < 1.0) paretoHoldMs(nowMs)
      else Double.PositiveInfinity
    // The paper's stage starts all its tasks at time 0; with more tasks than slots the clock starts with the last.
    lastLaunchMs + (if (holdMs >= rule.maxHoldMs) rule.maxHoldMs else math.round(holdMs))
  }

  /**
   * Upper bound of the expected cost of holding its slots, in slot-milliseconds (section IV-B3): the paper's bound on the
   * utilization assumes that every slot is held until the deadline. 0 if no slot is held at the barrier.
   *
   * The stage is over, so that its own task times give t_m and alpha.
   */
  def predictedIdleMs: Long =
    if (isLast || !job.mayHold || times.count == 0) 0L
    else {
      val rule = job.rule
      val k = times.count
      val scaleMs = times.shortestMs
      val shape = Pareto.shape(k, times.sumLogMs - k * math.log(scaleMs), rule.shape, rule.shapeWeight)
      val holdMs = math.min(rule.maxHoldMs.toDouble, Pareto.deadline(rule.isolation, scaleMs, shape, tasks))
      if (holdMs <= scaleMs) 0L else math.round(slots * holdMs * (1.0 - Pareto.utilization(scaleMs / holdMs, shape)))
    }

  /** The paper's D (equation 2), with t_m and alpha estimated from the tasks so far. */
  private def paretoHoldMs(nowMs: Long): Double = {
    val rule = job.rule
    val k = times.count
    val scale = if (k > 0) Some(times.shortestMs) else rule.scaleMs
    scale.fold(Double.PositiveInfinity) { t =>
      var sumLogRatios = if (k > 0) times.sumLogMs - k * math.log(t) else 0.0
      // In the order of their launch, and many were launched at one time.
      var launchMs = Long.MinValue
      var logRatio = 0.0
      attempts.foreach { a =>
        if (!a.copy && !done(a.index)) {
          if (a.launchMs != launchMs) {
            launchMs = a.launchMs
            logRatio = math.log(math.max((nowMs - launchMs).toDouble, t) / t)
          }
          sumLogRatios += logRatio
        }
      }
      Pareto.deadline(rule.isolation, t, Pareto.shape(k, sumLogRatios, rule.shape, rule.shapeWeight), tasks)
    }
  }
}

/** One attempt of a task; `slots` that it took of its executor. */
private[schedcore] final class LedgerAttempt(
    val task: Long, val stage: LedgerStage, val index: Int, val executor: String, val copy: Boolean, val launchMs: Long,
    val slots: Int)
