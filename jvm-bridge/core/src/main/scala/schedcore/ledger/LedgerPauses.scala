package schedcore
package ledger

import scala.collection.mutable

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
 * all jobs together, see `docs/adr/0016-idle-holds.md`. While tasks of other jobs wait for slots each held slot costs more
 * (`docs/adr/0057-holds-cost-more-while-others-wait.md`). `spark_sched_lab/enforce/ledger_pauses.py` has the same.
 */
private[schedcore] final class LedgerPauses(limits: IdleLimits) {
  val capacity = new Capacity
  private val budget = new IdleBudget(limits.share, limits.burstMs)
  private var heldNow = 0
  private val holding = mutable.HashSet.empty[LedgerJob] // jobs without an active stage that hold slots
  // Active stages some of whose tasks wait for a slot. A job that pauses has none: they are of other jobs than those that hold.
  private val waiting = mutable.HashSet.empty[LedgerStage]
  private var againstWaitingMs = 0L // until `countedMs`
  private var countedMs = 0L
  /** How often a job was looked at because what its held slots cost changed. */
  var looks = 0L

  /** Slots held by jobs without an active stage. */
  def held: Int = heldNow

  /** What a slot held by a job without an active stage costs now, as a multiple of its time. */
  private def cost: Double = if (waiting.isEmpty) 1.0 else limits.waitingCost

  /**
   * Whether some of the stage's tasks wait for a slot.
   *
   * Only the first stage that waits and the last one that did change what slots cost, and only then the jobs that hold any are
   * looked at.
   */
  def setWaiting(p: LedgerStage, waits: Boolean, nowMs: Long): Unit = if (waiting(p) != waits) {
    val turns = if (waits) waiting.isEmpty else waiting.size == 1
    if (turns) countAgainstWaiting(nowMs)
    val changesCost = turns && limits.waitingCost != 1.0
    if (changesCost) {
      looks += holding.size
      settleAll(nowMs)
      holding.foreach(settle(_, nowMs))
    }
    if (waits) waiting += p else waiting -= p
    if (changesCost) holding.foreach(refresh(_, nowMs))
  }

  /** The last active stage of the job ended while more may follow. */
  def begin(j: LedgerJob, after: LedgerStage, nowMs: Long): Unit = {
    settle(j, nowMs)
    j.pause.sinceMs = nowMs
    j.pause.afterAction = !after.following.isKnown
    j.pause.afterFailure = false
    heldNow += j.held
    if (j.held > 0) holding += j
    plan(j, nowMs)
  }

  def end(j: LedgerJob, nowMs: Long): Unit = if (j.pause.isOpen) {
    settle(j, nowMs)
    if (j.pause.afterAction) j.pause.gaps.add(math.max(0L, nowMs - j.pause.sinceMs))
    heldNow -= j.held
    holding -= j
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
      val endMs = math.min(j.pause.budget.endMs(j.held, cost, nowMs, capacity), budget.endMs(heldNow, cost, nowMs, capacity))
      // A hold that would end before even the shortest recent pause is useless.
      if (j.pause.gaps.shortestMs.exists(_ > math.min(usualMs, endMs - j.pause.sinceMs))) 0L else usualMs
    case _ => j.rule.gapMs
  }

  /** To be called before the number of slots that the job holds changes. */
  def changing(j: LedgerJob, nowMs: Long): Unit = if (j.pause.isOpen) settle(j, nowMs)

  /** The number of slots that the job holds changed by this number. */
  def changed(j: LedgerJob, by: Int, nowMs: Long): Unit = if (j.pause.isOpen) {
    heldNow += by
    if (j.held > 0) holding += j else holding -= j
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
    j.deadlineMs = math.min(j.pause.endMs, j.pause.budget.endMs(j.held, cost, nowMs, capacity))

  private def settle(j: LedgerJob, nowMs: Long): Unit = {
    settleAll(nowMs)
    j.pause.budget.settle(if (j.pause.isOpen) j.held else 0, cost, nowMs, capacity)
  }

  private def settleAll(nowMs: Long): Unit = {
    countAgainstWaiting(nowMs)
    capacity.advance(nowMs)
    budget.settle(heldNow, cost, nowMs, capacity)
  }

  private def countAgainstWaiting(nowMs: Long): Unit = {
    if (waiting.nonEmpty) againstWaitingMs += heldNow * math.max(0L, nowMs - countedMs)
    countedMs = nowMs
  }

  /** When the budget of all jobs together will be used up. */
  def budgetEndMs(nowMs: Long): Long =
    if (heldNow == 0) Long.MaxValue
    else {
      settleAll(nowMs)
      budget.endMs(heldNow, cost, nowMs, capacity)
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

  /** The part of it that was held while tasks of other jobs waited for slots. */
  def costAgainstWaitingMs(nowMs: Long): Long = {
    countAgainstWaiting(nowMs)
    againstWaitingMs
  }

  /** Violated invariants, in sentences. */
  def violations(jobs: Iterable[LedgerJob], waits: Set[LedgerStage]): Seq[String] = {
    val between = jobs.iterator.filter(j => j.pause.isOpen && j.held > 0).toSet
    val sum = between.iterator.map(_.held).sum
    Seq(
      Option.when(sum != held)(s"$held slots held between actions but jobs say $sum"),
      Option.when(between != holding.toSet)("the index of jobs that hold slots between actions is wrong"),
      Option.when(waits != waiting)("the index of stages with waiting tasks is wrong")).flatten
  }
}
