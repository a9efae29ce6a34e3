package schedcore

import scala.collection.mutable

/** Told about every slot that the ledger starts or stops holding, in order. */
trait LedgerListener {
  def slotHeld(job: String, stage: String, executor: String, deadlineMs: Long, nowMs: Long): Unit
  def slotFreed(job: String, executor: String, reason: String, nowMs: Long): Unit
}

/**
 * Who holds which idle slot, and until when: Algorithm 1 of "Speculative Slot Reservation" as a state machine.
 *
 * Slots of one executor are interchangeable, so holds are counts per (executor, job). A slot is what one task of the
 * executor's own kind needs; a task of a stage that needs more takes several of one executor. The ledger knows nothing of
 * Spark; time comes in with every call and nothing is ever scheduled from here. It is not thread safe: its owner
 * calls it under one lock (live: the TaskScheduler's).
 *
 * Between a job's actions slots stay held for its usual pause and within a budget: see `docs/adr/0016-idle-holds.md`.
 *
 * Invariants (see [[violations]]): on each executor the held slots never exceed the free ones; a job that ended
 * holds nothing; every hold has a finite deadline.
 *
 * The simulator has the same state machine in Python (`spark_sched/sim/ledger.py`); golden sequences under
 * `protocol/golden/` bind the two. Iteration orders are insertion orders so that both decide alike.
 */
final class Ledger(listener: LedgerListener, idle: IdleLimits = IdleLimits.Unbounded) {
  import Ledger._

  private final class Executor(val id: String, var free: Int) {
    var draining = false
    var held = 0
    val heldBy = mutable.LinkedHashMap.empty[Job, Int]
    var slots: Int = free // all that it ever had free at once
  }

  private final class Job(val key: String, val marked: Boolean, var rule: Rule) {
    var held = 0
    var running = 0 // slots of distinct tasks: a copy beside its original is not counted
    var peakSlots = 0
    var deadlineMs = 0L
    var ended = false
    val stages = mutable.LinkedHashMap.empty[String, Stage]
    // The last demand outlives its stage: between two Spark jobs it is all that is known.
    var demand = 0
    // Held slots that a higher priority took: the job takes them back as they are released.
    var overridden = 0
    // Since when no stage is active while more may follow; negative while one is.
    var idleSinceMs = -1L
    var idleEndMs = 0L
    var afterAction = false // nothing of the DAG follows: what comes next is up to the driver's program
    val gaps = new Gaps
    val budget = new IdleBudget(idle.jobShare, idle.burstMs)
    def isIdle: Boolean = idleSinceMs >= 0
    def mayHold: Boolean = !ended && rule.isolation > 0.0
  }

  private final class Stage(
      val key: String, val job: Job, val index: Int, val tasks: Int,
      val dagNextTasks: Option[Int], val last: Boolean, val restartable: Boolean, startMs: Long, val slotsPerTask: Int) {
    val slots: Int = tasks * slotsPerTask
    val done = new mutable.BitSet(tasks)
    val copied = mutable.BitSet.empty
    val attempts = mutable.LinkedHashMap.empty[Long, Attempt]
    var lastLaunchMs: Long = startMs
    var scaleMs: Double = Double.PositiveInfinity // t_m: the stage's shortest task so far
    var sumLogMs = 0.0
    // Task times stay known when a task's result is lost, so they are counted apart from the done tasks.
    var timed = 0
    var preReserved = 0
    var finished = 0 // = done.size, which a BitSet has to count
    /** How long a task runs before a copy is worth a kill: one that runs like its siblings ends before its copy does. */
    def copyAgeMs: Long = {
      val typicalMs = if (timed == 0) 0.0 else math.exp(sumLogMs / timed)
      math.max(job.rule.copyMinTaskMs, math.round(job.rule.copyMinSlowdown * typicalMs))
    }
    /** Without a finished sibling nobody can tell a straggler from a task that takes its time. */
    def paceKnown: Boolean = timed > 0 || job.rule.copyMinSlowdown == 0.0
    def runningTasks: Int = attempts.valuesIterator.filter(a => !a.copy && !done(a.index)).size
  }

  private final class Attempt(
      val task: Long, val stage: Stage, val index: Int, val executor: String, val copy: Boolean, val launchMs: Long,
      val slots: Int)

  private val executors = mutable.LinkedHashMap.empty[String, Executor]
  private val jobs = mutable.LinkedHashMap.empty[String, Job]
  private val stages = mutable.HashMap.empty[String, Stage]
  private val attempts = mutable.HashMap.empty[Long, Attempt]

