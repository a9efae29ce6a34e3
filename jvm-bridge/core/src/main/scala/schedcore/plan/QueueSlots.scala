package schedcore
package plan

/**
 * Slots that jobs use, by queue of the plan in force. Each offer of a slot asks for the queues' turns, so that these are running sums.
 *
 * Used under its owner's lock only.
 */
final class QueueSlots(plans: PlanInForce) {
  private var sums = Array.emptyIntArray
  private var asOf = -1L // changes of the plan

  /** The job uses so many slots more, or fewer. */
  def changed(job: String, more: Int): Unit = if (asOf == plans.changes && sums.nonEmpty) plans.queue(job).foreach(q => sums(q) += more)

  /** Which queue is next; empty where the plan in force has no queues. @param running slots in use by job, looked at under a new plan */
  def turns(running: => Iterator[(String, Int)]): IndexedSeq[QueueTurn] = {
    if (asOf != plans.changes) {
      sums = new Array[Int](plans.queues)
      if (sums.nonEmpty) running.foreach { case (job, slots) => plans.queue(job).foreach(q => sums(q) += slots) }
      asOf = plans.changes
    }
    if (sums.isEmpty) IndexedSeq.empty else plans.turnsAt(sums(_))
  }
}
