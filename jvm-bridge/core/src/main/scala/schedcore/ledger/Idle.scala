package schedcore
package ledger

import scala.collection.mutable

/**
 * What held slots may cost while no stage of their job is active, as shares of all slots; 1 bounds nothing.
 *
 * @param jobShare of one job
 * @param share of all jobs together
 * @param burstMs how far either may run ahead of its share: as much as all slots held for this long
 * @param waitingCost how many times its time a held slot costs while tasks of other jobs wait for slots; at least 1
 */
final case class IdleLimits(jobShare: Double, share: Double, burstMs: Long, waitingCost: Double = 1.0)

object IdleLimits {
  val Unbounded: IdleLimits = IdleLimits(1.0, 1.0, 0L)
}

/** The slots of all executors and the slot time they could have given so far. Used under its owner's lock only. */
final class Capacity {
  private var known = 0
  private var counted = 0
  private var sinceMs = -1L
  private var sumMs = 0L

  /** Counts from the next `advance` on: an executor's arrival comes without a time. */
  def add(more: Int): Unit = known += more

  def advance(nowMs: Long): Unit = {
    if (sinceMs >= 0) sumMs += counted * math.max(0L, nowMs - sinceMs)
    sinceMs = nowMs
    counted = known
  }

  /** As of the last `advance`. */
  def slots: Int = counted
  def slotMs: Long = sumMs
}

/**
 * A token bucket: in any interval the cost is at most `share` of the capacity in it and the burst. A held slot costs its time, or
 * a multiple of it: at a multiple of w the slot time is at most 1/w of that.
 *
 * `spark_sched_lab/enforce/idle.py` is its twin: the same operations on doubles in the same order.
 */
final class IdleBudget(share: Double, burstMs: Long) {
  private var aheadMs = 0.0 // slot time spent ahead of the share
  private var atMs = 0L
  private var capacityMs = 0L
  /** Slot-milliseconds so far, whatever each cost. */
  var costMs = 0L

  /** To be called before the number of held slots or what each of them costs changes; `cost` is what each cost since the last call. */
  def settle(held: Int, cost: Double, nowMs: Long, capacity: Capacity): Unit = {
    val spentMs = held * math.max(0L, nowMs - atMs)
    costMs += spentMs
    aheadMs = math.max(0.0, aheadMs + cost * spentMs - share * (capacity.slotMs - capacityMs))
    atMs = nowMs
    capacityMs = capacity.slotMs
  }

  /** When `held` slots will have used it up at this cost of each; it must be settled. */
  def endMs(held: Int, cost: Double, nowMs: Long, capacity: Capacity): Long = {
    val perMs = cost * held - share * capacity.slots
    if (share >= 1.0 || perMs <= 0.0) Long.MaxValue
    else {
      val leftMs = burstMs.toDouble * capacity.slots - aheadMs
      if (leftMs <= 0.0) nowMs else nowMs + math.floor(leftMs / perMs).toLong
    }
  }
}

/** How long a job's latest pauses between two actions were. */
final class Gaps {
  private val latest = mutable.Queue.empty[Long]

  def add(gapMs: Long): Unit = {
    if (latest.size == Gaps.Kept) latest.dequeue()
    latest.enqueue(gapMs)
  }

  def shortestMs: Option[Long] = latest.minOption

  /** How long to hold so that the next action most likely finds its slots; None before the first pause. */
  def holdMs: Option[Long] = latest.maxOption.map(longest => math.max(Gaps.MinHoldMs, 2 * longest))
}

object Gaps {
  val Kept = 8
  /** Holding a little too long costs little; losing the slots costs the wait for others' tasks. */
  val MinHoldMs = 500L
}