  val counters = new Counters
  private var heldNow = 0
  private var heldSinceMs = 0L
  private val capacity = new Capacity
  private val budget = new IdleBudget(idle.share, idle.burstMs)
  private var idleHeld = 0 // by jobs without an active stage

  // ---- executors ---------------------------------------------------------------------------------------------

  def executorAdded(executor: String, slots: Int): Unit =
    executors.getOrElseUpdate(executor, newExecutor(executor, slots))

  /** Sets the free slots to what the cluster really offers; holds that no longer fit are dropped. */
  def observeFree(executor: String, free: Int, nowMs: Long): Unit = {
    val e = executors.getOrElseUpdate(executor, newExecutor(executor, free))
    e.free = free
    if (free > e.slots) {
      capacity.add(free - e.slots)
      e.slots = free
    }
    dropWhatDoesNotFit(e, nowMs)
  }

  /** No new holds there and the present ones go: decommissioned. Running tasks go on. */
  def executorDraining(executor: String, nowMs: Long): Unit =
    executors.get(executor).foreach { e =>
      e.draining = true
      releaseAllOn(e, "executor_lost", nowMs)
    }

  /** What is held there goes, though the executor may come back: it is excluded for a while. */
  def executorExcluded(executor: String, nowMs: Long): Unit =
    executors.get(executor).foreach(releaseAllOn(_, "executor_lost", nowMs))

  /** The executor is gone with all that ran and was held there. */
  def executorRemoved(executor: String, nowMs: Long): Unit =
    executors.get(executor).foreach { e =>
      releaseAllOn(e, "executor_lost", nowMs)
      executors -= executor
      capacity.advance(nowMs)
      capacity.add(-e.slots)
      capacity.advance(nowMs)
      jobs.valuesIterator.filter(_.isIdle).foreach { j => settleIdle(j, nowMs); refreshIdle(j, nowMs) }
      attempts.valuesIterator.filter(_.executor == executor).toSeq.sortBy(_.task).foreach(forget)
    }

  /** Free slots of `executor`, held ones included. */
  def freeOn(executor: String): Int = executors.get(executor).fold(0)(_.free)

  private def newExecutor(executor: String, slots: Int): Executor = {
    capacity.add(slots)
    new Executor(executor, slots)
  }

  def heldOn(executor: String): Int = executors.get(executor).fold(0)(_.held)

  /** Slots that nothing runs on and nobody holds. */
  def idleOn(executor: String): Int = executors.get(executor).fold(0)(e => math.max(0, e.free - e.held))

  /** (job, executor, slots, deadline) of every hold. */
  def holds: Seq[(String, String, Int, Long)] =
    executors.valuesIterator.flatMap(e => e.heldBy.iterator.map { case (j, n) => (j.key, e.id, n, j.deadlineMs) }).toSeq

  // ---- jobs and stages ---------------------------------------------------------------------------------------

  def jobStarted(job: String, marked: Boolean, rule: Rule): Unit =
    if (!jobs.contains(job)) jobs(job) = new Job(job, marked, rule)

  def ruleOf(job: String): Option[Rule] = jobs.get(job).map(_.rule)

  /** Replaces a job's rule; holds that the new rule does not want are freed. */
  def ruleChanged(job: String, rule: Rule, nowMs: Long): Unit =
    jobs.get(job).foreach { j =>
      if (j.rule != rule) {
        j.rule = rule
        if (!j.mayHold) releaseAllOf(j, "disabled", nowMs)
        else {
          refreshDeadline(j, nowMs)
          if (j.isIdle && rule.firstGapMs.isDefined) planIdle(j, nowMs)
        }
      }
    }

  def jobEnded(job: String, nowMs: Long): Unit =
    jobs.remove(job).foreach { j =>
      j.ended = true
      releaseAllOf(j, "job_ended", nowMs)
      j.stages.keysIterator.foreach(stages -= _)
      j.stages.clear()
    }

