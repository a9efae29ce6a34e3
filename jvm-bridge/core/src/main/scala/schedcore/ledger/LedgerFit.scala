package schedcore
package ledger

import scala.collection.mutable

/**
 * What one task of a stage needs of its executor.
 *
 * @param slots that it takes there; as many as the executor has if it has fewer and room for the task
 * @param least slots of the smallest executor that may have room for it, at least 1. It is less than `slots` where whole
 *   slots round the need up
 * @param profile resource profile of the executors that may run it
 */
final case class TaskShape(slots: Int = 1, least: Int = 1, profile: Int = 0) {
  /** Slots of as many whole tasks as need this many at least. */
  private[schedcore] def roundUp(n: Int): Int = tasks(n) * slots
  private[schedcore] def tasks(n: Int): Int = (n + slots - 1) / slots
  private[schedcore] def fits(e: LedgerExecutor): Boolean = e.open && e.profile == profile && e.slots >= least
  // Whole slots round a large task's need up: one that fits may seem to need more than there is.
  private[schedcore] def on(e: LedgerExecutor): Int = math.min(slots, e.slots)
}

/**
 * Which slots the tasks of the next stages fit (section III-C): executor by executor.
 *
 * A slot fits a task if its executor has the resource profile that the task's stage asks for and is large enough; a task of
 * several slots needs them all on one executor. A job keeps the slots that tasks of its next stages will take, releases those
 * that are too small or of another profile at once, and pre-reserves others in their place. Jobs whose next tasks all take one
 * slot of one profile, the one that their parents free, need none of this: [[LedgerDemand]] counts slots for them.
 *
 * `spark_sched_lab/enforce/ledger_fit.py` has the same.
 */
private[schedcore] object LedgerFit {

  /**
   * Use of an ended attempt's slots for its job's next stages.
   *
   * @param slots of the attempt's slots those that next tasks will take
   * @param fits whether a task of a next stage could run on that executor at all
   */
  final case class Place(slots: Int, fits: Boolean)

  /** Which slots a job's next tasks will take, by executor. */
  private final class Claims(val running: mutable.Map[String, Int]) {
    val taken = mutable.HashMap.empty[String, Int].withDefaultValue(0) // of the job: held, or with running tasks of parents
    val lacking = mutable.HashMap.empty[String, Int].withDefaultValue(0) // of others: they complete what a task needs
    val open = mutable.ArrayBuffer.empty[(TaskShape, Int)] // tasks for which the job has nothing anywhere
    def room(e: LedgerExecutor): Int = e.slots - taken(e.id) - lacking(e.id)
  }

  /**
   * Whether the slots that a next stage of the job needs are not simply those that its parents free, or those of another one
   * are of another resource profile.
   */
  def shaped(j: LedgerJob): Boolean = {
    val waiting = j.demand.successors.values
    waiting.exists(s => s.shaped || s.shape.profile != waiting.head.shape.profile)
  }

  /** Assigns the job's slots, with those of an attempt that ended, to its next tasks: to the largest tasks first. */
  private def claims(
      j: LedgerJob, executors: Iterable[LedgerExecutor], nowMs: Long, freed: Option[LedgerAttempt] = None): Claims = {
    val edges = LedgerDemand.edges(j, nowMs)
    // 1. What the job has: what it holds, and what the parents of its next stages run on.
    val found = new Claims(mutable.HashMap.empty[String, Int].withDefaultValue(0))
    edges.flatMap(_.parents).distinct.foreach(p => p.attempts.originals.foreach { a =>
      if (!p.done(a.index)) found.running(a.executor) += a.slots
    })
    def held(e: LedgerExecutor): Int =
      e.heldBy.getOrElse(j, 0) + freed.filter(_.executor == e.id).fold(0)(_.slots)
    val own = mutable.HashMap.from(executors.iterator.map(e => e.id -> (held(e) + found.running(e.id))))
    // Slots on which a task still runs are assigned first, so that free ones are released first.
    val latestFirst = executors.toList.sortBy(held)
    edges.sortBy(-_.shape.slots).foreach { edge =>
      val shape = edge.shape
      val fitting = latestFirst.filter(shape.fits)
      var tasks = shape.tasks(edge.need)
      // 2. Whole tasks.
      fitting.foreach { e =>
        val whole = math.min(tasks, own(e.id) / shape.on(e))
        own(e.id) -= whole * shape.on(e)
        found.taken(e.id) += whole * shape.on(e)
        tasks -= whole
      }
      // 3. Parts of tasks, the largest first: others release the rest.
      val parts = fitting.filter(e => own(e.id) > 0 && found.room(e) >= shape.on(e))
      parts.sortBy(e => shape.on(e) - own(e.id)).take(tasks).foreach { e =>
        found.taken(e.id) += own(e.id)
        if (edge.past) found.lacking(e.id) += shape.on(e) - own(e.id)
        own(e.id) = 0
        tasks -= 1
      }
      // 4. Tasks for which the job has nothing.
      if (tasks > 0 && edge.past) found.open += shape -> tasks
    }
    found
  }

  /** Use of an ended attempt's slots for its job's next stages; None if all slots fit, so that counting suffices. */
  def placeOf(a: LedgerAttempt, executors: collection.Map[String, LedgerExecutor], nowMs: Long): Option[Place] = {
    val j = a.stage.job
    Option.when(shaped(j)) {
      executors.get(a.executor).fold(Place(0, fits = true)) { e =>
        val found = claims(j, executors.values, nowMs, Some(a))
        val more = found.taken(e.id) - found.running(e.id) - e.heldBy.getOrElse(j, 0)
        Place(math.max(0, math.min(a.slots, more)), LedgerDemand.edges(j, nowMs).exists(_.shape.fits(e)))
      }
    }
  }

  /** Slots of an executor that the job wants beside its own (Algorithm 1, lines 14-17). */
  def wantedOn(j: LedgerJob, e: LedgerExecutor, executors: Iterable[LedgerExecutor], nowMs: Long): Int =
    if (j.stages.isEmpty && j.demand.overridden == 0) 0
    else {
      val found = claims(j, executors, nowMs)
      if (found.lacking(e.id) > 0) found.lacking(e.id)
      else found.open.collectFirst { case (s, _) if s.fits(e) && found.room(e) >= s.on(e) => s.on(e) }.getOrElse(0)
    }

  /** Executors with held slots, in order, that neither a next task nor one that waits for a slot will take. */
  def surplus(
      j: LedgerJob, executors: Iterable[LedgerExecutor], nowMs: Long, freed: Option[LedgerAttempt]): Seq[(LedgerExecutor, Int)] = {
    val found = claims(j, executors, nowMs, freed)
    var waiting = math.max(0, LedgerDemand.left(j) - j.running)
    executors.iterator.filter(_.heldBy.contains(j)).map { e =>
      val beyond = e.heldBy(j) - math.max(0, found.taken(e.id) - found.running(e.id))
      val spared = math.min(waiting, beyond)
      waiting -= spared
      e -> (beyond - spared)
    }.toList
  }
}
