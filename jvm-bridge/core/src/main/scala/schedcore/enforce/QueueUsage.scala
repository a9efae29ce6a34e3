package schedcore
package enforce

import scala.collection.mutable

import schedcore.ledger.{HoldShares, LedgerListener}
import schedcore.settings.QueueTree

/** A job in its queue. @param path its queue and the ancestors, from the top down; empty: there are no queues */
private[enforce] final class QueuedJob(
    val key: String, var path: Seq[QueueUse], var priority: Int, val arrival: Int, val sinceMs: Long) {
  var admitted = false
  var refused = false
  var held = 0
  var running = 0

  /** Its queue; empty: there are none. */
  def queue: String = path.lastOption.fold("")(_.spec.path)
  /** When it has waited for too long. */
  def dueMs: Option[Long] = path.flatMap(_.spec.waitTimeoutMs).minOption.map(sinceMs + _)
  /** Its place among those that wait: lower is first. */
  def order: (Int, Int) = (-priority, arrival)
  /** Whether it comes before another one that waits. */
  def isBefore(other: QueuedJob): Boolean = priority > other.priority || (priority == other.priority && arrival < other.arrival)
}

/**
 * Who may take slots, hold slots and run, by the ceilings and limits of a tree of queues.
 *
 * A slot of a queue is one that an attempt of its jobs runs on or that they hold idle. A job may take a slot if that keeps each queue
 * of its path at or below its ceiling. Idle slots that jobs of that queue hold, and that the ledger lets the job take, do not count
 * against it: they are given up for the slot (`givesUp`). A job is admitted when each queue of its path runs fewer jobs than it may, and
 * stays so until it ends. While the tree is empty, jobs are counted and may do everything, so that queues that come later know them.
 *
 * `spark_sched_lab.enforce.queue_usage` is the twin in the simulator, and `protocol/golden/queues/tree*` bind the two. Used under
 * its owner's lock only.
 */
final class QueueUsage(began: QueueTree) extends HoldShares {
  import QueueUsage._

  // Whether it asks for groups is also read without the owner's lock.
  @volatile private var inForce = new Queues(began)
  private val jobs = mutable.LinkedHashMap.empty[String, QueuedJob]
  private val waitingJobs = mutable.LinkedHashSet.empty[QueuedJob]
  // The places of those that wait; None: one of them came, went or changed since they were asked for. A look asks for all of them.
  private var places = Option.empty[Map[QueuedJob, Int]]
  private var slots = 0
  /** Whether a job has tasks that start together or have just done so. */
  var needsAtOnce: String => Boolean = (_: String) => false

  def tree: QueueTree = inForce.tree
  private def ofPath = inForce.ofPath
  private def paths = inForce.paths

  /** The order in which queues are offered slots; None: none of them has a floor or a weight. */
  def shares: Option[QueueShares] = inForce.shares

  /** Evictions for queues below their floors; None: no queue has one, or it is off. */
  def preemption: Option[FloorPreemption] = inForce.preemption

  /**
   * Another tree is in force from now on. A job keeps its slots, and its queue if jobs can be in that still. No limit stops a job that
   * runs: a queue that has more than it may drains. What a queue had so far stays with its path.
   *
   * @param place the queue of a job that cannot stay in its own
   * @return the jobs that are admitted for the change
   */
  def changed(next: QueueTree, place: String => String): Seq[String] = {
    val (before, now) = (inForce, new Queues(next))
    inForce = now
    capacity(slots)
    places = None
    for (use <- now.ofPath.values; was <- before.ofPath.get(use.spec.path)) use.continues(was)
    now.preemption.foreach(mine => before.preemption.foreach(mine.continues))
    jobs.valuesIterator.foreach { entry =>
      if (entry.refused) entry.path.foreach(use => now.ofPath.get(use.spec.path).foreach(_.refused -= 1))
      entry.path = now.paths(if (next.leaves(entry.queue)) entry.queue else place(entry.key))
      entry.path.foreach(_.enters(entry, waitingJobs.contains(entry)))
    }
    admitMore()
  }

  /** All queues, parents before their children. */
  def uses: Iterable[QueueUse] = ofPath.values

