package org.apache.spark.scheduler.sparksched
package jobs

import scala.collection.mutable

import schedcore.PlainText
import schedcore.enforce.QueueUsage
import schedcore.ledger.Ledger
import schedcore.marks.JobMark
import schedcore.settings.MarkWarning

/**
 * The application's jobs in the tenants' queues. Used under the scheduler's lock only.
 *
 * @param refuse cancels a Spark job of a job that its queue lets wait no longer, with a sentence that says why
 */
private[sparksched] final class QueuedJobs(queues: QueueUsage, ledger: Ledger, refuse: (Int, String) => Unit) {
  private var admissions = 0L
  // By refused job, its latest Spark job that was cancelled for that.
  private val cancelled = mutable.HashMap.empty[String, Int]

  /** Jobs so far that were admitted after they had waited: slots must be offered to them. */
  def admitted: Long = admissions

  def capacity(slots: Int): Unit = queues.capacity(slots)

  /** The mark with a priority that the job's queue allows. */
  def limited(mark: JobMark): JobMark = {
    val queue = queueOf(mark)
    val most = queues.tree.maxPriority(queue)
    if (mark.priority <= most) mark
    else mark.copy(priority = most, warnings = mark.warnings :+ MarkWarning(
      s"${JobMark.Prefix}priority is ${mark.priority} but max_priority of queue $queue is $most: lowered to it", limited = true))
  }

  /** A job begins. @return why it waits or is refused, if it is so */
  def began(mark: JobMark, arrival: Int, nowMs: Long): Option[String] =
    if (queues.entered(mark.key, queueOf(mark), mark.priority, arrival, nowMs)) waits(mark.key, 1)
    else Some(s"refused: ${noPlace(mark.key)}")

  private def queueOf(mark: JobMark): String =
    queues.tree.place(mark.user.getOrElse(""), mark.name, mark.jobClass.getOrElse(""))

  /** A stage of a Spark job begins. One of a refused job is cancelled, if its queue has no place for a later Spark job of it either. */
  def stageBegan(mark: JobMark, arrival: Int, sparkJob: Int, nowMs: Long): Unit = if (queues.refused(mark.key)) {
    val isLater = cancelled.get(mark.key).exists(_ != sparkJob)
    if (isLater && queues.entered(mark.key, queueOf(mark), mark.priority, arrival, nowMs)) cancelled -= mark.key
    else cancel(mark.key, sparkJob, s"job ${PlainText.of(mark.name)}: ${noPlace(mark.key)}")
  }

  private def cancel(job: String, sparkJob: Int, why: String): Unit = {
    cancelled(job) = sparkJob
    refuse(sparkJob, why)
  }

  private def noPlace(job: String): String = s"${full(job)}, and as many jobs wait as may"

  /** The jobs that have waited for too long by now. */
  def overdue(nowMs: Long): Seq[String] = queues.overdue(nowMs)

  /** Cancels a Spark job of one of them. */
  def late(job: String, name: String, sparkJob: Int): Unit =
    cancel(job, sparkJob, s"job ${PlainText.of(name)}: it waited for wait_timeout, and ${full(job)}")

  private def full(job: String): String =
    queues.fullQueue(job).fold("its queue has a place again")(use => s"queue ${use.spec.path} runs ${counted(use.jobs, "job")}, its most")

  private def counted(n: Int, what: String): String = if (n == 1) s"1 $what" else s"$n ${what}s"

  def ranked(mark: JobMark): Unit = queues.ranked(mark.key, mark.priority)

  /** @return the jobs that are admitted in its place */
  def ended(job: String): Seq[String] = {
    cancelled -= job
    val next = queues.left(job)
    admissions += next.size
    next
  }

  // ---- slots ---------------------------------------------------------------------------------------------------

  /** Before the ledger is told: the task takes the place of held slots of its queues where these are at their ceilings. */
  def launched(job: String, executor: String, slots: Int, nowMs: Long): Unit = {
    val own = math.min(slots, ledger.heldOn(executor, job))
    if (slots > own) queues.givesUp(job, slots - own, ledger.isSafe(_, job)).foreach(ledger.giveUp(_, nowMs))
    queues.launched(job, slots, own)
  }

  def stopped(job: String, slots: Int): Unit = queues.stopped(job, slots)

  // ---- what people are shown -----------------------------------------------------------------------------------

  def pathOf(job: String): Option[String] = queues.queueOf(job)

  /** Why the job gets no further slot, as far as its queue decides. @param slots that one of its tasks needs */
  def waits(job: String, slots: Int): Option[String] =
    if (!queues.admitted(job)) Some(s"waits to be admitted: ${full(job)}; number ${queues.position(job)} of those that wait")
    else queues.atCeiling(job, slots, ledger.isSafe(_, job))
      .map(queue => s"waits: queue $queue is at its ceiling of ${counted(queues.ceiling(queue), "slot")}")
}
