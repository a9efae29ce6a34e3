package schedcore
package enforce

import scala.collection.mutable

import schedcore.settings.QueueSpec

/**
 * What the jobs of one queue, and of those below it, have now.
 *
 * `running` are slots of their attempts, `held` those that they hold idle, `peak` is the most that both together ever were. `jobs` are
 * admitted, `waiting` are in the admission queue, and `refused` counts how often a job was refused. `slotMs` is the slot time of the
 * attempts that ended.
 */
final class QueueUse(val spec: QueueSpec) {
  var running = 0
  var held = 0
  var peak = 0
  var jobs = 0
  var waiting = 0
  var refused = 0
  var slotMs = 0L
  /** Jobs that hold slots, in the order in which they began to. */
  private[enforce] val holders = mutable.LinkedHashSet.empty[QueuedJob]
  def used: Int = running + held

  private var lastDay = new DayUse
  /** The slot time of the last 24 hours; counted where the queue has a limit of it. */
  def day: DayUse = lastDay
  /** Whether it has had its slot time of the last 24 hours. */
  def usedUp: Boolean = spec.daySlotMs.exists(day.slotMs >= _)
  /** Whether it admits no further job. */
  def full: Boolean = spec.maxRunningJobs.exists(jobs >= _) || usedUp

  /** The queue had this before its tree was changed. */
  private[enforce] def continues(was: QueueUse): Unit = {
    peak = was.peak
    refused = was.refused
    slotMs = was.slotMs
    if (was.spec.daySlotMs.isDefined) lastDay = was.day
  }

  /** A job is in the queue after its tree was changed. */
  private[enforce] def enters(entry: QueuedJob, waits: Boolean): Unit = {
    running += entry.running
    held += entry.held
    peak = math.max(peak, used)
    if (entry.held > 0) holders += entry
    if (entry.admitted) jobs += 1
    if (waits) waiting += 1
    if (entry.refused) refused += 1
  }
}

/**
 * A queue's place in the order of offers: whether a queue of its path is below its floor, then from the top down whether this one is
 * and its slots over its floor, else over its weight.
 */
final class QueueStanding private[enforce] (private[enforce] val levels: Array[Double])

object QueueStanding {
  /** Of all queues where none has a floor or a weight. */
  val Same: QueueStanding = new QueueStanding(Array.emptyDoubleArray)

  /** The least one is first. */
  implicit object Order extends Ordering[QueueStanding] {
    override def compare(a: QueueStanding, b: QueueStanding): Int = if (a eq b) 0 else {
      val (x, y) = (a.levels, b.levels)
      var i = 0
      while (i < x.length && i < y.length && x(i) == y(i)) i += 1
      if (i < x.length && i < y.length) java.lang.Double.compare(x(i), y(i)) else Integer.compare(x.length, y.length)
    }
  }
}

/**
 * What a task set wants of a round.
 *
 * @param profile resource profile of the executors that it may use
 * @param atOnce slots without which none of its tasks starts
 * @param slots that all its waiting tasks would take
 */
final case class Wanted(queue: String, profile: Int, atOnce: Int, slots: Int)

/**
 * Weighted fair shares with floors, as in YARN and YuniKorn: which queue's jobs are offered slots first.
 *
 * A job of a queue below its floor comes before all jobs whose queues have theirs. Beside that queues are compared from the top down:
 * those below their floors by the part of it that they have, the others by their slots over their weights. Priorities order the jobs
 * of one queue.
 *
 * `spark_sched_lab.enforce.queue_shares` is the twin in the simulator, and `protocol/golden/queues/tree*` bind the two.
 *
 * @param paths by queue, it and its ancestors, from the top down
 */
final class QueueShares private[enforce] (paths: Map[String, Seq[QueueUse]]) {
  private[enforce] var slots = 0

  /** Slots that the queue is promised now: not more than it may have. */
  def floor(use: QueueUse): Int = {
    val promised = use.spec.floor.fold(0)(_.atMost(slots))
    use.spec.ceiling.fold(promised)(most => math.min(promised, most.of(slots)))
  }

  /** Whether the queue, or one above it, has fewer slots than its floor. */
  def below(queue: String): Boolean = paths(queue).exists(use => use.used < floor(use))

  def standing(queue: String): QueueStanding = standing(queue, (_: String) => 0)

  /** @param given slots by queue, to be added to its own */
  private def standing(queue: String, given: String => Int): QueueStanding = {
    val path = paths(queue)
    val levels = new Array[Double](1 + 2 * path.size)
    levels(0) = 1.0
    var i = 1
    path.foreach { use =>
      val used = use.used + given(use.spec.path)
      val promised = floor(use)
      if (used < promised) levels(0) = 0.0
      levels(i) = if (used < promised) 0.0 else 1.0
      levels(i + 1) = if (used < promised) used.toDouble / promised else used / use.spec.weight.getOrElse(1.0)
      i += 2
    }
    new QueueStanding(levels)
  }