  /** The application has this number of slots. Fewer than before take no slot from a job. */
  def capacity(all: Int): Unit = {
    slots = all
    shares.foreach(_.slots = all)
  }

  /** The most slots that the queue may have now. */
  def ceiling(queue: String): Int = limit(ofPath(queue))

  private def limit(use: QueueUse): Int = use.spec.ceiling.fold(Unlimited)(_.of(slots))

  // ---- the slot time of 24 hours -------------------------------------------------------------------------------

  /** Counts slot time up to now. Called before slots change, for queues that have a limit of it. */
  def advance(nowMs: Long): Unit = if (inForce.limited.nonEmpty) inForce.limited.foreach(use => use.day.advance(use.used, nowMs))

  /** Time has passed. @return the jobs that are admitted since their queues may have slot time again */
  def freed(nowMs: Long): Seq[String] = {
    advance(nowMs)
    if (inForce.limited.nonEmpty && waitingJobs.nonEmpty) admitMore() else Nil
  }

  /** When a queue that has had its slot time has some again, if jobs wait for that. */
  def nextFreedMs: Option[Long] = inForce.limited.iterator.filter(_.waiting > 0).flatMap(freesMs(_)).minOption

  /** When the queue, which has had its slot time, has some again if it gets no more slots. */
  def freesMs(use: QueueUse): Option[Long] = use.spec.daySlotMs.flatMap(use.day.belowMs(_))

  // ---- jobs: admission -----------------------------------------------------------------------------------------

  /** The job comes into its queue, or back after it was refused. @return whether it stays: if too many jobs wait, it is refused */
  def entered(job: String, queue: String, priority: Int, arrival: Int, nowMs: Long): Boolean = {
    advance(nowMs)
    val entry = new QueuedJob(job, paths(queue), priority, arrival, nowMs)
    jobs.put(job, entry).foreach(keepsSlots(entry, _))
    if (fits(entry)) admit(entry)
    else if (isCrowded(entry)) refuse(entry)
    else {
      waitingJobs += entry
      places = None
      entry.path.foreach(_.waiting += 1)
    }
    !entry.refused
  }

  /**
   * Refused jobs that nobody has cancelled get a place after all if there is one now. Such a refusal does not count. The one with the
   * highest priority is first, of equal ones the earliest.
   *
   * @return those that stay
   */
  def entered(refused: Iterable[String], nowMs: Long): Seq[String] =
    refused.iterator.flatMap(jobs.get(_)).filter(_.refused).toList.sortBy(_.order).filter { entry =>
      val stays = fits(entry) || !isCrowded(entry)
      if (stays) {
        entry.path.foreach(_.refused -= 1)
        entered(entry.key, entry.queue, entry.priority, entry.arrival, nowMs)
      }
      stays
    }.map(_.key)

  /** A job that comes back keeps the slots that it has: a refused job may run in shadow mode. */
  private def keepsSlots(entry: QueuedJob, refused: QueuedJob): Unit = {
    refused.path.foreach { use =>
      use.running -= refused.running
      use.held -= refused.held
      use.holders -= refused
    }
    entry.running = refused.running
    entry.held = refused.held
    entry.path.foreach { use =>
      use.running += entry.running
      use.held += entry.held
      if (entry.held > 0) use.holders += entry
    }
  }

  /** Its priority changes, and with it its place in the admission queue. */
  def ranked(job: String, priority: Int): Unit = jobs.get(job).foreach { entry =>
    entry.priority = priority
    places = None
  }

  /** The job is over. @return the jobs that are admitted in its place */
  def left(job: String): Seq[String] = jobs.remove(job).fold(Seq.empty[String]) { entry =>
    entry.path.foreach { use =>
      use.running -= entry.running
      use.held -= entry.held
      use.holders -= entry
    }
    if (!entry.admitted) {
      stopWaiting(entry) // Nobody waits behind it.
      Nil
    } else {
      entry.path.foreach(_.jobs -= 1)
      admitMore()
    }
  }

