package schedcore

import scala.collection.mutable

// The records behind the ledger, with what follows from each of them alone. `spark_sched/sim/ledger_state.py` has the same.

/** What the ledger did so far; times in (slot-)milliseconds. */
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
private[schedcore] final class LedgerExecutor(val id: String, var free: Int) {
  var draining = false
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
    heldBy.foreachEntry { (holder, n) => refused += asker.fold(n)(holder.refuses(_, n, taken)) }
    refused
  }
}

/** One job's rule, its active stages and its slots. */
private[schedcore] final class LedgerJob(val key: String, val marked: Boolean, var rule: Rule, limits: IdleLimits, val barriers: Barriers) {
  var held = 0
  private var heldIdle = 0L // slot time until `heldSinceMs`, since when it holds `held` slots
  private var heldSinceMs = 0L
  var predictedIdleMs = 0L // see LedgerStage.predictedIdleMs
  var running = 0 // slots of distinct tasks: a copy beside its original is not counted
  var busy = 0 // slots of all its attempts
  var pool: Option[PoolUse] = None
  var peakSlots = 0
  var deadlineMs = 0L
  var ended = false
  val stages = mutable.LinkedHashMap.empty[String, LedgerStage]
  // The last demand outlives its stage: between two Spark jobs it is all that is known.
  var demand = 0
  val successors = mutable.LinkedHashMap.empty[String, LedgerSuccessor] // by their place in the DAG
  // Held slots that a higher priority took: the job takes them back as they are released.
  var overridden = 0
  // Since when no stage is active while more may follow; negative while one is.
  var idleSinceMs = -1L
  var idleEndMs = 0L
  var afterAction = false // nothing of the DAG follows: what comes next is up to the driver's program
  val gaps = new Gaps
  val budget = new IdleBudget(limits.jobShare, limits.burstMs)
  val ownBarriers = new Barriers.OfJob // `barriers` are of all jobs

  /** To be called before the number of held slots changes. */
  def settleHeld(nowMs: Long): Unit = {
    heldIdle = heldIdleMs(nowMs)
    heldSinceMs = nowMs
  }

  /** Slot time that it held idle so far. */
  def heldIdleMs(nowMs: Long): Long = heldIdle + held * (nowMs - heldSinceMs)

  def isIdle: Boolean = idleSinceMs >= 0
  def mayHold: Boolean = !ended && rule.isolation > 0.0

  /** How many of `slots` that it holds `asker` cannot have (Algorithm 1, line 19), which was promised `taken` already. */
  def refuses(asker: LedgerJob, slots: Int, taken: Int): Int =
    if (asker eq this) 0
    else if (rule.priority != asker.rule.priority) { if (rule.priority > asker.rule.priority) slots else 0 }
    else slots - FairShares.ceded(this, asker, slots, taken)

  /** Whether its claim to a slot goes before that of `other`, each less `less` of the slots that its pool uses. */
  def outranks(other: LedgerJob, less: Int = 0): Boolean =
    if (rule.priority != other.rule.priority) rule.priority > other.rule.priority else FairShares.isBefore(this, other, less)

  /** All holds of a job share one deadline: the latest among its active stages. */
  def refreshDeadline(nowMs: Long): Unit = if (stages.nonEmpty) {
    var latest = Long.MinValue
    stages.valuesIterator.foreach(p => latest = math.max(latest, p.deadlineMs(nowMs)))
    deadlineMs = latest
  }
}

