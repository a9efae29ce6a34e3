package org.apache.spark.scheduler.sparksched

import org.apache.spark.SparkContext
import org.apache.spark.scheduler.sparksched.jobs.Registry
import org.apache.spark.scheduler.sparksched.planner.PlanBook
import org.apache.spark.scheduler.sparksched.sql.{JobOrigins, WaitingQueries}
import schedcore.events.{EventQueue, Questions, SlotNews}
import schedcore.ledger.{Ledger, RecordedLedger}

/**
 * The books of one application: who holds which slots, the jobs and what runs of them, the plan in force, and what the planner
 * is told and asked. The queue of events and the questions have locks of their own; the rest is used under the scheduler's.
 */
private[sparksched] final class SchedBooks(scheduler: SchedTaskScheduler, context: SparkContext) {
  private def settings = scheduler.settings

  val events: EventQueue = new EventQueue(
    settings.eventQueueCapacity, () => scheduler.nowMs,
    body => scheduler.synchronized(body(registry.state(scheduler.nowMs))), teaches = settings.planner.enabled,
    stateTold = () => slotNews.forget())
  val slotNews: SlotNews = new SlotNews(events)
  val ledger: Ledger = RecordedLedger.orPlain(
    slotNews, settings.idle, context.startTime, context.conf.getOption(RecordedLedger.Setting))
  val plans = new PlanBook(settings.planner.patienceMs)
  val registry: Registry = new Registry(
    settings, ledger, events, context.sparkUser, job => plans.starts.jobEnded(job), plans.attemptEnded(_, _, _))
  /** Whose Spark jobs are, as far as their local properties do not say so themselves. */
  val origins = new JobOrigins(context, registry.users)
  val tally = new SchedTally(registry, ledger, events, settings.mode)
  val waitingQueries = new WaitingQueries(context.conf.getOption(_), registry.stories.tell(_, scheduler.nowMs, _))
  val questions = new Questions(() => events.nudge())
}