  /**
   * A stage's tasks are ready to be launched.
   *
   * @param nextTasks slots that the stage which follows in the DAG needs for its tasks, where it is known
   * @param last nothing follows: the job ends with this stage
   * @param barrier its tasks run all at once or not at all, so that none gets a copy
   * @param slotsPerTask slots that each of the stage's tasks takes
   * @param restartable its tasks may get copies at all
   */
  def stageStarted(
      job: String, stage: String, index: Int, tasks: Int, nextTasks: Option[Int], last: Boolean, barrier: Boolean,
      nowMs: Long, slotsPerTask: Int = 1, restartable: Boolean = true): Unit =
    jobs.get(job).foreach { j =>
      endIdle(j, nowMs)
      val p = new Stage(stage, j, index, tasks, nextTasks, last, restartable && !barrier, nowMs, slotsPerTask)
      stages(stage) = p
      j.stages(stage) = p
      j.overridden = 0 // From here on the stage's own tasks ask.
      refreshDemand(j, nowMs)
      refreshDeadline(j, nowMs)
    }

  /** The stage ended, by its last task or otherwise; ending it twice is harmless. */
  def stageEnded(stage: String, nowMs: Long): Unit = stages.remove(stage).foreach { p =>
    val j = p.job
    j.stages -= stage
    if (j.stages.isEmpty) {
      if (p.last) releaseAllOf(j, "released", nowMs)
      else beginIdle(j, p, nowMs)
    } else {
      refreshDemand(j, nowMs)
      refreshDeadline(j, nowMs)
    }
  }

  // ---- tasks -------------------------------------------------------------------------------------------------

  /**
   * Algorithm 1, TRYALLOCATETASK: may a task of `job` take `slots` of `executor` now?
   *
   * @param alreadyTaken slots promised in this round to tasks that the ledger has not heard of
   */
  def mayLaunch(job: String, executor: String, alreadyTaken: Int = 0, slots: Int = 1): Boolean =
    executors.get(executor).forall { e =>
      if (e.held == 0) true
      else {
        val refused = refusedOn(e, jobs.get(job))
        // Where nothing is held against it, a large task may take the rest of an executor: see taskLaunched.
        e.free - alreadyTaken - refused >= (if (refused == 0) 1 else slots)
      }
    }

  private def refusedOn(e: Executor, asker: Option[Job]): Int = {
    val priority = asker.fold(Int.MinValue)(_.rule.priority)
    var refused = 0
    e.heldBy.foreachEntry { (holder, n) => if (!asker.contains(holder) && holder.rule.priority >= priority) refused += n }
    refused
  }

  /** Free slots of `executor` that are held against tasks of `job`. */
  def refusedOn(executor: String, job: String): Int = executors.get(executor).fold(0)(refusedOn(_, jobs.get(job)))

  /** The jobs whose holds keep a gang of `job` from its slots; none where it waits for busy slots, too. */
  def heldUpBy(job: String, slots: Int): Set[String] = {
    val asker = jobs.get(job)
    val free = executors.valuesIterator.map(e => math.max(e.free, 0)).sum
    val refused = executors.valuesIterator.map(refusedOn(_, asker)).sum
    if (free < slots || free - refused >= slots) Set.empty
    else {
      val priority = asker.fold(Int.MinValue)(_.rule.priority)
      jobs.valuesIterator.filter(j => j.held > 0 && !asker.contains(j) && j.rule.priority >= priority).map(_.key).toSet
    }
  }

  /** The job gives up what it holds, to nobody in particular. */
  def giveWay(job: String, nowMs: Long): Unit = jobs.get(job).foreach { j =>
    j.overridden = 0
    counters.holdsGivenWay += j.held
    executors.valuesIterator.foreach(e => while (e.heldBy.contains(j)) unhold(e, j, "gave_way", nowMs))
  }

  def taskLaunched(task: Long, stage: String, index: Int, executor: String, copy: Boolean, nowMs: Long): Unit =
    stages.get(stage).foreach { p =>
      val j = p.job
      val at = executors.get(executor)
      // Whole slots round a large task's need up: one that fits may seem to need more than is left.
      val slots = at.fold(p.slotsPerTask)(e => math.max(1, math.min(p.slotsPerTask, e.free)))
      val a = new Attempt(task, p, index, executor, copy, nowMs, slots)
      attempts(task) = a
      p.attempts(task) = a
      if (copy) { p.copied += index; counters.copiesLaunched += 1 }
      else {
        p.lastLaunchMs = nowMs
        j.running += slots
        j.peakSlots = math.max(j.peakSlots, j.running)
      }
      at.foreach { e =>
        var used = 0
        while (used < slots && e.heldBy.contains(j)) {
          unhold(e, j, "used", nowMs)
          counters.holdsUsed += 1
          used += 1
        }
        e.free -= slots
        dropWhatDoesNotFit(e, nowMs)
      }
      if (j.held > 0) trim(j, nowMs)
    }

