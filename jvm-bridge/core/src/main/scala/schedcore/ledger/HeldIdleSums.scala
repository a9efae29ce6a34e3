package schedcore
package ledger

import scala.collection.mutable

/**
 * What somebody's held slots cost.
 *
 * @param heldMs slot time that was held idle
 * @param predictedMs what equation 4 expected of it at most, for stages that ended
 */
final case class HeldIdle(user: String, name: String, jobs: Long, heldMs: Long, predictedMs: Long) {
  def +(other: HeldIdle): HeldIdle =
    copy(jobs = jobs + other.jobs, heldMs = heldMs + other.heldMs, predictedMs = predictedMs + other.predictedMs)
}

/**
 * Sums over jobs that ended, by user and job name. They never lose anything: beyond `most` rows the one that nothing was
 * added to for longest goes into a row of everybody else, which names nobody. Used under its owner's lock only.
 */
final class HeldIdleSums(most: Int = 1000) {
  private val rows = mutable.LinkedHashMap.empty[(String, String), HeldIdle]
  private var others = HeldIdle("", "", 0L, 0L, 0L)

  def add(one: HeldIdle): Unit = {
    val key = (one.user, one.name)
    rows(key) = rows.remove(key).fold(one)(_ + one)
    if (rows.size > most) others += rows.remove(rows.head._1).get
  }

  /** The sums with those of jobs that go on. */
  def beside(live: Iterator[HeldIdle]): Seq[HeldIdle] = {
    val found = rows.clone()
    live.foreach { one => found((one.user, one.name)) = found.get((one.user, one.name)).fold(one)(_ + one) }
    found.valuesIterator.toList ++ Option.when(others.jobs > 0)(others)
  }
}
