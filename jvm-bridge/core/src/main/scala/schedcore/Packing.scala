package schedcore

/**
 * Placement that fills few executors, so that dynamic allocation can release the others.
 *
 * Spark gives each offered executor one task in turn, which spreads a stage over all of them whatever the order of the
 * offers is. Offered one by one, an executor is full before the next one gets a task. Each task set still gets its turn
 * at every executor, in the scheduler's order.
 */
object Packing {

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
   * @param hasFree whether an executor has a free slot
   * @param tasksWait asked before each offer
   * @param offer one round of Spark's; its result is returned whatever follows
   */
  def oneByOne[O, R](inOrder: IndexedSeq[O], hasFree: O => Boolean, tasksWait: () => Boolean)(
      offer: IndexedSeq[O] => Seq[R]): Seq[R] = {
    val (free, full) = inOrder.partition(hasFree)
    var placed = Seq.empty[R]
    var next = 0
    while (next < free.size && tasksWait()) {
      placed = placed ++ offer(free.slice(next, next + 1))
      next += 1
    }
    val rest = free.drop(next) ++ full
    if (rest.isEmpty) placed else placed ++ offer(rest)
  }
}