  /** The jobs that have waited for too long by now. They are refused. */
  def overdue(nowMs: Long): Seq[String] = {
    val late = waitingJobs.iterator.filter(_.dueMs.exists(_ <= nowMs)).toList
    late.foreach { entry =>
      stopWaiting(entry)
      refuse(entry)
    }
    late.map(_.key)
  }

  /** When the next job will have waited for too long. */
  def nextDueMs: Option[Long] = waitingJobs.iterator.flatMap(_.dueMs).minOption

  /** Whether its tasks may start; true of a job that is in no queue. */
  def admitted(job: String): Boolean = jobs.get(job).forall(_.admitted)

  /** It is to be cancelled: it neither runs nor waits. */
  def refused(job: String): Boolean = jobs.get(job).exists(_.refused)

  /** Its place among the jobs of its own queue that wait, from 1 on; 0: it does not wait. */
  def position(job: String): Int = jobs.get(job).filter(waitingJobs.contains).fold(0) { entry =>
    if (places.isEmpty) places = Some(
      waitingJobs.toList.groupBy(_.queue).valuesIterator.flatMap(_.sortBy(_.order).iterator.zip(Iterator.from(1))).toMap)
    places.get(entry)
  }

  /** The same, of one job that has just come: the places of all others, which it voided, are not made for that. */
  def positionOfNewcomer(job: String): Int = jobs.get(job).filter(waitingJobs.contains).fold(0) { entry =>
    1 + waitingJobs.iterator.count(other => (other.path eq entry.path) && other.isBefore(entry)) // `paths` has one for each queue.
  }

  /** The queue of its path that admits no further job. */
  def fullQueue(job: String): Option[QueueUse] = jobs.get(job).flatMap(_.path.find(_.full))

  /** Whether the job came and did not leave. */
  def knows(job: String): Boolean = jobs.contains(job)
  /** The path of a job's queue. */
  def queueOf(job: String): Option[String] = jobs.get(job).flatMap(_.path.lastOption).map(_.spec.path)
  /** Slots that the queue's jobs use and hold. */
  def used(queue: String): Int = ofPath(queue).used
  /** The topmost of the queues that the job is in. */
  def topQueueOf(job: String): Option[String] = jobs.get(job).flatMap(_.path.headOption).map(_.spec.path)

  private def isCrowded(entry: QueuedJob): Boolean = entry.path.exists(use => use.spec.maxWaitingJobs.exists(use.waiting >= _))
  private def fits(entry: QueuedJob): Boolean = !entry.path.exists(_.full)

  private def admit(entry: QueuedJob): Unit = {
    entry.admitted = true
    entry.path.foreach(_.jobs += 1)
  }

  private def admitMore(): Seq[String] = waitingJobs.toList.sortBy(_.order).filter { entry =>
    val now = fits(entry)
    if (now) {
      stopWaiting(entry)
      admit(entry)
    }
    now
  }.map(_.key)

  private def stopWaiting(entry: QueuedJob): Unit = if (waitingJobs.remove(entry)) {
    places = None
    entry.path.foreach(_.waiting -= 1)
  }

  private def refuse(entry: QueuedJob): Unit = {
    entry.refused = true
    entry.path.foreach(_.refused += 1)
  }

  // ---- slots ---------------------------------------------------------------------------------------------------

  /** An attempt of the job runs on these slots, `own` of which the job holds until the ledger is told. */
  def launched(job: String, taken: Int, own: Int = 0): Unit = jobs.get(job).foreach { entry =>
    entry.running += taken
    entry.path.foreach { use =>
      use.running += taken
      use.peak = math.max(use.peak, use.used - own)
    }
  }

  /** An attempt of the job runs no more. */
  def stopped(job: String, taken: Int): Unit = jobs.get(job).foreach { entry =>
    val known = math.min(taken, entry.running) // An attempt may be older than the job of its key.
    entry.running -= known
    entry.path.foreach(_.running -= known)
  }

  /** An attempt of the job had its slots for this slot time. */
  def ran(job: String, slotMs: Long): Unit = jobs.get(job).foreach(_.path.foreach(_.slotMs += slotMs))

