package schedcore
package enforce

import scala.collection.mutable

import schedcore.settings.PreemptionRule

/**
 * A running attempt.
 *
 * @param queue of its job
 * @param profile resource profile of its executor
 * @param restartable whether it may be killed at all
 * @param evictions how often its task was evicted
 */
final case class FloorVictim(task: Long, queue: String, profile: Int, slots: Int, startMs: Long, restartable: Boolean, evictions: Int)

/** An attempt to be evicted for a queue. */
final case class FloorEviction(task: Long, queue: String)

/**
 * Names the attempts to evict for queues that have had less than a part of their floors for too long.
 *
 * How long a queue will wait is unknown, so that it is expected to wait as long again as it has waited. An attempt is worth evicting if
 * it has not run for more than `Worth` times as long. The latest ones go first, of queues above their floors alone, and no queue falls
 * below its floor by that.
 *
 * `spark_sched_lab.enforce.floor_preemption` is the twin in the simulator, and `protocol/golden/queues/tree*` bind the two.
 *
 * @param paths by queue, it and its ancestors, from the top down; parents come before their children
 */
final class FloorPreemption private[enforce] (rule: PreemptionRule, shares: QueueShares, paths: Seq[(String, Seq[QueueUse])]) {
  import FloorPreemption._

  private val pathOf = paths.toMap
  private val sinceMs = mutable.LinkedHashMap.empty[String, Long] // of the queues below the threshold, since when they have been
  private var lookedMs = Option.empty[Long]
  private val chosen = mutable.LinkedHashMap.empty[Long, String] // attempts that are to end, and the queue that they end for

  /** It follows another one whose tree was changed: queues go on waiting, and what was named is not named again. */
  private[enforce] def continues(was: FloorPreemption): Unit = {
    was.sinceMs.foreach { case (path, ms) => if (pathOf.contains(path)) sinceMs(path) = ms }
    was.chosen.foreach { case (task, queue) => if (pathOf.contains(queue)) chosen(task) = queue }
    lookedMs = was.lookedMs
  }

  /** Whether attempts are evicted; otherwise they are only counted. */
  def evicts: Boolean = rule.evicts

  /** When the next look may name an attempt; None: not before a queue is below the threshold. */
  def nextMs: Option[Long] = sinceMs.valuesIterator.minOption.map { first =>
    val due = first + rule.timeoutMs
    lookedMs.fold(due)(at => math.max(due, at + rule.intervalMs))
  }

  /**
   * The attempts to evict now, each of which is named once.
   *
   * @param wanted slots that waiting tasks may take as far as ceilings go, by queue and resource profile
   * @param running all attempts
   */
  def look(wanted: Seq[((String, Int), Int)], running: => Iterable[FloorVictim], nowMs: Long): Seq[FloorEviction] = {
    val starving = paths.iterator.map(_._1).filter(starves(_, wanted)).toList
    sinceMs.keysIterator.toList.filterNot(starving.contains).foreach(sinceMs -= _)
    starving.foreach(sinceMs.getOrElseUpdate(_, nowMs))
    val due = starving.filter(nowMs - sinceMs(_) >= rule.timeoutMs)
    if (due.isEmpty || lookedMs.exists(nowMs - _ < rule.intervalMs)) Nil
    else {
      lookedMs = Some(nowMs)
      val attempts = running.iterator.map(each => each.task -> each).toMap
      chosen.keysIterator.toList.filterNot(attempts.contains).foreach(chosen -= _)
      due.flatMap(choose(_, wanted, attempts, nowMs))
    }
  }

  private def starves(path: String, wanted: Seq[((String, Int), Int)]): Boolean = {
    val use = pathOf(path).last
    use.used < rule.threshold * shares.floor(use) && wanted.exists { case ((queue, _), slots) => slots > 0 && pathOf(queue).contains(use) }
  }

  private def choose(
      queue: String, wanted: Seq[((String, Int), Int)], attempts: Map[Long, FloorVictim], nowMs: Long): Seq[FloorEviction] = {
    val use = pathOf(queue).last
    var lacks = shares.floor(use) - use.used
    val wants = mutable.HashMap.empty[Int, Int].withDefaultValue(0)
    wanted.foreach { case ((leaf, profile), slots) => if (pathOf(leaf).contains(use)) wants(profile) += slots }
    val gone = mutable.HashMap.empty[QueueUse, Int].withDefaultValue(0) // slots of other queues that are to end
    def goes(attempt: FloorVictim): Unit = pathOf(attempt.queue).foreach(gone(_) += attempt.slots)
    def comes(attempt: FloorVictim): Unit = {
      lacks -= attempt.slots
      wants(attempt.profile) -= attempt.slots
    }
    chosen.foreach { case (task, target) =>
      goes(attempts(task))
      if (pathOf(target).contains(use)) comes(attempts(task))
    }
    def mayGo(attempt: FloorVictim): Boolean = {
      val theirs = pathOf(attempt.queue)
      !theirs.contains(use) && theirs.filterNot(pathOf(queue).contains(_))
        .forall(each => each.used - gone(each) - attempt.slots >= shares.floor(each))
    }
    val worthMs = Worth * (nowMs - sinceMs(queue))
    val found = mutable.ArrayBuffer.empty[FloorEviction]
    attempts.values.toList.sortBy(a => (-a.startMs, -a.task)).foreach { each =>
      val goesAtAll = each.restartable && each.evictions < MostEvictions && !chosen.contains(each.task)
      if (lacks > 0 && goesAtAll && nowMs - each.startMs <= worthMs && wants(each.profile) > 0 && mayGo(each)) {
        goes(each)
        comes(each)
        chosen(each.task) = queue
        found += FloorEviction(each.task, queue)
      }
    }
    found.toList
  }
}

private object FloorPreemption {
  /** A task that was evicted so often is not evicted again, as under the policy `priority-evictions`. */
  val MostEvictions = 5
  /** Seconds of work that may be lost for each second that a queue has waited, likewise. */
  val Worth = 4L
}
