package schedcore
package ledger

/**
 * What a pool may claim where pools share the slots fairly, as in Spark's FAIR mode.
 *
 * @param weight number of slots that it gets for each slot of a pool of weight 1
 * @param minShare slots that it gets before others get more
 * @param fair whether its jobs share what it gets fairly, too; otherwise the earlier is first in the pool
 */
final case class PoolShare(name: String, weight: Double = 1.0, minShare: Double = 0.0, fair: Boolean = false) {

  /** The place of the pool in FAIR order while it uses this number of slots. */
  private[schedcore] def standing(used: Int): Standing =
    if (used < minShare) Standing(needy = true, used / math.max(minShare, 1.0)) else Standing(needy = false, used / weight)
}

/** As Spark's FairSchedulingAlgorithm compares: those below their minimum share first, then by use over claim. */
private[schedcore] final case class Standing(needy: Boolean, ratio: Double) {
  def isBefore(other: Standing): Boolean = if (needy != other.needy) needy else ratio < other.ratio
}

/** The slots that the jobs of one pool use: those of their attempts, and those that they hold. */
private[schedcore] final class PoolUse(var share: PoolShare) {
  var jobs = 0
  var used = 0
  def standing(more: Int): Standing = share.standing(used + more)
}

/**
 * Fair sharing as a dynamic priority ("Speculative Slot Reservation", section I): a hold has the standing of its pool, and a
 * held slot counts as one that the pool uses. It does not decide between jobs without a pool, or of one FIFO pool.
 *
 * `spark_sched_lab/enforce/fair_shares.py` has the same.
 */
private[schedcore] object FairShares {

  /** How many of `slots` that `holder` holds FAIR order would give to `asker`, which took `taken` already; None: it does not decide. */
  def ceded(holder: LedgerJob, asker: LedgerJob, slots: Int, taken: Int): Option[Int] = claims(holder, asker).map { case (of, to) =>
    var n = 0
    while (n < slots && to(taken + n).isBefore(of(-n - 1))) n += 1
    n
  }

  /** Whether FAIR order puts `a` before `b`, if each used `less` slots fewer; None: it does not decide. */
  def isBefore(a: LedgerJob, b: LedgerJob, less: Int = 0): Option[Boolean] =
    claims(a, b).map { case (x, y) => x(-less).isBefore(y(-less)) }

  /** What is compared: pools, or the jobs of a fair one. Each is a place in FAIR order by the slots that it would use more. */
  private def claims(a: LedgerJob, b: LedgerJob): Option[(Int => Standing, Int => Standing)] = (for (x <- a.pool; y <- b.pool) yield (x, y)).collect {
    case (x, y) if x ne y => (x.standing(_), y.standing(_))
    case (x, _) if x.share.fair => (alone(a)(_), alone(b)(_))
  }

  private def alone(j: LedgerJob)(more: Int): Standing = Standing(needy = false, (j.busy + j.held + more).toDouble)
}