  /**
   * An attempt ended and its slots are free again: Algorithm 1, HANDLETASKCOMPLETION.
   *
   * @param success whether the attempt succeeded; a failed or killed one's task runs again unless it is done
   */
  def taskEnded(task: Long, success: Boolean, nowMs: Long): Decision = attempts.get(task) match {
    case None => Decision(keep = false, "unknown task")
    case Some(a) =>
      forget(a)
      val p = a.stage
      val j = p.job
      executors.get(a.executor).foreach(_.free += a.slots)
      val wasDone = p.done(a.index)
      if (success && !wasDone) finishTask(a, nowMs) else if (wasDone) countWaste(a, nowMs)
      val decision =
        if (!stages.contains(p.key)) afterStage(p, nowMs)
        else if (success && !wasDone) onCompletion(p, nowMs)
        else if (wasDone) keepUnlessLast(p, "copy returned", nowMs)
        else keepUnlessLast(p, "retry", nowMs)
      val wanted = if (decision.keep) slotsToKeep(a, success && !wasDone) else 0
      var kept = 0
      while (kept < wanted && hold(j, Some(p), a.executor, nowMs)) kept += 1
      for (_ <- kept until a.slots) offerToPreReservers(a.executor, nowMs)
      if (p.finished == p.tasks) stageEnded(p.key, nowMs)
      preReserveIdle(j, nowMs)
      if (decision.keep && kept == 0) Decision(keep = false, "executor gone") else decision
  }

  /** The result of a finished task was lost with its executor or on the way: the task runs again. */
  def taskUndone(stage: String, index: Int): Unit = stages.get(stage).foreach { p =>
    if (p.done.remove(index)) p.finished -= 1
  }

  /** Which tasks of the stage the ledger takes for done. */
  def doneTasks(stage: String): collection.Set[Int] = stages.get(stage).fold[collection.Set[Int]](Set.empty)(_.done)

  // ---- copies (section IV-C) -----------------------------------------------------------------------------------

  /** Whether a copy of some task of `stage` is due on a held slot. */
  def wantsCopies(stage: String, nowMs: Long): Boolean = stages.get(stage).exists(p => stragglers(p, nowMs).nonEmpty)

  def anyCopiesDue(nowMs: Long): Boolean =
    heldNow > 0 && jobs.valuesIterator.exists(j => j.held > 0 && j.stages.valuesIterator.exists(stragglers(_, nowMs).nonEmpty))

  /** The task that a slot of `executor`, held by the stage's job, should run a copy of. */
  def pickCopy(stage: String, executor: String, nowMs: Long): Option[Int] =
    for {
      p <- stages.get(stage)
      e <- executors.get(executor) if e.heldBy.contains(p.job)
      due = stragglers(p, nowMs)
      // A copy beside its original shares the fate of the host: another executor first, if the job holds a slot there.
      a <- due.find(_.executor != executor).orElse(due.headOption.filter(_ => p.job.held == e.heldBy(p.job)))
    } yield a.index

  private def stragglers(p: Stage, nowMs: Long): Seq[Attempt] = {
    val j = p.job
    if (!j.rule.copies || !p.restartable || j.held == 0 || !p.paceKnown) Nil
    else {
      val running = p.runningTasks
      // Tasks still waiting for a slot come before copies.
      if (running == 0 || p.finished + running < p.tasks) Nil
      else {
        val uncopied = p.attempts.valuesIterator.filter(a => !a.copy && !p.done(a.index) && !p.copied(a.index)).toSeq
        if (uncopied.size * p.slotsPerTask > j.held) Nil
        else {
          val ageMs = p.copyAgeMs
          uncopied.filter(_.launchMs + ageMs <= nowMs)
        }
      }
    }
  }

  // ---- time --------------------------------------------------------------------------------------------------

  /** Frees what has expired; returns whether anything was freed, so that the caller revives offers. */
  def expire(nowMs: Long): Boolean = {
    var any = false
    jobs.valuesIterator.foreach { j =>
      if (j.held > 0 && j.deadlineMs <= nowMs) {
        if (j.isIdle && j.deadlineMs < j.idleEndMs) releaseUnaffordable(j, nowMs)
        else {
          counters.holdsExpired += j.held
          releaseAllOf(j, "expired", nowMs)
        }
        any = true
      }
    }
    expireBudget(nowMs) || any
  }

