package schedcore
package ledger

import scala.collection.mutable

/**
 * Which slots are free, which ones are held and for whom, and how a slot passes from one job to another.
 *
 * `spark_sched_lab/enforce/ledger_holdings.py` has the same. Iteration orders are insertion orders so that both decide alike.
 */
private[schedcore] final class LedgerHoldings(listener: LedgerListener, val pauses: LedgerPauses) {
  val executors = mutable.LinkedHashMap.empty[String, LedgerExecutor]
  val jobs = mutable.LinkedHashMap.empty[String, LedgerJob]
  val stages = mutable.HashMap.empty[String, LedgerStage]
  val attempts = mutable.HashMap.empty[Long, LedgerAttempt]
  private val pools = mutable.HashMap.empty[String, PoolUse]
  // In the order of `jobs`, by the jobs' numbers. Most jobs hold nothing, and nobody looks at them for each slot.
  private val mayHold = mutable.TreeMap.empty[Int, LedgerJob]
  private val holding = mutable.HashSet.empty[LedgerJob]
  val changes = new HolderChanges
  /** Counts what may let a job take a slot that it could not take: a hold went, or a job began to lend its holds. */
  var yields = 0L
  /** Counts changes of what orders jobs: the jobs themselves and their rules. */
  var ruleChanges = 0L
  def hasPools: Boolean = pools.nonEmpty
  /** How often a job was looked at to find out whether it wants a slot or when its holds end: the cost of a task's end. */
  var looks = 0L
  val counters = new LedgerCounters
  /** Whether the queue of the job of this key lets it hold one more slot. */
  var queueLets: String => Boolean = (_: String) => true
  private var held = 0
  private var heldSinceMs = 0L

  /** Slots held now. */
  def heldNow: Int = held

  /** Idle-held slot time so far, in slot-milliseconds. */
  def heldIdleMs(nowMs: Long): Long = counters.heldIdleSlotMs + held * (nowMs - heldSinceMs)

  /** All tasks of the stage are done. */
  def barrierFell(p: LedgerStage, nowMs: Long): Unit = {
    p.fell(nowMs)
    val predictedMs = p.predictedIdleMs
    p.job.heldTime.predictedMs += predictedMs
    p.job.heldTime.unbounded ||= p.job.rule.isolation >= 1.0
    counters.predictedIdleSlotMs += predictedMs
  }

  /** The job has another rule, or ended. */
  def ruleSet(j: LedgerJob): Unit = {
    ruleChanges += 1
    if (j.mayHold) mayHold(j.number) = j else mayHold -= j.number
    j.changed()
  }

  def newExecutor(executor: String, slots: Int, profile: Int = 0): LedgerExecutor = {
    pauses.capacity.add(slots)
    new LedgerExecutor(executor, slots, profile)
  }

  /** The job's slots count against the pool that its rule names. */
  def joinPool(j: LedgerJob): Unit = if (j.pool.map(_.share) != j.rule.pool) {
    leavePool(j)
    j.rule.pool.foreach { share =>
      val pool = pools.getOrElseUpdate(share.name, new PoolUse(share))
      pool.share = share // The latest rule's share applies to all jobs of the pool.
      pool.jobs += 1
      pool.used += j.busy + j.held
      j.pool = Some(pool)
    }
  }

  def leavePool(j: LedgerJob): Unit = j.pool.foreach { pool =>
    pool.used -= j.busy + j.held
    pool.jobs -= 1
    if (pool.jobs == 0) pools -= pool.share.name
    j.pool = None
  }

  def launched(a: LedgerAttempt): Unit = {
    attempts(a.task) = a
    a.stage.attempts.add(a)
    lookAtWaiting(a.stage, a.launchMs)
    occupied(a, a.slots)
  }

  def forget(a: LedgerAttempt): Unit = {
    attempts -= a.task
    a.stage.attempts.remove(a)
    occupied(a, -a.slots)
  }

  private def occupied(a: LedgerAttempt, slots: Int): Unit = {
    val j = a.stage.job
    if (!a.copy) j.running += slots
    j.busy += slots
    j.pool.foreach(_.used += slots)
    j.changed()
  }

  def stageBegins(p: LedgerStage, nowMs: Long): Unit = {
    val replaced = stages.put(p.key, p)
    p.job.stages(p.key) = p
    replaced.foreach(lookAtWaiting(_, nowMs))
    lookAtWaiting(p, nowMs)
  }

  /** All stages of the job end with it. */
  def stagesOver(j: LedgerJob, nowMs: Long): Unit = {
    j.stages.valuesIterator.foreach { p =>
      if (stages.get(p.key).exists(_ eq p)) stages -= p.key
      lookAtWaiting(p, nowMs)
    }
    j.stages.clear()
  }

  /** To be called after a change of the stage's tasks and after its end. */
  def lookAtWaiting(p: LedgerStage, nowMs: Long): Unit = pauses.setWaiting(p, p.waits && stages.get(p.key).exists(_ eq p), nowMs)

  // ---- one slot ----------------------------------------------------------------------------------------------

  def hold(j: LedgerJob, p: Option[LedgerStage], executor: String, nowMs: Long): Boolean = executors.get(executor).exists { e =>
    val fits = e.open && e.free > e.held && queueLets(j.key)
    if (fits) {
      integrate(j, nowMs)
      pauses.changing(j, nowMs)
      e.held += 1
      e.heldBy(j) = e.heldBy.getOrElse(j, 0) + 1
      j.held += 1
      if (j.held == 1) holding += j
      j.changed()
      j.pool.foreach(_.used += 1)
      held += 1
      pauses.changed(j, 1, nowMs)
      counters.holds += 1
      listener.slotHeld(j.key, p.fold("")(_.key), executor, j.deadlineMs, nowMs)
    }
    fits
  }

  def unhold(e: LedgerExecutor, j: LedgerJob, reason: String, nowMs: Long): Unit = {
    yields += 1
    integrate(j, nowMs)
    pauses.changing(j, nowMs)
    val left = e.heldBy(j) - 1
    if (left == 0) e.heldBy -= j else e.heldBy(j) = left
    e.held -= 1
    j.changed()
    j.held -= 1
    if (j.held == 0) holding -= j
    j.pool.foreach(_.used -= 1)
    held -= 1
    pauses.changed(j, -1, nowMs)
    listener.slotFreed(j.key, e.id, reason, nowMs)
  }

  private def integrate(j: LedgerJob, nowMs: Long): Unit = {
    j.heldTime.settle(j.held, nowMs)
    counters.heldIdleSlotMs += held * (nowMs - heldSinceMs)
    heldSinceMs = nowMs
  }

  // ---- many slots --------------------------------------------------------------------------------------------

  /** A task of the job takes slots of the executor that the job holds, as many as it needs and are held. */
  def use(e: LedgerExecutor, j: LedgerJob, slots: Int, nowMs: Long): Unit =
    (0 until math.min(slots, e.heldBy.getOrElse(j, 0))).foreach { _ =>
      unhold(e, j, "used", nowMs)
      counters.holdsUsed += 1
    }

  def releaseAllOn(e: LedgerExecutor, reason: String, nowMs: Long): Unit =
    e.heldBy.keysIterator.toList.foreach(j => while (e.heldBy.contains(j)) unhold(e, j, reason, nowMs))

  def releaseAllOf(j: LedgerJob, reason: String, nowMs: Long): Unit = {
    j.demand.overridden = 0
    if (j.held > 0)
      executors.valuesIterator.foreach(e => while (e.held > 0 && e.heldBy.contains(j)) giveBack(e, j, reason, nowMs))
  }

  /** Offers a slot that a job stopped holding to the jobs that pre-reserve. */
  private def giveBack(e: LedgerExecutor, j: LedgerJob, reason: String, nowMs: Long): Unit = {
    unhold(e, j, reason, nowMs)
    offerToPreReservers(e.id, nowMs)
  }

  /**
   * A task of another job, `by` where it is known, took a held slot: of the holds that it may take the one with the lowest claim
   * is dropped, the latest one among equal claims. The queue of `by` counts the task's `slots` already.
   */
  def dropWhatDoesNotFit(e: LedgerExecutor, nowMs: Long, by: Option[LedgerJob] = None, slots: Int = 0): Unit = while (e.held > math.max(e.free, 0)) {
    var loser: LedgerJob = null
    val open = e.heldBy.keysIterator.filterNot(j => by.exists(LedgerOrder.protects(j, _, -slots)))
    (if (open.hasNext) open else e.heldBy.keysIterator).foreach(j => if (loser == null || !LedgerOrder.outranks(j, loser, less = 1)) loser = j)
    unhold(e, loser, "overridden", nowMs)
    loser.demand.overridden += 1
    loser.changed()
    counters.holdsOverridden += 1
  }

  /** The demand of the next stage became known while a stage runs. */
  def demandLearned(j: LedgerJob, nowMs: Long): Unit = {
    refreshDemand(j, nowMs)
    preReserveIdle(j, nowMs)
  }

  /** @param freed an attempt of the job that ended and whose slots it may keep: what it holds beside them stays */
  def refreshDemand(j: LedgerJob, nowMs: Long, freed: Option[LedgerAttempt] = None): Unit = if (j.stages.nonEmpty) {
    LedgerDemand.refresh(j, nowMs)
    trim(j, nowMs, freed)
  }

  def trim(j: LedgerJob, nowMs: Long, freed: Option[LedgerAttempt] = None): Unit = if (LedgerFit.shaped(j)) {
    if (j.held > 0)
      LedgerFit.surplus(j, executors.values, nowMs, freed).foreach { case (e, over) => for (_ <- 0 until over) giveBack(e, j, "trimmed", nowMs) }
  } else {
    var surplus = j.running + j.held - j.demand.slots
    if (surplus > 0 && j.held > 0) {
      val latestFirst = executors.valuesIterator.filter(e => e.held > 0 && e.heldBy.contains(j)).toList.reverseIterator
      latestFirst.foreach { e =>
        while (surplus > 0 && e.heldBy.contains(j)) { giveBack(e, j, "trimmed", nowMs); surplus -= 1 }
      }
    }
  }

  /** Drops holds of the lowest priority first, among equals those of the job that comes last. */
  def expireBudget(nowMs: Long): Boolean = {
    var any = false
    while (pauses.budgetEndMs(nowMs) <= nowMs) {
      var loser: LedgerJob = null
      jobs.valuesIterator.foreach { j =>
        if (j.pause.isOpen && j.held > 0 && (loser == null || goesFirst(j, loser))) loser = j
      }
      releaseUnaffordable(loser, nowMs)
      any = true
    }
    any
  }

  private def goesFirst(a: LedgerJob, b: LedgerJob): Boolean =
    if (a.rule.priority != b.rule.priority) a.rule.priority < b.rule.priority else b.order.place.isBefore(a.order.place)

  def releaseUnaffordable(j: LedgerJob, nowMs: Long): Unit = {
    j.pause.endMs = nowMs
    counters.holdsOverBudget += j.held
    releaseAllOf(j, "over_budget", nowMs)
    j.deadlineMs = nowMs
  }

  // ---- pre-reservation (Algorithm 1, lines 14-17) --------------------------------------------------------------

  def offerToPreReservers(executor: String, nowMs: Long): Unit = executors.get(executor).foreach { e =>
    var best: LedgerJob = null
    mayHold.valuesIterator.foreach { j =>
      if (nowMs >= j.contentUntilMs && (best == null || LedgerOrder.outranks(j, best)) && wantedOn(j, e, nowMs) > 0) best = j
    }
    if (best != null) takeIdle(best, e, nowMs)
  }

  /** Slots that the job would take of this executor. */
  private def wantedOn(j: LedgerJob, e: LedgerExecutor, nowMs: Long): Int = {
    looks += 1
    if (!j.mayHold || j.deadlineMs <= nowMs || !queueLets(j.key)) 0
    else if (LedgerFit.shaped(j)) LedgerFit.wantedOn(j, e, executors.values, nowMs)
    else if (runsOn(j, e)) {
      val wanted = LedgerDemand.wanted(j, nowMs)
      // Of executors of another profile it wants nothing either.
      if (wanted <= 0) j.contentUntilMs = LedgerDemand.standsUntilMs(j, nowMs)
      wanted
    } else 0
  }

  /** Whether the active stages' slots and those of the executor are of one profile. */
  private def runsOn(j: LedgerJob, e: LedgerExecutor): Boolean =
    j.stages.isEmpty || j.stages.valuesIterator.exists(_.profile == e.profile)

  /** A job that crosses the threshold of pre-reservation holds idle slots at once. */
  def preReserveIdle(j: LedgerJob, nowMs: Long): Unit = if (LedgerFit.shaped(j)) preReserveFitting(j, nowMs) else {
    var want = if (j.stages.isEmpty) 0 else LedgerDemand.wanted(j, nowMs)
    // Nearly all executors are busy: this is asked first, of as many as there are.
    if (want > 0) executors.valuesIterator.foreach { e =>
      while (want > 0 && e.free > e.held && runsOn(j, e) && takeIdle(j, e, nowMs)) want -= 1
    }
  }

  /** Whole tasks first, then parts of them, which others' slots complete as they are released. */
  private def preReserveFitting(j: LedgerJob, nowMs: Long): Unit = if (j.stages.nonEmpty && j.mayHold && j.deadlineMs > nowMs)
    for (whole <- Seq(true, false); e <- executors.valuesIterator) {
      var idle = e.free - e.held
      var want = if (idle > 0) wantedOn(j, e, nowMs) else 0
      while (want > 0 && (want <= idle || !whole) && takeIdle(j, e, nowMs)) {
        want -= 1
        idle -= 1
      }
    }

  private def takeIdle(j: LedgerJob, e: LedgerExecutor, nowMs: Long): Boolean = {
    val p = j.stages.valuesIterator.find(p => !p.isLast && p.pastThreshold).orElse(j.stages.valuesIterator.nextOption())
    val taken = hold(j, p, e.id, nowMs)
    if (taken) {
      // Slots replace overridden ones first; only further ones count towards n - m.
      if (j.demand.overridden > 0) j.demand.overridden -= 1 else p.foreach(_.preReserved += 1)
      counters.preReserved += 1
    }
    taken
  }

  // ---- time --------------------------------------------------------------------------------------------------

  // When the next hold expires or a task is old enough for a copy, as of `askedMs`.
  private var nextMs = Long.MinValue
  private var askedMs = Long.MaxValue
  private var asOf = -1L
  // Whether a copy was due then.
  private var anyDue = true

  /**
   * When the next hold expires or a running task of a job with held slots is old enough for a copy. No answer changes before that
   * unless such a job changes.
   */
  def nextOfHolding(nowMs: Long): Long = {
    if (asOf != changes.count || nowMs >= nextMs || nowMs < askedMs) {
      asOf = changes.count
      askedMs = nowMs
      nextMs = Long.MaxValue
      anyDue = false
      holding.foreach { j =>
        looks += 1
        nextMs = math.min(nextMs, j.deadlineMs)
        j.stages.valuesIterator.foreach { p =>
          if (j.rule.copies && p.restartable && p.paceKnown) p.nextOldEnoughMs(nowMs).foreach(at => nextMs = math.min(nextMs, at))
          p.copyDue = p.stragglers(nowMs).nonEmpty
          anyDue ||= p.copyDue
        }
      }
    }
    nextMs
  }

  /** Whether a copy of a task of the stage is due. */
  def copyDue(p: LedgerStage, nowMs: Long): Boolean = p.job.held > 0 && {
    nextOfHolding(nowMs)
    p.copyDue
  }

  /** Whether a copy of a task of any job with held slots is due. */
  def anyCopiesDue(nowMs: Long): Boolean = {
    nextOfHolding(nowMs)
    anyDue
  }

  // ---- checks ------------------------------------------------------------------------------------------------

  /** Violated invariants, in sentences; empty if there are none. */
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
    if (onExecutors != held) found += s"$held slots held in all but $onExecutors on executors"
    if (holding.toSet != jobs.valuesIterator.filter(_.held > 0).toSet) found += "the index of jobs with held slots is wrong"
    if (mayHold.values.toList != jobs.valuesIterator.filter(_.mayHold).toList) found += "the index of jobs that may hold slots is wrong"
    jobs.valuesIterator.foreach { j =>
      val sum = executors.valuesIterator.map(_.heldBy.getOrElse(j, 0)).sum
      if (sum != j.held) found += s"job ${j.key}: holds ${j.held} but executors say $sum"
      if (j.held > 0 && j.rule.isolation <= 0) found += s"job ${j.key}: holds slots at isolation 0"
      if (j.running < 0) found += s"job ${j.key}: ${j.running} tasks run"
    }
    jobs.valuesIterator.toList.groupBy(_.pool).foreach { case (pool, members) =>
      val used = members.map(j => j.busy + j.held).sum
      pool.filter(_.used != used).foreach(p => found += s"pool ${p.share.name}: ${p.used} slots used but its jobs have $used")
    }
    found ++= pauses.violations(jobs.values, stages.valuesIterator.filter(_.waits).toSet)
    found.toList
  }
}
