package schedcore
package events

import scala.collection.mutable

import schedcore.ledger.LedgerListener

/**
 * Tells the planner of slots that are held for longer than it takes to offer them again.
 *
 * While a job has tasks waiting, each slot that it frees is held for the moment until its own next task takes it.
 * Two events for each of these moments would be half of all events, and have no reader. So a hold is reported after
 * the next offers only, and not at all if it is over by then. Used under the scheduler's lock only.
 */
final class SlotNews(events: EventQueue) extends LedgerListener {
  private val unreported = mutable.ArrayBuffer.empty[Event.SlotHeld]

  override def slotHeld(job: String, stage: String, executor: String, deadlineMs: Long, nowMs: Long): Unit =
    unreported += Event.SlotHeld(nowMs, job, stage, executor, deadlineMs)

  /** Number of slots so far that stopped being held without a task taking them: any job may use them. */
  def freed: Long = released
  private var released = 0L

  override def slotFreed(job: String, executor: String, reason: String, nowMs: Long): Unit = {
    if (reason != "used" && reason != "overridden") released += 1
    val last = unreported.lastIndexWhere(held => held.job == job && held.executor == executor)
    if (last >= 0) unreported.remove(last) else events.offer(Event.SlotFreed(nowMs, job, executor, reason))
  }

  /** Reports the slots that are still held. */
  def tell(): Unit = if (unreported.nonEmpty) {
    unreported.foreach(events.offer)
    unreported.clear()
  }

  /** Drops unreported holds: the whole state contains them. */
  def forget(): Unit = unreported.clear()
}
