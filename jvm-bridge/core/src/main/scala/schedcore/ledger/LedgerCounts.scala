package schedcore
package ledger

/** What a ledger did so far, by the names that people are shown; times in slot-milliseconds. */
object LedgerCounts {
  def of(ledger: Ledger, nowMs: Long): Map[String, Long] = {
    val c = ledger.counters
    Map(
      "slots_held_now" -> ledger.heldSlots.toLong,
      "holds_total" -> c.holds,
      "holds_used" -> c.holdsUsed,
      "holds_expired" -> c.holdsExpired,
      "holds_overridden" -> c.holdsOverridden,
      "holds_given_way" -> c.holdsGivenWay,
      "holds_over_budget" -> c.holdsOverBudget,
      "prereserved_total" -> c.preReserved,
      "held_between_slot_ms" -> ledger.idleCostMs(nowMs),
      "held_against_waiting_slot_ms" -> ledger.idleCostAgainstWaitingMs(nowMs),
      "held_idle_slot_ms" -> ledger.heldIdleMs(nowMs),
      "predicted_idle_slot_ms" -> c.predictedIdleSlotMs,
      "copies_launched" -> c.copiesLaunched,
      "copies_won" -> c.copiesWon,
      "copies_wasted_ms" -> c.copiesWastedMs)
  }

  /**
   * A counter's name as people are shown it. What is expected is an upper bound: equation 4 assumes that each slot is held until
   * its deadline, which is `spark.sched.reservation.maxHold` at P = 1.
   */
  def label(counter: String): String = if (counter.endsWith("predicted_idle_slot_ms")) s"$counter (at most)" else counter
}
