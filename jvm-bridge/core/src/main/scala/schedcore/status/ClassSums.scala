package schedcore
package status

import scala.collection.mutable

import schedcore.marks.JobMark
import schedcore.settings.QueueTree

/**
 * The jobs of one class, summed up: those that are not over, and since the application's start those that are.
 *
 * @param waiting jobs that have work and no slots
 * @param atRisk jobs that are past their deadline, or will more likely miss than meet it
 * @param jctMs completion times of jobs that ended, added up
 * @param times slot time of all jobs, ended or not
 */
final case class ClassFigures(
    jobs: Int = 0, waiting: Int = 0, atRisk: Int = 0, slots: SlotKinds = SlotKinds(), ended: Long = 0, deadlinesMet: Long = 0,
    deadlinesMissed: Long = 0, jctMs: Long = 0, times: SlotTimes = SlotTimes.Zero) {

  def +(other: ClassFigures): ClassFigures = ClassFigures(
    jobs + other.jobs, waiting + other.waiting, atRisk + other.atRisk, slots + other.slots, ended + other.ended,
    deadlinesMet + other.deadlinesMet, deadlinesMissed + other.deadlinesMissed, jctMs + other.jctMs, times + other.times)
}

object ClassFigures {
  def ofLiving(job: JobFacts, nowMs: Long): ClassFigures = ClassFigures(
    jobs = 1, waiting = if (job.waits) 1 else 0, atRisk = if (job.atRisk(nowMs)) 1 else 0, slots = job.slotKinds, times = job.slotTimes)

  /** @param job with its outcome and its end */
  def ofEnded(job: JobFacts): ClassFigures = {
    val submittedMs = job.times.submittedMs
    ClassFigures(
      ended = 1, deadlinesMet = if (job.metDeadline) 1 else 0, deadlinesMissed = if (job.missedDeadline) 1 else 0,
      jctMs = math.max(0L, job.times.endedMs.getOrElse(submittedMs) - submittedMs), times = job.slotTimes)
  }
}

/** Slots of a job or of several, by what they are to them. */
final case class SlotKinds(running: Int = 0, held: Int = 0, pilot: Int = 0, copied: Int = 0, waiting: Int = 0, deferred: Int = 0) {
  def +(o: SlotKinds): SlotKinds = SlotKinds(
    running + o.running, held + o.held, pilot + o.pilot, copied + o.copied, waiting + o.waiting, deferred + o.deferred)
}

/**
 * Sums by class, or by another group, over jobs that ended. Their number is bounded, since each becomes names in a metrics system:
 * groups beyond the first ones share the row "other". Used under its owner's lock only.
 *
 * @param named the group of a job
 */
final class ClassSums private (named: JobMark => String, most: Int) {
  private val ended = mutable.LinkedHashMap.empty[String, ClassFigures]

  def begun(mark: JobMark): Unit = {
    val name = named(mark)
    if (!ended.contains(name)) ended(if (ended.size < most) name else ClassSums.Other) = ended.getOrElse(ClassSums.Other, ClassFigures())
  }

  def over(last: JobFacts): Unit = {
    val row = rowOf(last)
    ended(row) = ended.getOrElse(row, ClassFigures()) + ClassFigures.ofEnded(last)
  }

  /** The sums as they are now. */
  def totals: ClassTotals = new ClassTotals(ended.toMap, named)

  /** The sums with jobs that go on, by group. */
  def beside(living: Seq[JobFacts], nowMs: Long): Map[String, ClassFigures] = totals.beside(living, nowMs)

  private def rowOf(job: JobFacts): String = ClassSums.row(ended.contains, named(job.mark))
}

/** Sums by class, or by another group, over the jobs that had ended at one time. For any thread. */
final class ClassTotals private[status] (ended: Map[String, ClassFigures], named: JobMark => String) {

  /** The sums with jobs that go on, by group. */
  def beside(living: Seq[JobFacts], nowMs: Long): Map[String, ClassFigures] = {
    val now = living.groupMapReduce(job => ClassSums.row(ended.contains, named(job.mark)))(ClassFigures.ofLiving(_, nowMs))(_ + _)
    (ended.keySet ++ now.keySet).iterator
      .map(row => row -> (ended.getOrElse(row, ClassFigures()) + now.getOrElse(row, ClassFigures()))).toMap
  }
}

/** Sums by tenants' queue over jobs that ended. Files of queues bound their number. Used under its owner's lock only. */
final class QueueSums {
  private val ended = mutable.LinkedHashMap.empty[String, ClassFigures]

  def over(last: JobFacts): Unit = last.plan.queue.name.foreach { queue =>
    ended(queue) = ended.getOrElse(queue, ClassFigures()) + ClassFigures.ofEnded(last)
  }

  /** The sums as they are now. */
  def totals: QueueTotals = new QueueTotals(ended.toMap)
}

/** Sums by tenants' queue over the jobs that had ended at one time. For any thread. */
final class QueueTotals(ended: Map[String, ClassFigures] = Map.empty) {

  /** The sums with jobs that go on, by queue: those of a queue have the jobs of all queues below it. */
  def beside(living: Seq[JobFacts], nowMs: Long): Map[String, ClassFigures] = {
    val now = living.flatMap(job => job.plan.queue.name.map(_ -> ClassFigures.ofLiving(job, nowMs)))
    (ended.toList ++ now).flatMap { case (queue, sums) => QueueTree.lineOf(queue).map(_ -> sums) }.groupMapReduce(_._1)(_._2)(_ + _)
  }
}

/** Sums over all jobs, by class, by user and by tenants' queue. */
final class JobSums {
  val byClass: ClassSums = ClassSums.byClass()
  val byUser: ClassSums = ClassSums.byUser()
  val byQueue: QueueSums = new QueueSums

  def begun(mark: JobMark): Unit = Seq(byClass, byUser).foreach(_.begun(mark))
  def over(last: JobFacts): Unit = {
    Seq(byClass, byUser).foreach(_.over(last))
    byQueue.over(last)
  }
}

object ClassSums {
  val Most = 32
  val Other = "other"
  private val Unclassed = "none"

  private[status] def row(known: String => Boolean, name: String): String = if (known(name)) name else Other

  /** Jobs without a class are in the row "none". */
  def byClass(most: Int = Most): ClassSums = new ClassSums(_.jobClass.getOrElse(Unclassed), most)
  def byUser(most: Int = Most): ClassSums = new ClassSums(_.user.getOrElse(Unclassed), most)
}
