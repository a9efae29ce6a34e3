package org.apache.spark.scheduler.sparksched

import org.apache.spark.scheduler.sparksched.jobs.Registry
import schedcore.events.EventQueue
import schedcore.ledger.{Ledger, LedgerCounts, ShadowBook}
import schedcore.settings.Modes

/** What the scheduler counts of itself. Used under its lock only. */
private[sparksched] final class SchedTally(registry: Registry, ledger: Ledger, events: EventQueue, mode: String) {
  /** Apart, what is on paper only. */
  val shadow = new ShadowBook(ledger, mode == Modes.Shadow)
  var offersRefused = 0L
  var executorsKept = 0L // times that one was to go which had nothing but held slots
  var copiesFailed = 0L // none of these counts as a failure of its task
  var violations = 0L

  /** On paper or not. */
  def sums(nowMs: Long): Map[String, Long] =
    LedgerCounts.of(ledger, nowMs) ++ Map("executors_kept" -> executorsKept, "offers_refused" -> offersRefused)

  def counters(nowMs: Long): Map[String, Long] = shadow.apart(sums(nowMs)) ++ Map(
    "copies_failed" -> copiesFailed,
    "invariant_violations" -> violations,
    "marks_ignored" -> registry.warnings.ignored,
    "marks_limited" -> registry.warnings.limited,
    "events_sent" -> events.sentCount,
    "events_dropped" -> events.droppedCount,
    "jobs_unstored" -> events.unstored,
    "jobs_unlearned" -> events.unlearned)
}
