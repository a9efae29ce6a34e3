package org.apache.spark.scheduler.sparksched
package jobs

import java.time.{Instant, ZoneId}
import java.time.format.DateTimeFormatter

import scala.collection.mutable

import schedcore.PlainText
import schedcore.enforce.QueueUsage
import schedcore.ledger.Ledger
import schedcore.marks.JobMark
import schedcore.settings.{MarkWarning, QueueTree}
import schedcore.status.{JobQueue, Why}

/**
 * The application's jobs in the tenants' queues. Used under the scheduler's lock only.
 *
 * A job for which there is no place is refused and soon cancelled. Not at once: Spark's listener bus is asynchronous, so that a
 * program's next Spark job may begin before the end of the previous one is known. While the application does not enforce, nothing
 * is cancelled, and refused jobs run.
 *
 * @param refuse cancels a Spark job of a job that its queue lets wait no longer, with a sentence that says why
 * @param groups of a user as far as they are known; None: they are not
 */
private[sparksched] final class QueuedJobs(
    queues: QueueUsage, ledger: Ledger, refuse: (Int, String) => Unit, groups: String => Option[Set[String]] = _ => None) {
  import QueuedJobs._

  private var admissions = 0L
  private val refusals = mutable.LinkedHashMap.empty[String, Refused]
  private val came = mutable.HashMap.empty[String, Came] // of the jobs that wait

  /** Jobs so far that were admitted after they had waited: slots must be offered to them. */
  def admitted: Long = admissions

  def capacity(slots: Int): Unit = queues.capacity(slots)

  /** The mark with a priority that the job's queue allows. Nobody is warned of a priority that nobody has set. */
  def limited(mark: JobMark): JobMark = {
    val queue = queueOf(mark)
    val user = mark.user.getOrElse("")
    val most = queues.tree.maxPriority(queue, user, groupsFor(queues.tree, user))
    if (mark.priority <= most) mark
    else {
      val own = if (queues.tree.pathOf(queue).exists(_.maxPriorities.nonEmpty)) s" for user ${PlainText.of(user)}" else ""
      mark.copy(priority = most, warnings = mark.warnings ++ Option.when(mark.priority > 0)(MarkWarning(
        s"${JobMark.Prefix}priority is ${mark.priority} but max_priority of queue $queue is $most$own: lowered to it", limited = true)))
    }
  }

  // ---- jobs: admission -----------------------------------------------------------------------------------------

  /** A job begins. @return why it waits, if it does */
  def began(mark: JobMark, arrival: Int, nowMs: Long): Option[String] = {
    enter(mark, arrival, nowMs)
    waitsSinceNow(mark.key)
  }

  private def enter(mark: JobMark, arrival: Int, nowMs: Long): Unit =
    if (queues.entered(mark.key, queueOf(mark), mark.priority, arrival, nowMs)) {
      refusals -= mark.key
      noteWaits(mark.key, nowMs, queues.positionOfNewcomer)
    } else refusals(mark.key) = new Refused(nowMs)

  private def noteWaits(job: String, nowMs: Long, place: String => Int): Unit =
    if (!queues.admitted(job)) came(job) = Came(nowMs, place(job))

  /** Why a job gets no slot that has come just now. */
  private def waitsSinceNow(job: String): Option[String] = waits(job, 1, None, came.get(job).fold(0)(_.place))

  /** What a job does that is admitted. */
  private def admitted(job: String, nowMs: Long): String = came.remove(job).fold(Admitted) { c =>
    s"$Admitted after ${Why.length(nowMs - c.atMs)}; it came as number ${c.place} of those that waited"
  }

  private def queueOf(mark: JobMark): String = placed(queues.tree, mark)
  private def placed(tree: QueueTree, mark: JobMark): String = {
    val user = mark.user.getOrElse("")
    tree.place(user, mark.name, mark.jobClass.getOrElse(""), groupsFor(tree, user))
  }
  private def groupsFor(tree: QueueTree, user: String): Set[String] =
    if (tree.usesGroups) groups(user).getOrElse(Set.empty) else Set.empty

  /** A sentence where the groups of the job's user matter and are unknown: then no right counts that a group has. */
  def withoutGroups(mark: JobMark): Option[String] = {
    val user = mark.user.getOrElse("")
    Option.when(queues.tree.usesGroups && groups(user).isEmpty)(
      s"the groups of user ${PlainText.of(user)} are unknown: queues, rules and priorities by group do not count for this job")
  }

  /** A stage of a Spark job begins. A later Spark job of a cancelled job, or of one that left its queue, comes into the queue again. */
  def stageBegan(mark: JobMark, arrival: Int, sparkJob: Int, nowMs: Long): Unit =
    if (!queues.knows(mark.key)) enter(mark, arrival, nowMs)
    else refusals.get(mark.key).foreach { refused =>
      if (refused.cancelledTo.exists(sparkJob > _)) enter(mark, arrival, nowMs)
      else if (refused.isFinal) cancel(mark.key, mark.name, Seq(sparkJob))
    }

  /** Refuses the jobs that have waited for too long, and lets refused ones in for which there is a place by now. @return these, with what they do */
  def look(nowMs: Long): Seq[(String, String)] = {
    val freed = queues.freed(nowMs)
    admissions += freed.size
    queues.overdue(nowMs).foreach { job =>
      came -= job
      refusals(job) = new Refused(nowMs, timedOut = true)
    }
    freed.map(job => job -> admitted(job, nowMs)) ++ enterAfterAll(nowMs)(!_.timedOut)
  }

  /** The application enforces from now on: its refused jobs are no longer let run, and may have a place. @return those that have */
  def switchedOn(nowMs: Long): Seq[(String, String)] = {
    val entered = enterAfterAll(nowMs)(_ => true, alsoCancelled = true)
    refusals.keysIterator.toList.foreach(refusals(_) = new Refused(nowMs))
    entered
  }

  private def enterAfterAll(nowMs: Long)(which: Refused => Boolean, alsoCancelled: Boolean = false): Seq[(String, String)] = {
    val candidates = refusals.iterator.filter { case (_, r) => which(r) && (alsoCancelled || !r.isFinal) }.map(_._1).toList
    val entered = queues.entered(candidates, nowMs)
    // The places of many are made at once.
    val place: String => Int = if (entered.sizeIs > 1) queues.position else queues.positionOfNewcomer
    entered.map { job =>
      refusals -= job
      if (queues.admitted(job)) admissions += 1
      noteWaits(job, nowMs, place)
      job -> waitsSinceNow(job).getOrElse(Admitted)
    }
  }

  /** Refused jobs that have had their time, to be cancelled now. */
  def due(nowMs: Long): Seq[String] =
    refusals.iterator.filter { case (_, r) => !r.isFinal && (r.timedOut || nowMs - r.sinceMs >= GraceMs) }.map(_._1).toList

  /** Cancels these Spark jobs of a refused job. */
  def cancel(job: String, name: String, sparkJobs: Iterable[Int]): Unit = refusals.get(job).foreach { refused =>
    refused.cancelledTo = (sparkJobs ++ refused.cancelledTo ++ Some(-1)).maxOption
    sparkJobs.foreach(refuse(_, s"job ${PlainText.of(name)}: ${why(job, refused)}"))
  }

  private def why(job: String, refused: Refused): String =
    if (refused.timedOut) s"it waited for wait_timeout, and ${full(job)}" else noPlace(job)

  private def noPlace(job: String): String = s"${full(job)}, and as many jobs wait as may"

  private def full(job: String): String = queues.fullQueue(job).fold("its queue has a place again") { use =>
    if (use.usedUp) {
      val again = queues.freesMs(use).fold("")(at => s" and admits jobs again at ${timeOfDay(at)} at the earliest")
      s"queue ${use.spec.path} has used its ${number(use.spec.slotHoursPerDay.get)} slot-hours of 24 hours$again"
    } else s"queue ${use.spec.path} runs ${counted(use.jobs, "job")}, its most"
  }

  private def number(value: Double): String = BigDecimal(value).bigDecimal.stripTrailingZeros.toPlainString
  private def timeOfDay(atMs: Long): String =
    Instant.ofEpochMilli(atMs).atZone(ZoneId.systemDefault).format(DateTimeFormatter.ofPattern("yyyy-MM-dd HH:mm"))

  private def counted(n: Int, what: String): String = if (n == 1) s"1 $what" else s"$n ${what}s"

  def ranked(mark: JobMark): Unit = queues.ranked(mark.key, mark.priority)

  /** @return the jobs that come in its place, with what they do */
  def ended(job: String, nowMs: Long): Seq[(String, String)] = {
    refusals -= job
    came -= job
    val next = queues.left(job)
    admissions += next.size
    next.map(other => other -> admitted(other, nowMs)) ++ enterAfterAll(nowMs)(!_.timedOut)
  }

  /**
   * The job's Spark jobs are over, but a stage that it submitted is there for another job. If the job was not admitted, it leaves its
   * queue, so that the other job's stage does not wait for a place that nobody waits for.
   *
   * @return as of [[ended]]
   */
  def onlyServes(job: String, nowMs: Long): Seq[(String, String)] = if (queues.admitted(job)) Nil else {
    admissions += 1
    ended(job, nowMs)
  }

  // ---- another tree --------------------------------------------------------------------------------------------

  /**
   * The queues are those of another tree from now on. Jobs stay where they are, if their queues are still there.
   *
   * @param mark of a job
   * @return the jobs that the change concerns, with what they do
   */
  def changed(tree: QueueTree, mark: String => Option[JobMark], nowMs: Long): Seq[(String, String)] = {
    val moved = mutable.ListBuffer.empty[(String, String)]
    val begins = queues.changed(tree, job => {
      val queue = mark(job).fold(tree.default)(placed(tree, _))
      moved += job -> (queues.queueOf(job) match {
        case _ if tree.isEmpty => "the application has no queues any more"
        case Some(before) => s"its queue $before is gone, and it is in queue $queue"
        case None => s"the application has queues from now on, and it is in queue $queue"
      })
      queue
    })
    admissions += begins.size
    limitHolds()
    moved.toList ++ begins.map(job => job -> admitted(job, nowMs)) ++ enterAfterAll(nowMs)(!_.timedOut)
  }

  /** The ledger asks the queues about held slots, and about shares only if there are some. */
  private def limitHolds(): Unit = ledger.limitHolds(queues.mayHold, queues.shares.map(_ => queues))
  limitHolds()

  // ---- slots ---------------------------------------------------------------------------------------------------

  /** Before the ledger is told: the task takes the place of held slots of its queues where these are at their ceilings. */
  def launched(job: String, executor: String, slots: Int, nowMs: Long): Unit = {
    val own = math.min(slots, ledger.heldOn(executor, job))
    if (slots > own && !queues.tree.isEmpty) queues.givesUp(job, slots - own, ledger.isSafe(_, job)).foreach(ledger.giveUp(_, nowMs))
    queues.advance(nowMs)
    queues.launched(job, slots, own)
  }

  def stopped(job: String, slots: Int, ranMs: Long, nowMs: Long): Unit = {
    queues.advance(nowMs)
    queues.stopped(job, slots)
    queues.ran(job, slots * ranMs)
  }

  // ---- what people are shown -----------------------------------------------------------------------------------

  def pathOf(job: String): Option[String] = queues.queueOf(job)

  /**
   * The queue of its path whose ceiling never lets the job have so many slots at once, with the ceiling.
   *
   * @param mayGrow whether the application may have more slots later, so that only ceilings in slots are the same then
   */
  def tooNarrow(job: String, slots: Int, mayGrow: Boolean): Option[(String, Int)] =
    if (!mayGrow) queues.tooNarrow(job, slots)
    else for {
      path <- queues.queueOf(job)
      spec <- queues.tree.pathOf(path).find(_.ceiling.flatMap(_.slots).exists(_ < slots))
      most <- spec.ceiling.flatMap(_.slots)
    } yield spec.path -> most

  /**
   * Why the job gets no further slot, as far as its queue decides.
   *
   * @param slots that it needs at once
   * @param never why none of its stages that wait can start at all
   */
  def waits(job: String, slots: Int, never: Option[String] = None): Option[String] = waits(job, slots, never, place(job))

  private def waits(job: String, slots: Int, never: Option[String], place: => Int): Option[String] =
    if (queues.admitted(job) || queues.tree.isEmpty)
      never.map(said => s"waits: $said").orElse(queues.atCeiling(job, slots, ledger.isSafe(_, job)).map { queue =>
        val ceiling = counted(queues.ceiling(queue), "slot")
        if (slots == 1) s"waits: queue $queue is at its ceiling of $ceiling"
        else s"waits: of its ceiling of $ceiling queue $queue has fewer left than the $slots that are needed at once"
      })
    else Some(refusals.get(job) match {
      case Some(refused) if refused.isFinal => s"refused: ${why(job, refused)}"
      case Some(refused) => s"has no place: ${why(job, refused)}"
      case None => s"waits to be admitted: ${full(job)}${JobQueue.placed(place)}"
    })

  /** Its place among those of its queue that wait; 0: it does not wait. */
  def place(job: String): Int = queues.position(job)
}

private object QueuedJobs {
  /** Until a refused job is cancelled: longer than the listener bus mostly needs to report that another one ended. */
  val GraceMs = 1000L
  val Admitted = "its queue admits it"

  /** A job that waits. @param place the one that it had when it came */
  private final case class Came(atMs: Long, place: Int)

  /** A job that its queue neither runs nor lets wait. @param timedOut it has waited for too long, rather than found too many that wait */
  final class Refused(val sinceMs: Long, val timedOut: Boolean = false) {
    /** Its latest Spark job that was cancelled for it, -1 where it had none; None: it is not cancelled yet. */
    var cancelledTo: Option[Int] = None
    def isFinal: Boolean = cancelledTo.isDefined
  }
}
