package org.apache.spark.scheduler.sparksched
package jobs

import scala.collection.mutable

import org.apache.spark.scheduler.TaskInfo
import schedcore.events.{Event, EventQueue}
import schedcore.ledger.Ledger
import schedcore.status.{ExecutorSnapshot, JobStories}

/**
 * The executors of this application and the attempts that run on their slots. Used under the scheduler's lock only.
 *
 * @param job the job with a key, if it is not over
 * @param attemptOver called for every attempt that is over, with its job's key, how long it ran, the time
 * @param slotsChanged called with a job's key when its attempts take so many slots more, or fewer
 * @param queued the jobs in the tenants' queues
 */
private[sparksched] final class Executors(
    ledger: Ledger, events: EventQueue, stories: JobStories, job: String => Option[RegisteredJob],
    attemptOver: (String, Long, Long) => Unit, slotsChanged: (String, Int) => Unit, queued: Option[QueuedJobs]) {

  private val executors = mutable.LinkedHashMap.empty[String, Event.ExecutorAdded]
  private val running = mutable.LinkedHashMap.empty[Long, Event.TaskLaunched]

  // ---- executors ---------------------------------------------------------------------------------------------

  def offered(executor: String, host: String, profile: Int, freeSlots: Int, nowMs: Long): Unit = {
    // The first offer with slots has all slots of the executor. Offers between its registration and its launch have none.
    if (freeSlots > 0 && !executors.contains(executor)) {
      val added = Event.ExecutorAdded(nowMs, executor, host, freeSlots, profile)
      executors(executor) = added
      queued.foreach(_.capacity(capacity._2))
      ledger.executorAdded(executor, freeSlots, profile)
      events.offer(added)
    }
    ledger.observeFree(executor, freeSlots, nowMs)
  }

  def removed(executor: String, reason: String, nowMs: Long): Unit = if (executors.contains(executor)) {
    executors -= executor
    running.valuesIterator.filter(_.executor == executor).toList.foreach(t => attemptEnded(t, "lost", nowMs))
    queued.foreach(_.capacity(capacity._2))
    ledger.executorRemoved(executor, nowMs)
    events.offer(Event.ExecutorRemoved(nowMs, executor, reason))
  }

  /** Executors with a resource profile. */
  def withProfile(profile: Int): Iterator[Event.ExecutorAdded] = executors.valuesIterator.filter(_.profile == profile)

  /** Slots of an executor, busy ones included. */
  def slotsOf(executor: String): Int = executors.get(executor).fold(0)(_.slots)

  /** Executors with slots that are free and not held, and how many. */
  def idle: Seq[(Event.ExecutorAdded, Int)] = executors.valuesIterator.map(e => e -> ledger.idleOn(e.executor)).filter(_._2 > 0).toList

  /** Executors and their slots. */
  def capacity: (Int, Int) = (executors.size, executors.valuesIterator.map(_.slots).sum)

  /** For a planner that knows nothing. */
  def inForce: Seq[Event] = executors.valuesIterator.toList

  // ---- attempts ----------------------------------------------------------------------------------------------

  def taskLaunched(
      jobKey: String, stage: String, task: Long, index: Int, executor: String, copy: Boolean, slots: Int,
      nowMs: Long, evictions: Int = 0): Unit = {
    val launched = Event.TaskLaunched(nowMs, jobKey, stage, task, index, executor, copy, slots, evictions)
    running(task) = launched
    changing(jobKey)(_.launched(slots, copy, nowMs))
    queued.foreach(_.launched(jobKey, executor, slots, nowMs))
    ledger.taskLaunched(task, stage, index, executor, copy, nowMs)
    events.offer(launched)
  }

  /**
   * @param evictedFor the job whose task takes its slots
   * @param evicted it was killed for others
   * @param forFloor the tenants' queue that it was killed for
   * @return how long it ran; 0 where it is unknown
   */
  def taskEnded(
      task: Long, outcome: String, nowMs: Long, evictedFor: Option[String] = None, evicted: Boolean = false,
      forFloor: Option[String] = None): Long =
    running.get(task).fold(0L) { t =>
      attemptEnded(t, outcome, nowMs, evictedFor, evicted, forFloor)
      ledger.taskEnded(task, outcome == "success", nowMs)
      nowMs - t.timeMs
    }

  /** A task runs again. @param ended the attempt that had ended well, if there was one: its result was lost */
  def taskUndone(job: String, stage: String, index: Int, ended: Option[TaskInfo], nowMs: Long): Unit = {
    ledger.taskUndone(stage, index, nowMs)
    ended.foreach(a => events.offer(Event.TaskEnded(nowMs, job, stage, a.taskId, index, a.executorId, 0L, "lost", a.speculative)))
  }

  private def attemptEnded(
      t: Event.TaskLaunched, outcome: String, nowMs: Long, evictedFor: Option[String] = None, evicted: Boolean = false,
      forFloor: Option[String] = None): Unit = {
    val ranMs = math.max(0L, nowMs - t.timeMs)
    running -= t.task
    queued.foreach(_.stopped(t.job, t.slots, ranMs, nowMs))
    attemptOver(t.job, ranMs, nowMs)
    changing(t.job)(_.ended(t, outcome == "success", evicted, nowMs))
    if (evicted) tellEviction(t, evictedFor, forFloor, nowMs)
    events.offer(Event.TaskEnded(
      nowMs, t.job, t.stage, t.task, t.index, t.executor, nowMs - t.timeMs, outcome, t.copy, evictedFor))
  }

  private def changing(key: String)(change: JobAttempts => Unit): Unit = job(key).foreach { j =>
    val before = j.attempts.runningSlots
    change(j.attempts)
    slotsChanged(key, j.attempts.runningSlots - before)
  }

  private def tellEviction(t: Event.TaskLaunched, by: Option[String], forFloor: Option[String], nowMs: Long): Unit = {
    def name(key: String): String = job(key).fold(key)(_.mark.name)
    val taker = by.map(name).orElse(forFloor.map(queue => s"queue $queue, which was below its floor"))
    stories.moved(t.job, nowMs, "lost", t.slots, taker.fold("to an eviction by the plan")("to " + _))
    by.foreach(stories.moved(_, nowMs, "took", t.slots, s"from ${name(t.job)}"))
  }

  /** Attempts of all jobs that run now, in the order of their launch. */
  def attempts: Iterator[Event.TaskLaunched] = running.valuesIterator

  /** Those of these jobs, by job. */
  def attemptsOf(jobs: Set[String]): Map[String, Seq[Long]] = attempts.filter(t => jobs(t.job)).toList.groupMap(_.job)(_.task)

  // ---- what people are shown ---------------------------------------------------------------------------------

  /** What runs on each executor's slots and whom the others are held for, to be added up later. */
  def snapshot(pilots: Map[String, Set[Int]]): ExecutorSnapshot = ExecutorSnapshot.copied(
    executors.valuesIterator, attempts, ledger.holds, job(_).map(_.mark.name), pilots)
}