  /** When `expire` or `anyCopiesDue` should next be asked; None while nothing is held. */
  def nextWakeMs(nowMs: Long): Option[Long] =
    if (heldNow == 0) None
    else {
      var wake = budgetEndMs(nowMs)
      jobs.valuesIterator.foreach { j =>
        if (j.held > 0) {
          wake = math.min(wake, j.deadlineMs)
          if (j.rule.copies) j.stages.valuesIterator.foreach { p =>
            if (p.restartable && p.paceKnown) {
              val ageMs = p.copyAgeMs
              p.attempts.valuesIterator.foreach { a =>
                val oldEnough = a.launchMs + ageMs
                if (!a.copy && !p.copied(a.index) && oldEnough > nowMs) wake = math.min(wake, oldEnough)
              }
            }
          }
        }
      }
      Some(wake)
    }

  def heldSlots: Int = heldNow
  def heldBy(job: String): Int = jobs.get(job).fold(0)(_.held)

  /** Idle-held slot time so far, in slot-milliseconds. */
  def heldIdleMs(nowMs: Long): Long = counters.heldIdleSlotMs + heldNow * (nowMs - heldSinceMs)

  /** Sentences about what must never be; empty when all is well. */
  def violations(): Seq[String] = {
    val found = mutable.ArrayBuffer.empty[String]
    executors.valuesIterator.foreach { e =>
      val sum = e.heldBy.valuesIterator.sum
      if (sum != e.held) found += s"executor ${e.id}: held ${e.held} but its holders have $sum"
      if (e.held > math.max(e.free, 0)) found += s"executor ${e.id}: ${e.held} held of ${e.free} free slots"
      if (e.heldBy.valuesIterator.exists(_ <= 0)) found += s"executor ${e.id}: a holder with no slots"
      e.heldBy.keysIterator.filter(_.ended).foreach(j => found += s"executor ${e.id}: ended job ${j.key} holds slots")
    }
    val onExecutors = executors.valuesIterator.map(_.held).sum
    if (onExecutors != heldNow) found += s"$heldNow slots held in all but $onExecutors on executors"
    jobs.valuesIterator.foreach { j =>
      val sum = executors.valuesIterator.map(_.heldBy.getOrElse(j, 0)).sum
      if (sum != j.held) found += s"job ${j.key}: holds ${j.held} but executors say $sum"
      if (j.held > 0 && j.rule.isolation <= 0) found += s"job ${j.key}: holds slots at isolation 0"
      if (j.running < 0) found += s"job ${j.key}: ${j.running} tasks run"
    }
    val between = jobs.valuesIterator.filter(_.isIdle).map(_.held).sum
    if (between != idleHeld) found += s"$idleHeld slots held between actions but jobs say $between"
    found.toSeq
  }

  // ---- Algorithm 1 -------------------------------------------------------------------------------------------

  private def onCompletion(p: Stage, nowMs: Long): Decision = {
    val j = p.job
    val m = p.slots
    if (!j.mayHold) Decision(keep = false, "no isolation")
    else if (p.last) Decision(keep = false, "last stage") // lines 2-3
    else {
      val n = expectedNext(p)
      refreshDemand(j, nowMs)
      refreshDeadline(j, nowMs)
      if (n.exists(next => m > next && p.finished * p.slotsPerTask <= m - next)) Decision(keep = false, "fewer tasks next") // lines 9-11
      else room(j, nowMs, if (n.isEmpty) "next stage unknown" else "next stage") // lines 6-8, 12-15
    }
  }

  private def keepUnlessLast(p: Stage, why: String, nowMs: Long): Decision =
    if (!p.job.mayHold) Decision(keep = false, "no isolation")
    else if (p.last) Decision(keep = false, "last stage")
    else room(p.job, nowMs, why)

  /** A killed twin's slot comes back after its stage ended: it was the job's, so it stays until the gap ends. */
  private def afterStage(p: Stage, nowMs: Long): Decision =
    if (p.last || !p.job.mayHold) Decision(keep = false, "stage over") else room(p.job, nowMs, "copy returned")

  private def room(j: Job, nowMs: Long, why: String): Decision =
    if (j.deadlineMs <= nowMs) Decision(keep = false, "deadline passed")
    else if (j.running + j.held >= j.demand) Decision(keep = false, "enough held")
    else Decision(keep = true, why)