  /**
   * The most slots that each queue that wants some is to have after a round: the open slots are divided one by one, each to the queue
   * that comes first then. Empty where only one queue wants slots: it needs no limit.
   *
   * @param wanted by the task sets, in the order in which those of one queue are offered slots
   * @param open free slots that nobody holds, by resource profile
   */
  def parts(wanted: Iterable[Wanted], open: Map[Int, Int]): Map[String, Int] = {
    val waiting = mutable.LinkedHashMap.empty[String, mutable.Queue[Wanted]]
    wanted.foreach(each => waiting.getOrElseUpdate(each.queue, mutable.Queue.empty) += each)
    if (waiting.size < 2) Map.empty
    else {
      val left = mutable.HashMap.from(open)
      val given = mutable.HashMap.empty[String, Int].withDefaultValue(0)
      val queues = waiting.keysIterator.toList
      val standings = mutable.HashMap.from(queues.map(queue => queue -> standing(queue)))
      while (waiting.nonEmpty && left.valuesIterator.exists(_ > 0)) {
        val queue = waiting.keysIterator.minBy(standings)
        val sets = waiting(queue)
        val first = sets.head
        if (first.atOnce > first.slots || first.atOnce > left.getOrElse(first.profile, 0) || !fits(queue, first.atOnce, given)) {
          sets.dequeue()
          if (sets.isEmpty) waiting -= queue
        } else {
          left(first.profile) -= first.atOnce
          sets(0) = first.copy(slots = first.slots - first.atOnce)
          paths(queue).foreach(use => given(use.spec.path) += first.atOnce)
          val top = paths(queue).head
          waiting.keysIterator.foreach(other => if (paths(other).head eq top) standings(other) = standing(other, given))
        }
      }
      queues.iterator.map(queue => queue -> (paths(queue).last.used + given(queue))).toMap
    }
  }

  private def fits(queue: String, more: Int, given: String => Int): Boolean =
    paths(queue).forall(use => use.spec.ceiling.forall(use.used + given(use.spec.path) + more <= _.of(slots)))

  /**
   * How many of the `slots` that a job of queue `holder` holds a job of queue `asker` may take. Between queues, their order decides and
   * not that of jobs: as many as the asker's queue lacks of its floor, or as it comes first with where the two paths part, but no slot
   * that the holder's queue has below its own floor.
   *
   * @param asks that it may take by the order of jobs, which decides in one queue
   * @param taken slots promised to it that do not count as used yet
   * @param atOnce one of the two waits for slots that it needs all at once. Taken one by one, by the slots that both have at the
   *   moment, they would never be together: floors decide, and then the order of jobs
   */
  def ceded(holder: String, asker: String, slots: Int, asks: Int, taken: Int, atOnce: Boolean = false): Int =
    if (paths(holder) eq paths(asker)) asks else given(paths(holder), paths(asker), slots, taken, _ => 0, Option.when(atOnce)(asks))

  /**
   * Whether slots of a running task of queue `holder` may go to a job of queue `asker`.
   *
   * @param slots of the task
   * @param taken open slots, which that job takes first
   * @param moved queues of other tasks whose slots go to that job before, with their slots
   */
  def cedes(holder: String, asker: String, slots: Int, taken: Int, moved: Iterable[(String, Int)]): Boolean = {
    val (theirs, mine) = (paths(holder), paths(asker))
    (theirs eq mine) || {
      val more = mutable.HashMap.empty[String, Int].withDefaultValue(0)
      moved.foreach { case (queue, count) =>
        paths(queue).foreach(use => more(use.spec.path) -= count)
        mine.foreach(use => more(use.spec.path) += count)
      }
      given(theirs, mine, slots, taken, use => more(use.spec.path)) == slots
    }
  }

  /**
   * How many of `slots` of the first queue may go to the second one, where the queues have `more` slots than their own, and `taken` are
   * promised to the second one. `asks` may go by the order of jobs; None: weights decide.
   */
  private def given(
      theirs: Seq[QueueUse], mine: Seq[QueueUse], slots: Int, taken: Int, more: QueueUse => Int, asks: Option[Int] = None): Int = {
    def used(use: QueueUse) = use.used + more(use)
    val apart = theirs.iterator.zip(mine.iterator).count { case (a, b) => a eq b }
    val spare = theirs.iterator.drop(apart).map(use => used(use) - floor(use)).min
    val lacks = mine.iterator.drop(apart).map(use => floor(use) - used(use)).max - taken
    val most = math.max(0, math.min(slots, spare))
    asks.fold(byWeight(theirs(apart), mine(apart), used, taken, lacks, most))(n => math.min(most, math.max(n, lacks)))
  }

  private def byWeight(first: QueueUse, second: QueueUse, used: QueueUse => Int, taken: Int, lacks: Int, most: Int): Int = {
    // Where the paths part: with each slot the second one still has less for its weight than the first one had before, so that none
    // goes back.
    val (weight, other) = (first.spec.weight.getOrElse(1.0), second.spec.weight.getOrElse(1.0))
    val (has, gets) = (used(first), used(second) + taken)
    var n = 0
    while (n < most && (gets + n + 1) / other < (has - n) / weight) n += 1
    math.max(math.min(most, lacks), n)
  }

  /** Whether a job of the queue may take a held slot of another queue. */
  def takesHeld(queue: String): Boolean =
    leaves.exists { case (other, use) => use.held > 0 && other != queue && ceded(other, queue, 1, 0, 0) > 0 }

  // Jobs are in the lowest queues alone.
  private val leaves = paths.collect { case (queue, path) if !paths.keysIterator.exists(_.startsWith(s"$queue.")) => queue -> path.last }
}