  /** The job holds one more slot. */
  def held(job: String): Unit = jobs.get(job).foreach { entry =>
    entry.held += 1
    entry.path.foreach { use =>
      use.held += 1
      use.holders += entry
      use.peak = math.max(use.peak, use.used)
    }
  }

  /** The job holds one slot less. */
  def unheld(job: String): Unit = jobs.get(job).foreach { entry =>
    entry.held -= 1
    entry.path.foreach { use =>
      use.held -= 1
      if (entry.held == 0) use.holders -= entry
    }
  }

  /** Whether the job may hold one more slot. */
  def mayHold(job: String): Boolean = jobs.get(job).forall(_.path.forall { use =>
    use.used < limit(use) && use.spec.heldCeiling.forall(use.held < _.of(slots))
  })

  /** Slots that tasks of the job may take now. @param isSafe whether a job's held slots are safe from this one */
  def room(job: String, isSafe: String => Boolean): Int = jobs.get(job).fold(Unlimited) { entry =>
    if (entry.admitted) math.max(0, leftOf(entry, isSafe)) else 0
  }

  /** The first queue of the path whose ceiling keeps `wanted` slots from the job. */
  def atCeiling(job: String, wanted: Int, isSafe: String => Boolean): Option[String] =
    jobs.get(job).flatMap(entry => entry.path.find(leftOf(_, entry, isSafe) < wanted)).map(_.spec.path)

  /** The first queue of the path that has fewer slots than `wanted` even when all of its others are over, and how many. */
  def tooNarrow(job: String, wanted: Int): Option[(String, Int)] =
    jobs.get(job).flatMap(_.path.find(limit(_) < wanted)).map(use => use.spec.path -> limit(use))

  /**
   * The jobs whose held slots keep a job's queues from having room for so many slots at once; none where running tasks do so, too. Among
   * jobs of one lowest queue no two can keep each other waiting: the earlier one may take what the later one holds. But slots that make up
   * the floors of two queues are safe from each other, and a queue above them may have no room for more.
   */
  def heldUpBy(job: String, wanted: Int, isSafe: String => Boolean): Set[String] = jobs.get(job).filter(_.admitted).fold(Set.empty[String]) { entry =>
    val short = entry.path.filter(leftOf(_, entry, isSafe) < wanted)
    if (short.exists(use => limit(use) - use.running < wanted)) Set.empty
    else short.iterator.flatMap(_.holders).filter(each => (each ne entry) && isSafe(each.key)).map(_.key).toSet
  }

  /** How many of these slots the job may take beside those that others of its queues `claimed`; they are added to these. */
  def claim(job: String, wanted: Int, claimed: mutable.Map[String, Int], isSafe: String => Boolean): Int = jobs.get(job).fold(wanted) { entry =>
    if (!entry.admitted) 0
    else {
      def before(use: QueueUse) = claimed.getOrElse(use.spec.path, 0)
      val granted = math.max(0, entry.path.iterator.map(use => leftOf(use, entry, isSafe) - before(use)).foldLeft(wanted)(math.min(_, _)))
      entry.path.foreach(use => claimed(use.spec.path) = before(use) + granted)
      granted
    }
  }

  /** Slots of all queues of its path that the job could take. */
  private def leftOf(entry: QueuedJob, isSafe: String => Boolean): Int =
    entry.path.iterator.map(leftOf(_, entry, isSafe)).foldLeft(Unlimited)(math.min(_, _))

  /** Slots of the queue that the job could take; what it holds itself is among them. */
  private def leftOf(use: QueueUse, entry: QueuedJob, isSafe: String => Boolean): Int =
    if (use.spec.ceiling.isEmpty) Unlimited
    else limit(use) - use.running - use.holders.iterator.filter(each => (each ne entry) && isSafe(each.key)).map(_.held).sum

