package schedcore
package ledger

/** Called for every slot that the ledger starts or stops holding, in order. */
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
 * This is the interface: events, questions, and Algorithm 1. Free and held slots are in [[LedgerHoldings]], the formulas of a stage and
 * a job are in [[LedgerStage]] and [[LedgerJob]], the time between actions is in [[LedgerPauses]].
 *
 * The simulator has the same state machine in Python (`spark_sched_lab/enforce/ledger.py` and its `ledger_*.py`); golden sequences
 * under `protocol/golden/` bind the two.
 *
 * @param seed of the draws of calibrated deadlines
 */
class Ledger(listener: LedgerListener, idle: IdleLimits = IdleLimits.Unbounded, seed: Long = 0) {
  import Ledger._

  private var arrivals = 0
  private var shares = Option.empty[HoldShares]
  private val pauses = new LedgerPauses(idle)
  private val barriers = new Barriers(seed)
  private val holdings = new LedgerHoldings(listener, pauses)
  import holdings.{attempts, executors, jobs, stages}

  def counters: LedgerCounters = holdings.counters

  // ---- executors ---------------------------------------------------------------------------------------------

  def executorAdded(executor: String, slots: Int, profile: Int = 0): Unit =
    executors.getOrElseUpdate(executor, holdings.newExecutor(executor, slots, profile))

  /** Sets the free slots to what the cluster really offers; holds that no longer fit are dropped. */
  def observeFree(executor: String, free: Int, nowMs: Long): Unit = {
    val e = executors.getOrElseUpdate(executor, holdings.newExecutor(executor, free))
    e.free = free
    e.excluded = false
    if (free > e.slots) {
      pauses.capacity.add(free - e.slots)
      e.slots = free
    }
    holdings.dropWhatDoesNotFit(e, nowMs)
  }

  /** No new holds there and the present ones go: decommissioned. Running tasks go on. */
  def executorDraining(executor: String, nowMs: Long): Unit =
    executors.get(executor).foreach { e =>
      e.draining = true
      holdings.releaseAllOn(e, "executor_lost", nowMs)
    }

  /** No new holds there and the present ones go, until it is observed again: it is excluded for a while. */
  def executorExcluded(executor: String, nowMs: Long): Unit =
    executors.get(executor).foreach { e =>
      e.excluded = true
      holdings.releaseAllOn(e, "executor_lost", nowMs)
    }

  /** The executor is gone with all that ran and was held there. */
  def executorRemoved(executor: String, nowMs: Long): Unit =
    executors.get(executor).foreach { e =>
      holdings.releaseAllOn(e, "executor_lost", nowMs)
      executors -= executor
      pauses.capacityLost(e.slots, jobs.values, nowMs)
      val lost = attempts.valuesIterator.filter(_.executor == executor).toList.sortBy(_.task)
      lost.foreach { a => holdings.forget(a); holdings.lookAtWaiting(a.stage, nowMs) }
    }

  /** Whether Spark offers its slots: it is neither excluded nor about to go. */
  def isOpen(executor: String): Boolean = executors.get(executor).exists(_.open)

  /** Free slots of `executor`, held ones included. */
  def freeOn(executor: String): Int = executors.get(executor).fold(0)(_.free)

  def heldOn(executor: String): Int = executors.get(executor).fold(0)(_.held)

  /** Slots of `executor` that the job holds. */
  def heldOn(executor: String, job: String): Int =
    (for (e <- executors.get(executor); j <- jobs.get(job); n <- e.heldBy.get(j)) yield n).getOrElse(0)

  /** Free slots that nobody holds; 0 for an executor that is excluded or draining, since Spark offers none of its slots. */
  def idleOn(executor: String): Int = executors.get(executor).filter(_.open).fold(0)(e => math.max(0, e.free - e.held))

  /** Whether [[idleOn]] is above 0 for any executor. */
  def anyIdle: Boolean = executors.valuesIterator.exists(e => e.open && e.free > e.held)

