package org.apache.spark.scheduler.sparksched

import scala.collection.mutable

import schedcore._

/**
 * The plan in force, if any, and what became of the others. Used under the scheduler's lock only.
 *
 * @param patienceMs how long a job that no plan knows may be kept waiting
 */
private[sparksched] final class PlanBook(patienceMs: Long) {
  private var current: Option[Plan] = None
  private var newest = 0L
  private var accepted = 0L
  private var fallbacks = 0L
  private val refusals = mutable.LinkedHashMap.empty[String, Long]
  private val queues = new QueueTurns
  /** Who may start what under the plan in force. */
  val starts = new StartGate(patienceMs)

  /** A new planner counts its plans from one again; the last one's plan stays in force until it expires. */
  def plannerStarted(): Unit = newest = 0L

  def offer(json: String, currentVersion: Long, nowMs: Long): Either[Refusal, Plan] = {
    val answer = Plan.parse(json).flatMap { plan =>
      if (plan.snapshot > currentVersion)
        Left(Refusal("stale_snapshot", s"snapshot ${plan.snapshot} is ahead of $currentVersion"))
      else if (plan.number <= newest) Left(Refusal("stale_snapshot", s"plan ${plan.number} came after plan $newest"))
      else if (plan.expiresMs <= nowMs) Left(Refusal("expired", s"the plan was valid until ${plan.expiresMs}"))
      else Right(plan)
    }
    answer match {
      case Right(plan) =>
        put(Some(plan))
        newest = plan.number
        accepted += 1
      case Left(refusal) => refusals(refusal.code) = refusals.getOrElse(refusal.code, 0L) + 1
    }
    answer
  }

  private def put(plan: Option[Plan]): Unit = {
    current = plan
    starts.put(plan)
    queues.put(plan.fold(PlanBook.NoQueues)(_.queueWeights))
  }

  /** Falls back to the configured rules when the plan's time is over; returns whether it did just now. */
  def expire(nowMs: Long): Boolean = {
    val over = current.exists(_.expiresMs <= nowMs)
    if (over) {
      put(None)
      fallbacks += 1
    }
    over
  }

  /** Jobs whose running tasks the plan in force takes away. */
  def evicted: Iterable[String] = current.fold(Iterable.empty[String])(_.jobs.collect { case (job, p) if p.evict => job })

  /** The pilots of a stage of a job, by its index; the same object as long as the plan is. */
  def pilots(job: String, stage: Int): IndexedSeq[Int] =
    forJob(job).flatMap(_.pilots).filter(_.stage == stage).fold(PlanBook.NoPilots)(_.tasks)

  /** Whether jobs that the plan in force does not know wait for the next one. */
  def newJobsWait: Boolean = current.exists(_.newJobsWait)

  def forJob(job: String): Option[JobPlan] = current.flatMap(_.jobs.get(job))

  /** Order among jobs of equal priority: the plan's, where it orders at all; jobs it does not know come last. */
  def rank(job: String): Int = current match {
    case Some(plan) if plan.ordered => plan.jobs.get(job).fold(Int.MaxValue)(_.rank)
    case _ => 0
  }

  /** The job's queue under the plan in force, if that has queues. */
  def queue(job: String): Option[Int] =
    current.filter(_.queueWeights.nonEmpty).flatMap(p => p.jobs.get(job).flatMap(_.queue).filter(_ < p.queueWeights.size))

  /** Which queue is next where jobs have so many slots in use; empty where the plan in force has no queues. */
  def queueTurns(running: Iterator[(String, Int)]): IndexedSeq[QueueTurn] =
    current.filter(_.queueWeights.nonEmpty).fold(IndexedSeq.empty[QueueTurn]) { plan =>
      val slots = new Array[Int](plan.queueWeights.size)
      running.foreach { case (job, n) => queue(job).foreach(q => slots(q) += n) }
      queues.turns(slots(_))
    }

  /** An attempt of the job took its slots for `ranMs` until now. */
  def attemptEnded(job: String, ranMs: Long, nowMs: Long): Unit = queue(job).foreach(queues.stopped(_, ranMs, nowMs))

  def counters: Map[String, Long] =
    Map("plans_accepted" -> accepted, "plans_rejected" -> refusals.valuesIterator.sum, "plan_fallbacks" -> fallbacks) ++
      refusals.map { case (code, n) => s"plans_rejected_$code" -> n }
}

private[sparksched] object PlanBook {
  private val NoPilots = IndexedSeq.empty[Int]
  private val NoQueues = IndexedSeq.empty[Double]
}