  /** How many of an ended attempt's slots its job keeps, if it keeps any. */
  private def slotsToKeep(a: Attempt, completed: Boolean): Int =
    if (a.slots == 1) 1
    else {
      val p = a.stage
      val most = math.min(a.slots, p.job.demand - p.job.running - p.job.held)
      // The first m - n slots go: of the task that crosses this bound the slots beyond it stay.
      if (completed && stages.contains(p.key)) expectedNext(p).filter(_ < p.slots).fold(most) { n =>
        math.min(most, p.finished * p.slotsPerTask - (p.slots - n))
      } else most
    }

  /** n: the slots to hold for what follows this stage; None when nothing is known. */
  private def expectedNext(p: Stage): Option[Int] = {
    val j = p.job
    val known = j.rule.stageTasks
    val inStep = p.index < known.size && known(p.index) == p.tasks
    // Earlier runs tell tasks: those that follow are taken to need what these need.
    val later = if (inStep) known.drop(p.index + 1).map(_ * p.slotsPerTask) else IndexedSeq.empty
    val next = p.dagNextTasks.orElse(later.headOption)
    if (!j.rule.wholeJob || !j.marked) next
    // What a marked job's next action needs is not in any DAG: the widest stage that earlier runs had from here on,
    // else the widest so far.
    else if (later.nonEmpty) Some(math.max(later.max, next.getOrElse(0)))
    else next.map(math.max(_, j.peakSlots))
  }

  /** With n unknown the paper expects m again; what a marked job's next action needs is its widest stage so far. */
  private def sameAgain(p: Stage): Int =
    if (p.job.rule.wholeJob && p.job.marked) math.max(p.slots, p.job.peakSlots) else p.slots

  private def pastThreshold(p: Stage): Boolean = p.finished > p.job.rule.preReserveThreshold * p.tasks

  /** Slots that the job may have in all, held and running: nothing is held beyond the widest of now and next. */
  private def refreshDemand(j: Job, nowMs: Long): Unit = if (j.stages.nonEmpty) {
    var now = 0
    var next = 0
    j.stages.valuesIterator.foreach { p =>
      now += p.slots
      next = math.max(next, if (p.last) 0 else expectedNext(p).getOrElse(sameAgain(p)))
    }
    j.demand = math.max(now, next)
    trim(j, nowMs)
  }

  private def trim(j: Job, nowMs: Long): Unit = {
    var surplus = j.running + j.held - j.demand
    if (surplus > 0 && j.held > 0) {
      val latestFirst = executors.valuesIterator.filter(_.heldBy.contains(j)).toSeq.reverseIterator
      latestFirst.foreach { e =>
        while (surplus > 0 && e.heldBy.contains(j)) { giveBack(e, j, "trimmed", nowMs); surplus -= 1 }
      }
    }
  }

  /** All holds of a job share one deadline: the latest among its active stages. */
  private def refreshDeadline(j: Job, nowMs: Long): Unit = if (j.stages.nonEmpty) {
    var latest = Long.MinValue
    j.stages.valuesIterator.foreach(p => latest = math.max(latest, stageDeadline(p, nowMs)))
    j.deadlineMs = latest
  }

  private def stageDeadline(p: Stage, nowMs: Long): Long = {
    val rule = p.job.rule
    val capMs = p.lastLaunchMs + rule.maxHoldMs
    val k = p.timed
    val scale = if (k > 0) Some(p.scaleMs) else rule.scaleMs
    scale match {
      case Some(t) if rule.isolation < 1.0 =>
        // The paper's stage starts all its tasks at time 0; with more tasks than slots the clock starts with the last.
        var sumLogRatios = if (k > 0) p.sumLogMs - k * math.log(t) else 0.0
        p.attempts.valuesIterator.foreach { a =>
          if (!a.copy && !p.done(a.index)) sumLogRatios += math.log(math.max((nowMs - a.launchMs).toDouble, t) / t)
        }
        val shape = Pareto.shape(k, sumLogRatios, rule.shape, rule.shapeWeight)
        val d = Pareto.deadline(rule.isolation, t, shape, p.tasks)
        if (d >= rule.maxHoldMs) capMs else p.lastLaunchMs + math.round(d)
      case _ => capMs
    }
  }

  private def finishTask(a: Attempt, nowMs: Long): Unit = {
    val p = a.stage
    p.done += a.index
    p.finished += 1
    p.timed += 1
    if (a.copy) counters.copiesWon += 1
    val durationMs = math.max(1L, nowMs - a.launchMs).toDouble
    p.scaleMs = math.min(p.scaleMs, durationMs)
    p.sumLogMs += math.log(durationMs)
  }