  /** (job, executor, slots, deadline) of every hold. */
  def holds: Seq[(String, String, Int, Long)] =
    executors.valuesIterator.flatMap(e => e.heldBy.iterator.map { case (j, n) => (j.key, e.id, n, j.deadlineMs) }).toList

  // ---- jobs and stages ---------------------------------------------------------------------------------------

  def jobStarted(job: String, marked: Boolean, rule: Rule): Unit =
    if (!jobs.contains(job)) {
      arrivals += 1
      jobs(job) = new LedgerJob(job, marked, rule, arrivals, idle, barriers, holdings.changes)
      jobs(job).order.shares = shares
      holdings.ruleSet(jobs(job))
      holdings.joinPool(jobs(job))
    }

  /**
   * Sets the job's place among jobs of equal priority: lower is first, and of equal ranks the earlier arrival. Until then it has
   * rank 0 and arrived when it started.
   */
  def jobRanked(job: String, rank: Int, arrival: Int): Unit = jobs.get(job).foreach { j =>
    if (j.order.place.rank != rank || j.order.place.arrival != arrival) j.order.place = JobPlace(rank, arrival)
  }

  /** Whether `a` comes before `b` if both are of equal priority and no pool decides. */
  def isBefore(a: String, b: String): Boolean = jobs.get(a).exists(x => jobs.get(b).exists(y => x.order.place.isBefore(y.order.place)))

  def ruleOf(job: String): Option[Rule] = jobs.get(job).map(_.rule)

  /** Replaces a job's rule: holds that the new one does not want are freed, slots that it wants held. */
  def ruleChanged(job: String, rule: Rule, nowMs: Long): Unit =
    jobs.get(job).foreach { j =>
      if (j.rule != rule) {
        j.rule = rule
        holdings.ruleSet(j)
        holdings.joinPool(j)
        if (!j.mayHold) holdings.releaseAllOf(j, "disabled", nowMs)
        else {
          j.refreshDeadline(nowMs)
          holdings.demandLearned(j, nowMs)
          if (j.pause.isOpen && rule.firstGapMs.isDefined) pauses.plan(j, nowMs)
        }
      }
    }

  def jobEnded(job: String, nowMs: Long): Unit =
    jobs.remove(job).foreach { j =>
      j.ended = true
      holdings.ruleSet(j)
      holdings.releaseAllOf(j, "job_ended", nowMs)
      holdings.leavePool(j)
      holdings.stagesOver(j, nowMs)
      j.demand.successors.clear()
    }

  /**
   * A stage's tasks are ready to be launched.
   *
   * @param nextTasks slots that the stage which follows in the DAG needs for its tasks, where it is known
   * @param last nothing follows: the job ends with this stage
   * @param barrier its tasks run all at once or not at all, so that none gets a copy
   * @param slotsPerTask slots that each of the stage's tasks takes
   * @param restartable its tasks may get copies at all
   * @param vertex its name in the DAG; empty where that is unknown
   * @param successors the stages that read its output. Without any, one stage that nothing else leads to needs `nextTasks`
   * @param nextAtMost slots that the stage which follows needs at most, where something decides that while this one runs
   * @param profile resource profile of the executors that run it
   * @param killMs how long a killed attempt of its tasks still takes its slots
   * @param writes the shuffle that it writes, where no DAG names the stage that reads it
   * @param reads the shuffles that it reads
   */
  def stageStarted(
      job: String, stage: String, index: Int, tasks: Int, nextTasks: Option[Int], last: Boolean, barrier: Boolean,
      nowMs: Long, slotsPerTask: Int = 1, restartable: Boolean = true, vertex: String = "",
      successors: Seq[NextStage] = Nil, nextAtMost: Option[Int] = None, profile: Int = 0,
      killMs: Long = 0L, writes: Option[String] = None, reads: Set[String] = Set.empty): Unit =
    jobs.get(job).foreach { j =>
      pauses.end(j, nowMs)
      val p = new LedgerStage(
        stage, j, index, tasks, new Following(nextTasks, nextAtMost, last, writes), restartable && !barrier, nowMs,
        slotsPerTask, profile, killMs)
      j.order.stageReady(stage, LedgerOrder.waitsBehind(j, jobs.valuesIterator), nowMs)
      holdings.stageBegins(p, nowMs)
      LedgerDemand.started(j, p, vertex, successors, reads)
      j.demand.overridden = 0 // The new stage's own tasks ask for slots now.
      holdings.refreshDemand(j, nowMs)
      j.refreshDeadline(nowMs)
    }

