package schedcore
package ledger

import org.scalatest.funsuite.AnyFunSuite

/** What shadow mode says at the application's end. */
final class ShadowBookSuite extends AnyFunSuite {
  test("the report has what would have been done, and says who simulates the rest") {
    val counters = Map("holds_total" -> 9L, "would_have_holds_total" -> 3L, "would_have_copies_launched" -> 1L)
    assert(ShadowBook.report(counters).contains(
      "would have copies_launched 1, holds_total 3; spark-sched whatif simulates the jobs' completion times from the event log"))
    assert(ShadowBook.report(Map("holds_total" -> 9L)).isEmpty)
    assert(ShadowBook.report(Map("would_have_predicted_idle_slot_ms" -> 7L)).exists(_.contains("predicted_idle_slot_ms (at most) 7;")))
  }
}