  private def countWaste(a: Attempt, nowMs: Long): Unit = if (a.stage.copied(a.index)) {
    counters.copiesWastedMs += nowMs - a.launchMs
  }

  // ---- between a job's actions -----------------------------------------------------------------------------------

  private def beginIdle(j: Job, after: Stage, nowMs: Long): Unit = {
    settleIdle(j, nowMs)
    j.idleSinceMs = nowMs
    j.afterAction = after.dagNextTasks.isEmpty
    idleHeld += j.held
    planIdle(j, nowMs)
  }

  private def endIdle(j: Job, nowMs: Long): Unit = if (j.isIdle) {
    settleIdle(j, nowMs)
    if (j.afterAction) j.gaps.add(math.max(0L, nowMs - j.idleSinceMs))
    idleHeld -= j.held
    j.idleSinceMs = -1L
  }

  private def planIdle(j: Job, nowMs: Long): Unit = {
    settleIdle(j, nowMs)
    // Without a rule for pauses what comes back later is kept as long as the stage's own slots were.
    val plain = j.rule.firstGapMs.isEmpty && j.held == 0
    j.idleEndMs = if (plain) j.deadlineMs else j.idleSinceMs + idleHoldMs(j, nowMs)
    refreshIdle(j, nowMs)
  }

  private def idleHoldMs(j: Job, nowMs: Long): Long = j.rule.firstGapMs match {
    case Some(first) if j.afterAction =>
      val usualMs = math.min(j.rule.gapMs, j.gaps.holdMs.getOrElse(first))
      val endMs = math.min(j.budget.endMs(j.held, nowMs, capacity), budget.endMs(idleHeld, nowMs, capacity))
      // What would end before every one of the latest pauses did is of no use to anybody.
      if (j.gaps.shortestMs.exists(_ > math.min(usualMs, endMs - j.idleSinceMs))) 0L else usualMs
    case _ => j.rule.gapMs
  }

  /** The budget's end moves with the number of slots: they share what is left. */
  private def refreshIdle(j: Job, nowMs: Long): Unit =
    j.deadlineMs = math.min(j.idleEndMs, j.budget.endMs(j.held, nowMs, capacity))

  private def settleIdle(j: Job, nowMs: Long): Unit = {
    settleAll(nowMs)
    j.budget.settle(if (j.isIdle) j.held else 0, nowMs, capacity)
  }

  private def settleAll(nowMs: Long): Unit = {
    capacity.advance(nowMs)
    budget.settle(idleHeld, nowMs, capacity)
  }

  private def budgetEndMs(nowMs: Long): Long =
    if (idleHeld == 0) Long.MaxValue
    else {
      settleAll(nowMs)
      budget.endMs(idleHeld, nowMs, capacity)
    }

  /** The lowest priority gives way first, of equals the latest to start. */
  private def expireBudget(nowMs: Long): Boolean = {
    var any = false
    while (budgetEndMs(nowMs) <= nowMs) {
      var loser: Job = null
      jobs.valuesIterator.foreach { j =>
        if (j.isIdle && j.held > 0 && (loser == null || j.rule.priority <= loser.rule.priority)) loser = j
      }
      releaseUnaffordable(loser, nowMs)
      any = true
    }
    any
  }

  private def releaseUnaffordable(j: Job, nowMs: Long): Unit = {
    j.idleEndMs = nowMs
    counters.holdsOverBudget += j.held
    releaseAllOf(j, "over_budget", nowMs)
    j.deadlineMs = nowMs
  }

  /** Slot time held between the job's actions so far; 0 where it is unknown. */
  def idleCostMs(job: String, nowMs: Long): Long = jobs.get(job).fold(0L) { j =>
    settleIdle(j, nowMs)
    j.budget.costMs
  }

  /** The same of all jobs that ever were. */
  def idleCostMs(nowMs: Long): Long = {
    settleAll(nowMs)
    budget.costMs
  }

  // ---- pre-reservation (Algorithm 1, lines 14-17) --------------------------------------------------------------

  /** How many released slots the job wants beside its own. */
  private def wanted(j: Job, nowMs: Long): Int =
    if (!j.mayHold || j.deadlineMs <= nowMs) 0
    else {
      var most = math.min(j.overridden, j.demand - j.running - j.held)
      j.stages.valuesIterator.foreach { p =>
        if (!p.last && pastThreshold(p)) expectedNext(p).foreach { n =>
          most = math.max(most, math.min(n - j.running - j.held, n - p.slots - p.preReserved))
        }
      }
      most
    }

