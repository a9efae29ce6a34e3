package schedcore

import scala.collection.mutable

/**
 * Tells the planner of slots that are held for longer than it takes to offer them again.
 *
 * While a job has tasks waiting, each slot that it frees is held for the moment until its own next task takes it.
 * Two events for each of these moments would be half of all events, and nobody wants to know. So a hold is told after
 * the next offers only, and not at all if it is over by then. Used under the scheduler's lock only.
 */
final class SlotNews(events: EventQueue) extends LedgerListener {
  private val untold = mutable.ArrayBuffer.empty[Event.SlotHeld]

  override def slotHeld(job: String, stage: String, executor: String, deadlineMs: Long, nowMs: Long): Unit =
    untold += Event.SlotHeld(nowMs, job, stage, executor, deadlineMs)

  override def slotFreed(job: String, executor: String, reason: String, nowMs: Long): Unit = {
    val last = untold.lastIndexWhere(held => held.job == job && held.executor == executor)
    if (last >= 0) untold.remove(last) else events.offer(Event.SlotFreed(nowMs, job, executor, reason))
  }

  /** Passes on what is still held. */
  def tell(): Unit = if (untold.nonEmpty) {
    untold.foreach(events.offer)
    untold.clear()
  }

  /** What is held now is told otherwise: as part of the whole state. */
  def forget(): Unit = untold.clear()
}