  /**
   * The jobs that give up one held slot each, so that tasks of the job take `more` slots: those with the lowest priority first, of
   * equal ones the latest, the job itself last.
   */
  def givesUp(job: String, more: Int, isSafe: String => Boolean): Seq[String] = {
    val given = mutable.LinkedHashMap.empty[QueuedJob, Int]
    for (entry <- jobs.get(job).iterator; use <- entry.path) {
      var over = use.used.toLong + more - limit(use) - given.iterator.filter(_._1.path.contains(use)).map(_._2).sum
      if (over > 0) givers(use, entry, isSafe).foreach { each =>
        val count = math.min(over, each.held - given.getOrElse(each, 0)).toInt
        if (count > 0) {
          given(each) = given.getOrElse(each, 0) + count
          over -= count
        }
      }
    }
    given.iterator.flatMap { case (each, count) => Iterator.fill(count)(each.key) }.toList
  }

  private def givers(use: QueueUse, entry: QueuedJob, isSafe: String => Boolean): Seq[QueuedJob] =
    use.holders.iterator.filter(each => (each eq entry) || !isSafe(each.key)).toList
      .sortBy(each => (each eq entry, each.priority, -each.arrival))

  /** How many of the `slots` that `holder` holds `asker` may take; see [[QueueShares.ceded]]. Both are jobs' keys. */
  override def ceded(holder: String, asker: String, slots: Int, asks: Int, taken: Int): Int =
    (for (s <- shares; theirs <- queueOf(holder); mine <- queueOf(asker))
      yield s.ceded(theirs, mine, slots, asks, taken, needsAtOnce(holder) || needsAtOnce(asker))).getOrElse(asks)

  /** Whether slots of a running task of job `holder` may go to `asker`, after `taken` open ones and `moved` ones of other jobs; see [[QueueShares.cedes]]. */
  def cedes(holder: String, asker: String, slots: Int, taken: Int, moved: Iterable[(String, Int)]): Boolean =
    (for (s <- shares; theirs <- queueOf(holder); mine <- queueOf(asker))
      yield s.cedes(theirs, mine, slots, taken, moved.flatMap { case (job, n) => queueOf(job).map(_ -> n) })).getOrElse(true)

  /** A sentence for each sum that does not fit the jobs; empty if there is none. */
  def violations(): Seq[String] = uses.iterator.flatMap { use =>
    val inside = jobs.valuesIterator.filter(_.path.contains(use)).toList
    val sums = (inside.map(_.running).sum, inside.map(_.held).sum, inside.count(_.admitted))
    val counts = (use.running, use.held, use.jobs)
    Option.when(sums != counts)(s"queue ${use.spec.path} counts $counts of $sums")
  }.toList
}

/** Tells the queues of the slots that their jobs hold, and then the other listener. */
final class HoldsOfQueues(other: LedgerListener, queues: QueueUsage) extends LedgerListener {
  override def slotHeld(job: String, stage: String, executor: String, deadlineMs: Long, nowMs: Long): Unit = {
    queues.advance(nowMs)
    queues.held(job)
    other.slotHeld(job, stage, executor, deadlineMs, nowMs)
  }

  override def slotFreed(job: String, executor: String, reason: String, nowMs: Long): Unit = {
    queues.advance(nowMs)
    queues.unheld(job)
    other.slotFreed(job, executor, reason, nowMs)
  }
}

object QueueUsage {
  /** More slots than any application has. */
  val Unlimited: Int = Int.MaxValue

  /** The queues of one tree. */
  private final class Queues(val tree: QueueTree) {
    val ofPath: mutable.LinkedHashMap[String, QueueUse] = mutable.LinkedHashMap.empty
    tree.queues.foreach(q => ofPath(q.path) = new QueueUse(q))
    private val ofQueues = tree.queues.map(q => q.path -> tree.pathOf(q.path).map(each => ofPath(each.path))).toMap
    val paths: Map[String, Seq[QueueUse]] = if (tree.isEmpty) Map(tree.default -> Nil) else ofQueues
    val limited: Seq[QueueUse] = ofPath.valuesIterator.filter(_.spec.daySlotMs.isDefined).toList
    val shares: Option[QueueShares] = Option.when(tree.shares)(new QueueShares(ofQueues))
    val preemption: Option[FloorPreemption] = shares.filter(_ => tree.preempts)
      .map(new FloorPreemption(tree.preemption, _, tree.queues.map(q => q.path -> paths(q.path))))
  }
}