  private def offerToPreReservers(executor: String, nowMs: Long): Unit = {
    var best: Job = null
    jobs.valuesIterator.foreach { j =>
      if ((best == null || j.rule.priority > best.rule.priority) && wanted(j, nowMs) > 0) best = j
    }
    if (best != null) executors.get(executor).foreach(takeIdle(best, _, nowMs))
  }

  /** Slots that idle unheld when the threshold is crossed are taken at once. */
  private def preReserveIdle(j: Job, nowMs: Long): Unit = {
    var want = if (j.stages.isEmpty) 0 else wanted(j, nowMs)
    if (want > 0) executors.valuesIterator.foreach { e =>
      while (want > 0 && takeIdle(j, e, nowMs)) want -= 1
    }
  }

  private def takeIdle(j: Job, e: Executor, nowMs: Long): Boolean = {
    val p = j.stages.valuesIterator.find(p => !p.last && pastThreshold(p)).orElse(j.stages.valuesIterator.nextOption())
    val taken = hold(j, p, e.id, nowMs)
    if (taken) {
      // What was lost comes first; only slots beyond it count against n - m.
      if (j.overridden > 0) j.overridden -= 1 else p.foreach(_.preReserved += 1)
      counters.preReserved += 1
    }
    taken
  }

  // ---- bookkeeping -------------------------------------------------------------------------------------------

  private def forget(a: Attempt): Unit = {
    attempts -= a.task
    a.stage.attempts -= a.task
    if (!a.copy) a.stage.job.running -= a.slots
  }

  private def hold(j: Job, p: Option[Stage], executor: String, nowMs: Long): Boolean = executors.get(executor).exists { e =>
    val fits = !e.draining && e.free > e.held
    if (fits) {
      integrate(nowMs)
      if (j.isIdle) settleIdle(j, nowMs)
      e.held += 1
      e.heldBy(j) = e.heldBy.getOrElse(j, 0) + 1
      j.held += 1
      heldNow += 1
      if (j.isIdle) { idleHeld += 1; refreshIdle(j, nowMs) }
      counters.holds += 1
      listener.slotHeld(j.key, p.fold("")(_.key), executor, j.deadlineMs, nowMs)
    }
    fits
  }

  private def unhold(e: Executor, j: Job, reason: String, nowMs: Long): Unit = {
    integrate(nowMs)
    if (j.isIdle) settleIdle(j, nowMs)
    val left = e.heldBy(j) - 1
    if (left == 0) e.heldBy -= j else e.heldBy(j) = left
    e.held -= 1
    j.held -= 1
    heldNow -= 1
    if (j.isIdle) { idleHeld -= 1; refreshIdle(j, nowMs) }
    listener.slotFreed(j.key, e.id, reason, nowMs)
  }

  private def releaseAllOn(e: Executor, reason: String, nowMs: Long): Unit =
    e.heldBy.keysIterator.toSeq.foreach(j => while (e.heldBy.contains(j)) unhold(e, j, reason, nowMs))

  private def releaseAllOf(j: Job, reason: String, nowMs: Long): Unit = {
    j.overridden = 0
    if (j.held > 0)
      executors.valuesIterator.foreach(e => while (e.heldBy.contains(j)) giveBack(e, j, reason, nowMs))
  }

  /** A slot that one job holds no more is a released slot to those that wait for one. */
  private def giveBack(e: Executor, j: Job, reason: String, nowMs: Long): Unit = {
    unhold(e, j, reason, nowMs)
    offerToPreReservers(e.id, nowMs)
  }

  /** A task of higher priority took the slot: the lowest priority gives way, of equals the latest to hold there. */
  private def dropWhatDoesNotFit(e: Executor, nowMs: Long): Unit = while (e.held > math.max(e.free, 0)) {
    var loser: Job = null
    e.heldBy.keysIterator.foreach(j => if (loser == null || j.rule.priority <= loser.rule.priority) loser = j)
    unhold(e, loser, "overridden", nowMs)
    loser.overridden += 1
    counters.holdsOverridden += 1
  }

  private def integrate(nowMs: Long): Unit = {
    counters.heldIdleSlotMs += heldNow * (nowMs - heldSinceMs)
    heldSinceMs = nowMs
  }
}

object Ledger {

  /** What happened to a freed slot, and why, in words for people. */
  final case class Decision(keep: Boolean, reason: String)

  final class Counters {
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
  }
}
