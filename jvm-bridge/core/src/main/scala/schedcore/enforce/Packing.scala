package schedcore
package enforce

import scala.collection.mutable

import schedcore.plan.EndForecast

/**
 * Placement that fills few executors, so that dynamic allocation can release the others.
 *
 * Spark gives each offered executor one task in turn, which spreads a stage over all of them whatever the order of the
 * offers is. Offered one by one, an executor is full before the next one gets a task. Each task set still gets its turn
 * at every executor, in the scheduler's order.
 *
 * A headroom is kept for bursts, once for all executors in use and not on each of them: an executor that runs nothing
 * gets a task only when all others are full but for the headroom of one. With n executors of s slots in use and a headroom
 * of h slots, up to n · s - h tasks run before the next executor is used.
 */
object Packing {

  /** Of an executor's slots, how many the last executor in use leaves free. */
  def headroom(slots: Int, share: Double): Int = (slots * share + 1e-9).toInt

  /** The confidence of admission, too (planner/admission.py). */
  private val Confidence = 0.95

  /** Whether a job with a deadline that is forecast so needs no further executors. */
  def isSafe(forecast: Option[EndForecast]): Boolean = forecast.flatMap(_.deadlineProbability).exists(_ >= Confidence)

  /**
   * Executors with held slots first, so that their owner takes those before others; then by running tasks, the most first;
   * among equals the one that was added first, as Spark counts their ids up: the same ones stay empty.
   */
  def order[O](offers: IndexedSeq[O])(id: O => String, holds: String => Boolean, running: String => Int): IndexedSeq[O] =
    offers.sortBy { offer =>
      val executor = id(offer)
      (!holds(executor), -running(executor), executor.length, executor)
    }

  /**
   * Offers executors one by one while tasks wait, and what is left in one offer.
   *
   * The last executor in use, and each one after it, is offered without its headroom first. It is offered whole when the
   * next one is in use, too, or when there is no next one.
   *
   * @param inUse whether something runs on an executor or is about to; `inOrder` has these first
   * @param below the executor without its headroom; None where nothing else is free
   * @param left executors without what was placed on them
   * @param hasFree whether an executor has a free slot
   * @param tasksWait asked before each offer
   * @param offer one round of Spark's; its result is returned whatever follows
   */
  def oneByOne[O, R](
      inOrder: IndexedSeq[O], inUse: O => Boolean, below: O => Option[O], left: Seq[R] => IndexedSeq[O], hasFree: O => Boolean,
      tasksWait: () => Boolean)(offer: IndexedSeq[O] => Seq[R]): Seq[R] = {
    val full = inOrder.indices.filterNot(n => hasFree(inOrder(n))).toSet
    val last = inOrder.lastIndexWhere(inUse)
    val wholes = mutable.BitSet.empty
    var placed = Seq.empty[R]
    def now: IndexedSeq[O] = if (placed.isEmpty) inOrder else left(placed)
    def whole(n: Int): Unit = now.lift(n).filter(hasFree).foreach { executor =>
      wholes += n
      placed = placed ++ offer(IndexedSeq(executor))
    }
    var next = 0
    while (next < inOrder.size && tasksWait()) {
      if (next < last) whole(next)
      else {
        below(inOrder(next)).foreach(executor => placed = placed ++ offer(IndexedSeq(executor)))
        if (next > 0 && next > last && tasksWait()) whole(next - 1)
      }
      next += 1
    }
    if (next == inOrder.size && tasksWait()) whole(next - 1)
    // Spark learns of new executors from offers, so that full ones are among the rest, but not those filled here.
    val rest = now.zipWithIndex.collect { case (executor, n) if full(n) || (!wholes(n) && hasFree(executor)) => executor }
    if (rest.isEmpty) placed else placed ++ offer(rest)
  }
}

/**
 * Whether tasks have recently had to wait, so that packing would slow jobs down.
 *
 * Packing lets executors leave, and the next burst then waits for others to start. When tasks have waited as long as
 * dynamic allocation waits before it asks for executors, tasks are spread: all executors, those that it asked for among
 * them, stay in use until no task has waited that long for as long as an executor may be idle.
 *
 * @param backlogMs `spark.dynamicAllocation.schedulerBacklogTimeout`
 * @param calmMs `spark.dynamicAllocation.executorIdleTimeout`
 */
final class Backlog(backlogMs: Long, calmMs: Long) {
  private var sinceMs = Option.empty[Long] // since when tasks have waited in every round
  private var lastMs = Option.empty[Long] // when they had last waited for too long

  /** To be called after each round of offers. @param waits whether a task waits and no slot is idle */
  def observe(waits: Boolean, nowMs: Long): Unit = {
    sinceMs = if (waits) sinceMs.orElse(Some(nowMs)) else None
    if (sinceMs.exists(nowMs - _ >= backlogMs)) lastMs = Some(nowMs)
  }

  /** Rounds without packing are not observed: what was seen before them says nothing about the time after them. */
  def forget(): Unit = {
    sinceMs = None
    lastMs = None
  }

  def isRecent(nowMs: Long): Boolean = lastMs.exists(nowMs - _ < calmMs)
}
