package schedcore
package ledger

/**
 * How long a task runs before it may get a copy.
 *
 * @param minTaskMs tasks younger than this get none yet
 * @param minSlowdown nor does a task that has run less than this many times its stage's typical (geometric mean) task
 */
final case class CopyAge(minTaskMs: Long, minSlowdown: Double)

/**
 * What holds for one job's reservations: the configuration's defaults, overlaid by the job's own marks and then by
 * the newest valid plan. Immutable; a new plan replaces the rule as a whole.
 *
 * @param priority higher wins; a reservation refuses tasks of lower priority, and of equal priority those of jobs that come later
 * @param isolation P, the probability that a stage ends before its reservations expire; 0 holds nothing
 * @param preReserveThreshold R, the finished fraction past which slots released by other jobs are taken
 * @param shape alpha expected before tasks of the stage finished
 * @param shapeWeight pseudo-observations behind `shape`
 * @param scaleMs t_m known from earlier runs, used until the stage's first task ends
 * @param maxHoldMs hard cap on the time from a stage's last launch to the end of its reservations
 * @param gapMs how long slots stay held at most after a stage ended while no next one has started
 * @param firstGapMs how long they stay held after an action before the job's own pauses tell; None: for gapMs, always
 * @param copies whether held idle slots may run copies of the stage's last running tasks
 * @param copyAge how old these tasks must be
 * @param wholeJob hold for the widest stage still expected of a marked job rather than for the next stage only
 * @param deadline how the deadline follows from `isolation`: one of [[Rule.Deadlines]]
 * @param stageTasks tasks of each stage of the job in earlier runs, by index; empty when unknown
 * @param pool whose share the job's slots count against where pools share the slots fairly; None: its priority is all
 */
final case class Rule(
    priority: Int,
    isolation: Double,
    preReserveThreshold: Double,
    shape: Double,
    shapeWeight: Double,
    scaleMs: Option[Double],
    maxHoldMs: Long,
    gapMs: Long,
    copies: Boolean,
    copyAge: CopyAge,
    wholeJob: Boolean,
    stageTasks: IndexedSeq[Int] = IndexedSeq.empty,
    firstGapMs: Option[Long] = None,
    pool: Option[PoolShare] = None,
    deadline: String = Rule.Calibrated) {

  /** Whether its deadlines are calibrated: at 0 nothing is held, at 1 until `maxHoldMs`. */
  def calibrates: Boolean = observes && isolation < 1.0

  /** Whether the job's stages tell what calibrated deadlines are made of. */
  def observes: Boolean = deadline == Rule.Calibrated && isolation > 0.0
}

object Rule {
  val Calibrated = "calibrated" // on earlier stages
  val ParetoForm = "pareto" // the paper's
  val Fixed = "fixed" // at maxHoldMs, whatever the isolation level is
  val Deadlines: Seq[String] = Seq(Calibrated, ParetoForm, Fixed)
}