  /**
   * The reader of an active stage's output became known while it runs, for example by the sizes of its first outputs.
   *
   * @param vertex its name
   * @param slots that it needs; None while that is not known
   * @param ready all of its other parents have started or ended
   * @param inputs keys of the stages whose outputs it reads, as far as they are known
   */
  def nextLearned(
      stage: String, vertex: String, slots: Option[Int], ready: Boolean, nowMs: Long,
      inputs: Seq[String] = Nil): Unit = stages.get(stage).foreach { p =>
    LedgerDemand.learned(p, vertex, slots, ready, inputs)
    holdings.demandLearned(p.job, nowMs)
  }

  /** It became known whether the job ends with an active stage. */
  def lastLearned(stage: String, last: Boolean, nowMs: Long): Unit = stages.get(stage).foreach { p =>
    p.following.last = last
    holdings.demandLearned(p.job, nowMs)
  }

  /** The stage ended, by its last task or otherwise; ending it twice is harmless. */
  def stageEnded(stage: String, nowMs: Long): Unit = stages.remove(stage).foreach { p =>
    val j = p.job
    j.stages -= stage
    holdings.lookAtWaiting(p, nowMs)
    j.order.stageOver(stage)
    LedgerDemand.stopped(j, p, nowMs)
    if (j.stages.isEmpty) {
      if (p.isLast) holdings.releaseAllOf(j, "released", nowMs)
      else pauses.begin(j, p, nowMs)
    } else {
      holdings.refreshDemand(j, nowMs)
      j.refreshDeadline(nowMs)
    }
  }

