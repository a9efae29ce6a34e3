package org.apache.spark.scheduler.sparksched
package planner

import scala.collection.mutable

import schedcore.plan.{EndForecast, Plan, PlanInForce, Refusal}
import schedcore.status.PlanFacts

/**
 * The plan in force, if any, and what became of the others. Used under the scheduler's lock only.
 *
 * @param patienceMs how long a job that no plan knows may be kept waiting
 */
private[sparksched] final class ReceivedPlans(patienceMs: Long) extends PlanInForce(patienceMs) {
  private var newest = 0L
  private var accepted = 0L
  private var fallbacks = 0L
  private var lastMadeMs: Option[Long] = None
  private val refusals = mutable.LinkedHashMap.empty[String, Long]

  /** A new planner counts its plans from one again; the last one's plan stays in force until it expires. */
  def plannerStarted(): Unit = newest = 0L

  /** @param read what [[schedcore.plan.Plan.parse]] made of the planner's text, which takes longer than all that follows */
  def offer(read: Either[Refusal, Plan], currentVersion: Long, nowMs: Long): Either[Refusal, Plan] = {
    val answer = read.flatMap { plan =>
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
        lastMadeMs = Some(plan.about.madeMs)
        accepted += 1
      case Left(refusal) => refusals(refusal.code) = refusals.getOrElse(refusal.code, 0L) + 1
    }
    answer
  }

  /** Falls back to the configured rules when the plan's time is over; returns whether it did just now. */
  def expire(nowMs: Long): Boolean = {
    val over = inForce.exists(_.expiresMs <= nowMs)
    if (over) {
      put(None)
      fallbacks += 1
    }
    over
  }

  /** When the plan in force ends, if it keeps anybody waiting: nothing else triggers an offer then. */
  def endMs: Option[Long] = inForce.filter(_ => starts.active).map(_.expiresMs)

  /** Expected ends of jobs under the plan in force. */
  def forecasts: Map[String, EndForecast] = inForce.fold(Map.empty[String, EndForecast])(_.about.forecasts)

  /** How many jobs are before each of those that wait and whose end is unknown. */
  def queued: Map[String, Int] = inForce.fold(Map.empty[String, Int])(_.about.queued)

  def facts(policy: String): PlanFacts =
    PlanFacts(policy, inForce, lastMadeMs, accepted, refusals.valuesIterator.sum, fallbacks)

  def counters: Map[String, Long] =
    Map("plans_accepted" -> accepted, "plans_rejected" -> refusals.valuesIterator.sum, "plan_fallbacks" -> fallbacks) ++
      refusals.map { case (code, n) => s"plans_rejected_$code" -> n }
}
