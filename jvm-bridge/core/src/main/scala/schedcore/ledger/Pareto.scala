package schedcore
package ledger

/** The Pareto task-duration model of "Speculative Slot Reservation", section IV-B. */
object Pareto {

  /** The shape must exceed 1 for the mean to exist; above 100 the tail is a step already. */
  val MinShape = 1.01
  val MaxShape = 100.0

  /**
   * Reservation deadline D = t_m (1 - P^(1/N))^(-1/alpha), in the unit of `scale` (t_m).
   *
   * P = 0 gives t_m and P = 1 gives positive infinity, the formula's limits.
   */
  def deadline(isolation: Double, scale: Double, shape: Double, tasks: Int): Double =
    if (isolation <= 0.0) scale
    else if (isolation >= 1.0) Double.PositiveInfinity
    // 1 - P^(1/N) by expm1, since P^(1/N) is within rounding of 1 for large N.
    else scale * math.pow(-math.expm1(math.log(isolation) / tasks), -1.0 / shape)

  /** Equation 3: the lower bound of the utilization of slots that are held for `t_m / scaleShare`. */
  def utilization(scaleShare: Double, shape: Double): Double =
    (shape * scaleShare - math.pow(scaleShare, shape)) / (shape - 1.0)

  /**
   * Maximum-likelihood shape of right-censored Pareto durations under a Gamma prior.
   *
   * @param finished number of finished tasks
   * @param sumLogRatios sum of ln(t_i / t_m) over finished tasks plus ln(max(age, t_m) / t_m) over running ones
   * @param priorShape shape expected before any task finished
   * @param priorWeight how many finished tasks that expectation is worth
   */
  def shape(finished: Int, sumLogRatios: Double, priorShape: Double, priorWeight: Double): Double = {
    val denominator = sumLogRatios + priorWeight / priorShape
    if (denominator <= 0.0) MaxShape
    else math.min(MaxShape, math.max(MinShape, (finished + priorWeight) / denominator))
  }
}