  /** An action of the job failed or was cancelled: no stage of its DAG follows, so nothing stays held for one. */
  def actionFailed(job: String, nowMs: Long): Unit = jobs.get(job).filter(_.pause.isOpen).foreach { j =>
    pauses.cut(j, nowMs)
    holdings.releaseAllOf(j, "action_failed", nowMs)
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
        val refused = e.refusedTo(jobs.get(job), alreadyTaken)
        // Where nothing is held against it, a large task may take the rest of an executor: see taskLaunched.
        e.free - alreadyTaken - refused >= (if (refused == 0) 1 else slots)
      }
    }

  /**
   * A number that stays the same while no answer of [[mayLaunch]] turns to yes without a slot that becomes free. None: pools or shares of
   * queues decide, and any launch may turn one.
   */
  def yields: Option[Long] = if (holdings.hasPools || shares.isDefined) None else Some(holdings.yields)

  /** Rises whenever a job starts, ends or gets another rule. */
  def ruleChanges: Long = holdings.ruleChanges

  /** Free slots of `executor` that are held against tasks of `job`. */
  def refusedOn(executor: String, job: String): Int = executors.get(executor).fold(0)(_.refusedTo(jobs.get(job)))

  /**
   * Slots held on `executor` that none of the jobs which want slots may take. Shares of queues may let any job take some, and pools
   * one of equal priority: then these are not counted.
   *
   * @param first the wanting job that comes first: what is held against it is held against all others, but for their own holds
   * @param wants whether the job of a key wants slots
   */
  def heldFromAll(executor: String, first: String, wants: String => Boolean): Int =
    if (shares.isDefined) 0
    else executors.get(executor).filter(_.held > 0).fold(0) { e =>
      val asker = jobs.get(first)
      var kept = 0
      e.heldBy.foreach { case (holder, n) =>
        val decides = !holdings.hasPools || asker.forall(_.rule.priority != holder.rule.priority)
        if (decides && !wants(holder.key)) kept += asker.fold(n)(LedgerOrder.refuses(holder, _, n, 0))
      }
      kept
    }

  /** Of these jobs the one whose claim comes before those of the others. */
  def firstOf(among: Iterator[String]): Option[String] =
    among.flatMap(jobs.get(_)).reduceOption((a, b) => if (LedgerOrder.outranks(b, a)) b else a).map(_.key)

  /** The jobs whose holds keep a gang of `job` from its slots; none where it waits for busy slots, too. */
  def heldUpBy(job: String, slots: Int): Set[String] = {
    val asker = jobs.get(job)
    val offered = executors.valuesIterator.filter(_.open).toList
    val free = offered.map(e => math.max(e.free, 0)).sum
    val refused = offered.map(_.refusedTo(asker)).sum
    if (free < slots || free - refused >= slots) Set.empty
    else jobs.valuesIterator.filter(j => j.held > 0 && asker.forall(LedgerOrder.refuses(j, _, 1, 0) > 0)).map(_.key).toSet
  }

  /** The job releases all slots that it holds. */
  def giveWay(job: String, nowMs: Long): Unit = jobs.get(job).foreach { j =>
    j.demand.overridden = 0
    counters.holdsGivenWay += j.held
    executors.valuesIterator.foreach(e => while (e.heldBy.contains(j)) holdings.unhold(e, j, "gave_way", nowMs))
  }

  /**
   * From now on `mayHold` says of a job whether its queue lets it hold one more slot, and `by` who may take held slots of
   * another queue. Called before any job starts, and when the queues are changed.
   */
  def limitHolds(mayHold: String => Boolean, by: Option[HoldShares] = None): Unit = {
    holdings.queueLets = mayHold
    shares = by
    jobs.valuesIterator.foreach(_.order.shares = by)
  }

  /** Whether the slots that `holder` holds are safe from `asker`. */
  def isSafe(holder: String, asker: String): Boolean = jobs.get(holder).exists { theirs =>
    jobs.get(asker).forall(mine => (theirs ne mine) && LedgerOrder.protects(theirs, mine))
  }

  /** The job releases one slot that it holds, on the latest executor: its queue is at its ceiling. */
  def giveUp(job: String, nowMs: Long): Unit = jobs.get(job).foreach { j =>
    executors.valuesIterator.filter(_.heldBy.contains(j)).toList.lastOption.foreach(holdings.unhold(_, j, "ceiling", nowMs))
  }

  def taskLaunched(task: Long, stage: String, index: Int, executor: String, copy: Boolean, nowMs: Long): Unit =
    stages.get(stage).foreach { p =>
      val j = p.job
      val at = executors.get(executor)
      // A large task's need is rounded up to whole slots, so that a task that fits may need more slots than are free.
      val slots = at.fold(p.slotsPerTask)(e => math.max(1, math.min(p.slotsPerTask, e.free)))
      val a = new LedgerAttempt(task, p, index, executor, copy, nowMs, slots)
      holdings.launched(a)
      if (copy) counters.copiesLaunched += 1
      else {
        val lent = j.order.lends
        p.launched(nowMs)
        if (j.order.lends && !lent) holdings.yields += 1
        j.demand.peakSlots = math.max(j.demand.peakSlots, j.running)
      }
      at.foreach { e =>
        holdings.use(e, j, slots, nowMs)
        e.free -= slots
        holdings.dropWhatDoesNotFit(e, nowMs, Some(j), slots)
      }
      if (j.stages.size > 1 && !p.waits) j.refreshDeadline(nowMs)
      if (j.held > 0) holdings.trim(j, nowMs)
    }

  /**
   * An attempt ended and its slots are free again: Algorithm 1, HANDLETASKCOMPLETION.
   *
   * @param success whether the attempt succeeded; a failed or killed one's task runs again unless it is done
   */
  def taskEnded(task: Long, success: Boolean, nowMs: Long): Decision = attempts.get(task) match {
    case None => Decision(keep = false, "unknown task")
    case Some(a) =>
      holdings.forget(a)
      val p = a.stage
      val j = p.job
      executors.get(a.executor).foreach(_.free += a.slots)
      val wasDone = p.done(a.index)
      if (success && !wasDone) finishTask(a, nowMs) else if (wasDone) countWaste(a, nowMs)
      holdings.lookAtWaiting(p, nowMs)
      j.order.look(nowMs)
      val active = stages.contains(p.key)
      val completed = success && !wasDone && active
      if (completed && j.mayHold && !p.isLast) {
        holdings.refreshDemand(j, nowMs, Some(a))
        j.refreshDeadline(nowMs)
      }
      val again = active && !success && !wasDone
      val place = if (again) None else LedgerFit.placeOf(a, executors, nowMs)
      val decision =
        if (!active) LedgerDecisions.afterStage(p, nowMs, place)
        else if (completed) LedgerDecisions.onCompletion(p, nowMs, place)
        else LedgerDecisions.keepUnlessLast(p, if (again) "retry" else "copy returned", nowMs, place)
      val wanted = if (decision.keep) LedgerDecisions.slotsToKeep(a, completed, nowMs, place) else 0
      var kept = 0
      while (kept < wanted && holdings.hold(j, Some(p), a.executor, nowMs)) kept += 1
      for (_ <- kept until a.slots) holdings.offerToPreReservers(a.executor, nowMs)
      if (p.done.count == p.tasks) {
        if (active) holdings.barrierFell(p, nowMs) // and not the loser of a race with a copy
        stageEnded(p.key, nowMs)
      }
      holdings.preReserveIdle(j, nowMs)
      if (decision.keep && kept == 0) Decision(keep = false, "executor gone") else decision
  }

  /** The result of a finished task was lost with its executor or on the way: the task runs again. */
  def taskUndone(stage: String, index: Int, nowMs: Long): Unit = stages.get(stage).foreach { p =>
    p.done.remove(index)
    holdings.lookAtWaiting(p, nowMs)
    holdings.refreshDemand(p.job, nowMs)
  }

  /** Another attempt of the stage did the task, which runs no more in this one. */
  def taskDoneElsewhere(stage: String, index: Int, nowMs: Long): Unit = stages.get(stage).filterNot(_.done(index)).foreach { p =>
    p.done.add(index) // Nobody knows how long it took here.
    holdings.lookAtWaiting(p, nowMs)
    p.job.changed()
    if (p.job.mayHold && !p.isLast) {
      holdings.refreshDemand(p.job, nowMs)
      p.job.refreshDeadline(nowMs)
    }
    if (p.done.count == p.tasks) {
      holdings.barrierFell(p, nowMs)
      stageEnded(p.key, nowMs)
    }
    holdings.preReserveIdle(p.job, nowMs)
  }

  /** Whether the stage has started and not ended. */
  def isActive(stage: String): Boolean = stages.contains(stage)

  /** Which tasks of the stage the ledger takes for done. */
  def doneTasks(stage: String): collection.Set[Int] = stages.get(stage).fold[collection.Set[Int]](Set.empty)(_.done.indices)

  // ---- copies (section IV-C) -----------------------------------------------------------------------------------

  /** Whether a copy of some task of `stage` is due on a held slot. */
  def wantsCopies(stage: String, nowMs: Long): Boolean = stages.get(stage).exists(holdings.copyDue(_, nowMs))

  def anyCopiesDue(nowMs: Long): Boolean = holdings.heldNow > 0 && holdings.anyCopiesDue(nowMs)

  /** Stage and index of each task that is to have a copy. */
  def copiesDue(nowMs: Long): Seq[(String, Int)] =
    if (holdings.heldNow == 0) Nil
    else jobs.valuesIterator.filter(_.held > 0).flatMap(_.stages.valuesIterator).flatMap(p => p.stragglers(nowMs).map(p.key -> _.index)).toList

  /** The task that a slot of `executor`, held by the stage's job, should run a copy of. */
  def pickCopy(stage: String, executor: String, nowMs: Long): Option[Int] =
    for {
      p <- stages.get(stage)
      e <- executors.get(executor) if e.heldBy.contains(p.job)
      due = p.stragglers(nowMs)
      // A copy beside its original shares the fate of the host: another executor first, if the job holds a slot there.
      a <- due.find(_.executor != executor).orElse(due.headOption.filter(_ => p.job.held == e.heldBy(p.job)))
    } yield a.index

  // ---- time --------------------------------------------------------------------------------------------------

  /** Frees what has expired; returns whether anything was freed, so that the caller revives offers. */
  def expire(nowMs: Long): Boolean = {
    var any = false
    if (holdings.nextOfHolding(nowMs) <= nowMs) jobs.valuesIterator.foreach { j =>
      if (j.held > 0 && j.deadlineMs <= nowMs) {
        if (j.pause.isOpen && j.deadlineMs < j.pause.endMs) holdings.releaseUnaffordable(j, nowMs)
        else {
          counters.holdsExpired += j.held
          holdings.releaseAllOf(j, "expired", nowMs)
        }
        any = true
      }
    }
    holdings.expireBudget(nowMs) || any
  }

  /** When `expire` or `anyCopiesDue` should next be asked; None while nothing is held. */
  def nextWakeMs(nowMs: Long): Option[Long] =
    if (holdings.heldNow == 0) None
    else Some(math.min(pauses.budgetEndMs(nowMs), holdings.nextOfHolding(nowMs)))

  /** How often a job was looked at so far to find out whether it wants a slot or when its holds end. */
  private[schedcore] def looks: Long = holdings.looks + pauses.looks

  def heldSlots: Int = holdings.heldNow
  def heldBy(job: String): Int = jobs.get(job).fold(0)(_.held)

  /** Idle-held slot time so far, in slot-milliseconds. */
  def heldIdleMs(nowMs: Long): Long = holdings.heldIdleMs(nowMs)

  /** The same of one job; 0 where it is unknown. */
  def heldIdleMs(job: String, nowMs: Long): Long = jobs.get(job).fold(0L)(j => j.heldTime.until(j.held, nowMs))

  /** What the job's ended stages were expected to hold idle at most, by equation 4; 0 where it is unknown. */
  def predictedIdleMs(job: String): Long = jobs.get(job).fold(0L)(_.heldTime.predictedMs)

  /** The same where it bounds all that the job has held: at an isolation level of 1 nothing does. */
  def heldAtMostMs(job: String): Long = jobs.get(job).filterNot(_.heldTime.unbounded).fold(0L)(_.heldTime.predictedMs)

  /** Slot time held between the job's actions so far; 0 where it is unknown. */
  def idleCostMs(job: String, nowMs: Long): Long = jobs.get(job).fold(0L)(pauses.costMs(_, nowMs))

  /** The same of all jobs that ever were. */
  def idleCostMs(nowMs: Long): Long = pauses.costMs(nowMs)

  /** The part of it that was held while tasks of other jobs waited for slots. */
  def idleCostAgainstWaitingMs(nowMs: Long): Long = pauses.costAgainstWaitingMs(nowMs)

  /** Sentences about what must never be; empty when all is well. */
  def violations(): Seq[String] = holdings.violations()

  private def finishTask(a: LedgerAttempt, nowMs: Long): Unit = {
    a.stage.finish(a.index, nowMs - a.launchMs)
    if (a.copy) counters.copiesWon += 1
  }

  private def countWaste(a: LedgerAttempt, nowMs: Long): Unit = if (a.stage.attempts.copied(a.index)) {
    counters.copiesWastedMs += nowMs - a.launchMs
  }
}
