package schedcore
package plan

/**
 * A queue's place among those that stand for a slot: the least one is next.
 *
 * @param load slots in use over its weight
 * @param dueMs since when it has been due
 */
final case class QueueTurn(load: Double, dueMs: Long, queue: Int)

object QueueTurn {
  /** Jobs of no queue go before all others. */
  val NoQueue: QueueTurn = QueueTurn(-1.0, 0, -1)

  implicit val ordering: Ordering[QueueTurn] = Ordering.by(t => (t.load, t.dueMs, t.queue))
}

/**
 * Which of the plan's queues a slot goes to; `spark_sched_lab.enforce.queues` decides the same in the simulator.
 *
 * The least loaded queue is next. Queues that run nothing are equally loaded, so where more queues have work than there
 * are slots, loads alone would give every slot to the first one. Of equally loaded queues the one that was due first is
 * next. When a task of a queue ends after r ms, the queue is due r (1/s - 1) ms later, with s its weight over the
 * greatest weight, `LeastShare` at least: it runs for about the share s of the time. Once a waiting queue is due, every
 * other queue starts at most one task before it: the waiting one keeps its due time, and one whose task ends is due later.
 */
final class QueueTurns {
  private var weights = IndexedSeq.empty[Double]
  private var dueMs = Array.empty[Long]

  /** A plan with these queues, or with none, is in force. */
  def put(next: IndexedSeq[Double]): Unit = {
    if (next.size != weights.size) dueMs = new Array[Long](next.size)
    weights = next
  }

  /** A task of a job of this queue ran for `ranMs` until now. */
  def stopped(queue: Int, ranMs: Long, nowMs: Long): Unit = {
    val share = math.max(QueueTurns.LeastShare, weights(queue) / weights.max)
    dueMs(queue) = nowMs + (ranMs * (1.0 / share - 1.0)).toLong
  }

  /** The queues' turns at these numbers of slots in use. */
  def turns(running: Int => Int): IndexedSeq[QueueTurn] =
    weights.indices.map(q => QueueTurn(running(q) / weights(q), dueMs(q), q))
}

object QueueTurns {
  /** A queue gets this share of the time at least, however small its weight. */
  val LeastShare = 0.01
}