/** One stage's tasks and what its task times say so far. */
private[schedcore] final class LedgerStage(
    val key: String, val job: LedgerJob, val index: Int, val tasks: Int,
    val dagNextTasks: Option[Int], var last: Boolean, val restartable: Boolean, startMs: Long, val slotsPerTask: Int,
    val nextAtMost: Option[Int] = None) {
  val slots: Int = tasks * slotsPerTask
  val done = new mutable.BitSet(tasks)
  val copied = mutable.BitSet.empty
  val attempts = mutable.LinkedHashMap.empty[Long, LedgerAttempt]
  var lastLaunchMs: Long = startMs
  private var openTasks = 1 // that ran at the last launch
  private val barrier = new Barriers.OfStage(tasks)
  var scaleMs: Double = Double.PositiveInfinity // t_m: the stage's shortest task so far
  var sumLogMs = 0.0
  // Task times stay known when a task's result is lost, so they are counted apart from the done tasks.
  var timed = 0
  var preReserved = 0
  var learnedNext: Option[Int] = None // slots of the stage that follows, as became known while this one runs
  var finished = 0 // = done.size, which a BitSet has to count

  /** An attempt that is no copy; it is among the stage's attempts. */
  def launched(nowMs: Long): Unit = {
    lastLaunchMs = nowMs
    openTasks = attempts.size
  }

  /** A first success of a task. */
  def finish(index: Int, tookMs: Long): Unit = {
    done += index
    finished += 1
    timed += 1
    val durationMs = math.max(1L, tookMs).toDouble
    scaleMs = math.min(scaleMs, durationMs)
    sumLogMs += math.log(durationMs)
    if (job.rule.calibrates) barrier.taskEnded(durationMs)
  }

  /** All tasks are done: the barrier fell. */
  def fell(nowMs: Long): Unit = if (job.rule.calibrates) {
    val barrierMs = math.max(1L, nowMs - lastLaunchMs).toDouble
    job.barriers.ended(job.ownBarriers, barrier, openTasks, barrierMs, prior)
  }

  def pastThreshold: Boolean = finished > job.rule.preReserveThreshold * tasks

  /** Slots of the tasks that are not done. */
  def left: Int = (tasks - finished) * slotsPerTask

  /**
   * n: the slots that the stage which follows needs; None when nothing is known. What this run tells goes before what
   * earlier ones had, and a bound is taken for n where nothing else tells.
   */
  def nextSlots: Option[Int] =
    dagNextTasks.orElse(learnedNext).orElse(later.headOption.map(n => math.min(n, nextAtMost.getOrElse(n)))).orElse(nextAtMost)

  /** Whether something that is not the driver's program decides what follows. */
  def isFollowed: Boolean = dagNextTasks.isDefined || nextAtMost.isDefined || learnedNext.isDefined

  /** Whether the job ends with this stage, as its DAG says or as earlier runs did. */
  def isLast: Boolean = last || (!isFollowed && isInStep && index == job.rule.stageTasks.size - 1)

  /**
   * Slots that a marked job's widest stage from here on needs, and whether that is known: the widest that earlier runs had,
   * else the widest so far.
   */
  def rest: (Int, Boolean) = later.maxOption match {
    case Some(widest) => (widest, true)
    case None => (if (dagNextTasks.isDefined) job.peakSlots else math.max(slots, job.peakSlots), dagNextTasks.isDefined)
  }

  /** Slots of the stages that followed this one in earlier runs; empty where this run is another. */
  private def later: IndexedSeq[Int] = {
    // Earlier runs tell tasks: those that follow are taken to need what these need.
    if (isInStep) job.rule.stageTasks.drop(index + 1).map(_ * slotsPerTask) else IndexedSeq.empty
  }

  private def isInStep: Boolean = index < job.rule.stageTasks.size && job.rule.stageTasks(index) == tasks

  /** Running tasks due for a copy: none before the idle held slots suffice for all that run (section IV-C). */
  def stragglers(nowMs: Long): Seq[LedgerAttempt] =
    if (!job.rule.copies || !restartable || job.held == 0 || !paceKnown) Nil
    else {
      val running = runningTasks
      // Tasks still waiting for a slot come before copies.
      if (running == 0 || finished + running < tasks) Nil
      else {
        val uncopied = attempts.valuesIterator.filter(a => !a.copy && !done(a.index) && !copied(a.index)).toSeq
        if (uncopied.size * slotsPerTask > job.held) Nil
        else {
          val ageMs = copyAgeMs
          uncopied.filter(_.launchMs + ageMs <= nowMs)
        }
      }
    }

  /** How long a task runs before a copy is worth a kill: one that runs like its siblings ends before its copy does. */
  def copyAgeMs: Long = {
    val typicalMs = if (timed == 0) 0.0 else math.exp(sumLogMs / timed)
    math.max(job.rule.copyMinTaskMs, math.round(job.rule.copyMinSlowdown * typicalMs))
  }

  /** Without a finished sibling nobody can tell a straggler from a task that takes its time. */
  def paceKnown: Boolean = timed > 0 || job.rule.copyMinSlowdown == 0.0

  def runningTasks: Int = attempts.valuesIterator.filter(a => !a.copy && !done(a.index)).size

  /** When reservations made for this stage end (section IV-B3). */
  def deadlineMs(nowMs: Long): Long = {
    val rule = job.rule
    val holdMs =
      if (rule.calibrates) job.barriers.deadlineMs(job.ownBarriers, barrier, openTasks, rule.isolation, prior)
      else if (rule.deadline == Rule.ParetoForm && rule.isolation < 1.0) paretoHoldMs(nowMs)
      else Double.PositiveInfinity
    // The paper's stage starts all its tasks at time 0; with more tasks than slots the clock starts with the last.
    lastLaunchMs + (if (holdMs >= rule.maxHoldMs) rule.maxHoldMs else math.round(holdMs))
  }

  /**
   * What holding its slots is expected to cost at most, in slot-milliseconds (section IV-B3): the paper's bound on the
   * utilization takes every slot for held until the deadline. 0 where nothing is held at the barrier.
   *
   * The stage is over, so that its own task times give t_m and alpha.
   */
  def predictedIdleMs: Long =
    if (isLast || !job.mayHold || timed == 0) 0L
    else {
      val rule = job.rule
      val shape = Pareto.shape(timed, sumLogMs - timed * math.log(scaleMs), rule.shape, rule.shapeWeight)
      val holdMs = math.min(rule.maxHoldMs.toDouble, Pareto.deadline(rule.isolation, scaleMs, shape, tasks))
      if (holdMs <= scaleMs) 0L else math.round(slots * holdMs * (1.0 - Pareto.utilization(scaleMs / holdMs, shape)))
    }

  private def prior = Barriers.Prior(job.rule.shape, job.rule.shapeWeight)

  /** The paper's D (equation 2), with t_m and alpha estimated from the tasks so far. */
  private def paretoHoldMs(nowMs: Long): Double = {
    val rule = job.rule
    val k = timed
    val scale = if (k > 0) Some(scaleMs) else rule.scaleMs
    scale.fold(Double.PositiveInfinity) { t =>
      var sumLogRatios = if (k > 0) sumLogMs - k * math.log(t) else 0.0
      attempts.valuesIterator.foreach { a =>
        if (!a.copy && !done(a.index)) sumLogRatios += math.log(math.max((nowMs - a.launchMs).toDouble, t) / t)
      }
      Pareto.deadline(rule.isolation, t, Pareto.shape(k, sumLogRatios, rule.shape, rule.shapeWeight), tasks)
    }
  }
}

/** One attempt of a task; `slots` that it took of its executor. */
private[schedcore] final class LedgerAttempt(
    val task: Long, val stage: LedgerStage, val index: Int, val executor: String, val copy: Boolean, val launchMs: Long,
    val slots: Int)
