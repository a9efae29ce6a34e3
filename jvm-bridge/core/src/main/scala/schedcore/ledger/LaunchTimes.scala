package schedcore
package ledger

import java.lang.{Integer => Count, Long => Time}

/** Launch times of attempts. Queried at the end of each task, so a query takes logarithmic time. */
private[schedcore] final class LaunchTimes {
  private val counts = new java.util.TreeMap[Time, Count] // attempts by their launch

  def add(launchMs: Long): Unit = counts.merge(launchMs, 1, (n, one) => n + one)
  def remove(launchMs: Long): Unit = counts.computeIfPresent(launchMs, (_, n) => if (n > 1) n - 1 else null)

  /** Whether any was launched at this time or before. */
  def anyUntil(ms: Long): Boolean = counts.floorKey(ms) != null

  /** The first launch after this time. */
  def firstAfter(ms: Long): Option[Long] = Option(counts.higherKey(ms)).map(_.longValue)
}
