package schedcore
package ledger

/** The time of one job without an active stage, while more may follow. */
private[schedcore] final class JobPause(limits: IdleLimits) {
  var sinceMs = -1L // negative while a stage is active
  var endMs = 0L
  var afterAction = false // no stage of the DAG follows: the driver's program decides what is next
  var afterFailure = false // the action failed, and whether the program goes on is not known
  val gaps = new Gaps
  val budget = new IdleBudget(limits.jobShare, limits.burstMs)

  def isOpen: Boolean = sinceMs >= 0
}

/**
 * How long a job's slots stay held between its actions: for its usual pause and within the budgets of the job and of
 * all jobs together, see `docs/adr/0016-idle-holds.md`. `spark_sched_lab/enforce/ledger_pauses.py` has the same.
 */
private[schedcore] final class LedgerPauses(limits: IdleLimits) {
  val capacity = new Capacity
  private val budget = new IdleBudget(limits.share, limits.burstMs)
  private var heldNow = 0

  /** Slots held by jobs without an active stage. */
  def held: Int = heldNow

  /** The last active stage of the job ended while more may follow. */
  def begin(j: LedgerJob, after: LedgerStage, nowMs: Long): Unit = {
    settle(j, nowMs)
    j.pause.sinceMs = nowMs
    j.pause.afterAction = !after.following.isKnown
    j.pause.afterFailure = false
    heldNow += j.held
    plan(j, nowMs)
  }

  def end(j: LedgerJob, nowMs: Long): Unit = if (j.pause.isOpen) {
    settle(j, nowMs)
    if (j.pause.afterAction) j.pause.gaps.add(math.max(0L, nowMs - j.pause.sinceMs))
    heldNow -= j.held
    j.pause.sinceMs = -1L
  }

  /** No further stage of the DAG starts: slots that are freed later are not kept either. */
  def cut(j: LedgerJob, nowMs: Long): Unit = {
    j.pause.afterFailure = true
    plan(j, nowMs)
  }

  /** Sets again how long the pausing job's slots stay held. */
  def plan(j: LedgerJob, nowMs: Long): Unit = {
    settle(j, nowMs)
    // Without a rule for pauses, slots that are freed later are kept as long as the stage's own.
    val plain = j.rule.firstGapMs.isEmpty && j.held == 0
    j.pause.endMs =
      if (j.pause.afterFailure) j.pause.sinceMs else if (plain) j.deadlineMs else j.pause.sinceMs + holdMs(j, nowMs)
    refresh(j, nowMs)
  }

  private def holdMs(j: LedgerJob, nowMs: Long): Long = j.rule.firstGapMs match {
    case Some(first) if j.pause.afterAction =>
      val usualMs = math.min(j.rule.gapMs, j.pause.gaps.holdMs.getOrElse(first))
      val endMs = math.min(j.pause.budget.endMs(j.held, nowMs, capacity), budget.endMs(heldNow, nowMs, capacity))
      // A hold that would end before even the shortest recent pause is useless.
      if (j.pause.gaps.shortestMs.exists(_ > math.min(usualMs, endMs - j.pause.sinceMs))) 0L else usualMs
    case _ => j.rule.gapMs
  }

  /** To be called before the number of slots that the job holds changes. */
  def changing(j: LedgerJob, nowMs: Long): Unit = if (j.pause.isOpen) settle(j, nowMs)

  /** The number of slots that the job holds changed by this number. */
  def changed(j: LedgerJob, by: Int, nowMs: Long): Unit = if (j.pause.isOpen) {
    heldNow += by
    refresh(j, nowMs)
  }

  /** An executor with this number of slots is gone. */
  def capacityLost(slots: Int, jobs: Iterable[LedgerJob], nowMs: Long): Unit = {
    capacity.advance(nowMs)
    capacity.add(-slots)
    capacity.advance(nowMs)
    jobs.iterator.filter(_.pause.isOpen).foreach { j => settle(j, nowMs); refresh(j, nowMs) }
  }

  /** The budget's end moves with the number of slots: they share what is left. */
  private def refresh(j: LedgerJob, nowMs: Long): Unit =
    j.deadlineMs = math.min(j.pause.endMs, j.pause.budget.endMs(j.held, nowMs, capacity))

  private def settle(j: LedgerJob, nowMs: Long): Unit = {
    settleAll(nowMs)
    j.pause.budget.settle(if (j.pause.isOpen) j.held else 0, nowMs, capacity)
  }

  private def settleAll(nowMs: Long): Unit = {
    capacity.advance(nowMs)
    budget.settle(heldNow, nowMs, capacity)
  }

  /** When the budget of all jobs together will be used up. */
  def budgetEndMs(nowMs: Long): Long =
    if (heldNow == 0) Long.MaxValue
    else {
      settleAll(nowMs)
      budget.endMs(heldNow, nowMs, capacity)
    }

  /** Slot time that the job held between its actions so far. */
  def costMs(j: LedgerJob, nowMs: Long): Long = {
    settle(j, nowMs)
    j.pause.budget.costMs
  }

  /** The same of all jobs so far. */
  def costMs(nowMs: Long): Long = {
    settleAll(nowMs)
    budget.costMs
  }
}
