package schedcore
package ledger

import scala.collection.mutable

/**
 * Separates actions that shadow mode only recorded from those that were enforced.
 *
 * The ledger runs in both modes, so the growth of its sums in shadow mode is what would have happened.
 * Used under the scheduler's lock only.
 */
final class ShadowCounters(ledger: Ledger, startsInShadow: Boolean) {
  import ShadowCounters._

  private var inShadow = startsInShadow
  private var ever = startsInShadow
  private val before = mutable.HashMap.empty[String, Long] // sums when it last began
  private val past = mutable.HashMap.empty[String, Long] // what earlier times in shadow mode added
  private var copies = 0L
  private val due = mutable.HashSet.empty[(String, Int)] // tasks of active stages that had a copy by now

  /** From now on the growth of the sums counts as enforced, or as recorded only. */
  def switchTo(shadow: Boolean, sums: Map[String, Long]): Unit = if (shadow != inShadow) {
    if (shadow) Sums.foreach(key => before(key) = sums.getOrElse(key, 0L))
    else {
      Sums.foreach(key => past(key) = wouldHave(key, sums))
      before.clear()
      due.clear()
    }
    inShadow = shadow
    ever ||= shadow
  }

  /** Counts the copies that would be launched now. */
  def look(nowMs: Long): Unit = if (inShadow) ledger.copiesDue(nowMs).foreach(task => if (due.add(task)) copies += 1)

  def stageEnded(stage: String): Unit = if (due.nonEmpty) due.filterInPlace((task) => task._1 != stage)

  /** The sums of what was enforced, and with the prefix [[ShadowCounters.Prefix]] of what would have been. */
  def separated(sums: Map[String, Long]): Map[String, Long] =
    if (!ever) sums
    else {
      val shadow = Sums.map(key => key -> wouldHave(key, sums)).toMap
      val now = if (inShadow) sums.getOrElse(HeldNow, 0L) else 0L
      sums.map { case (key, sum) => key -> (sum - (if (key == HeldNow) now else shadow.getOrElse(key, 0L))) } ++
        shadow.map { case (key, sum) => (Prefix + key) -> sum } ++
        Map((Prefix + HeldNow) -> now, (Prefix + "copies_launched") -> copies)
    }

  private def wouldHave(key: String, sums: Map[String, Long]): Long =
    past.getOrElse(key, 0L) + (if (inShadow) sums.getOrElse(key, 0L) - before.getOrElse(key, 0L) else 0L)
}

/** A sum that grows in both modes, with its growth in shadow mode apart. */
final class ShadowSum(startsInShadow: Boolean) {
  private var since = Option.when(startsInShadow)(0L) // what the sum was when shadow mode last began
  private var past = 0L // what earlier times in shadow mode added

  /** From now on the growth of the sum counts as enforced, or as recorded only. */
  def switchTo(shadow: Boolean, sum: Long): Unit = if (shadow != since.isDefined) {
    past = wouldHave(sum)
    since = Option.when(shadow)(sum)
  }

  def wouldHave(sum: Long): Long = past + since.fold(0L)(sum - _)
}

object ShadowCounters {
  val Prefix = "would_have_"

  /** What would have been done, in one line for people, and who knows more; None: there was no shadow mode. */
  def report(counters: Map[String, Long]): Option[String] = {
    val parts = counters.toList.sorted.collect { case (key, n) if key.startsWith(Prefix) => s"${LedgerCounts.label(key.stripPrefix(Prefix))} $n" }
    Option.when(parts.nonEmpty)(parts.mkString("would have ", ", ", s"; $More"))
  }

  private val More = "spark-sched whatif simulates the jobs' completion times from the event log"
  private val HeldNow = "slots_held_now"
  private val Sums = Seq(
    "holds_total", "holds_used", "holds_expired", "holds_overridden", "holds_given_way", "holds_over_budget", "prereserved_total",
    "held_between_slot_ms", "held_against_waiting_slot_ms", "held_idle_slot_ms", "predicted_idle_slot_ms", "executors_kept", "offers_refused")
}
