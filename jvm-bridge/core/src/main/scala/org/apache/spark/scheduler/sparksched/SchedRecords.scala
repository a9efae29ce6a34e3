package org.apache.spark.scheduler.sparksched

import org.apache.spark.SparkContext
import org.apache.spark.scheduler.sparksched.jobs.{QueuedJobs, Registry, UserGroups}
import org.apache.spark.scheduler.sparksched.planner.ReceivedPlans
import org.apache.spark.scheduler.sparksched.sql.{JobOrigins, WaitingQueries}
import schedcore.enforce.{HoldsOfQueues, QueueUsage}
import schedcore.events.{EventQueue, Questions, HeldSlotEvents}
import schedcore.ledger.{Ledger, LedgerListener, RecordedLedger}
import schedcore.plan.QueueSlots

/**
 * The records of one application: held slots, jobs and their running tasks, the plan in force, events for the planner and
 * questions to it. The queue of events and the questions have locks of their own; the scheduler's lock guards the rest.
 */
private[sparksched] final class SchedRecords(scheduler: SchedTaskScheduler, context: SparkContext) {
  private def settings = scheduler.settings

  val events: EventQueue = new EventQueue(
    settings.eventQueueCapacity, () => scheduler.nowMs,
    body => scheduler.synchronized(body(registry.state(scheduler.nowMs))), teaches = settings.planner.enabled,
    stateSent = () => heldSlotEvents.forget())
  val heldSlotEvents: HeldSlotEvents = new HeldSlotEvents(events)
  /** The tenants' queues. */
  val queues: Option[QueueUsage] = settings.queues.map(q => new QueueUsage(q.tree))
  /** The groups of tenants; None: the application has no queues. */
  val groups: Option[UserGroups] = queues.map(_ => UserGroups.of(context.conf))
  val ledger: Ledger = RecordedLedger.orPlain(
    queues.fold[LedgerListener](heldSlotEvents)(new HoldsOfQueues(heldSlotEvents, _)), settings.idle, context.startTime,
    context.conf.getOption(RecordedLedger.Setting))
  val plans = new ReceivedPlans(settings.planner.patienceMs)
  val queueSlots = new QueueSlots(plans)
  val registry: Registry = new Registry(
    settings, ledger, events, context.sparkUser, job => plans.starts.jobEnded(job), plans.attemptEnded(_, _, _), queueSlots.changed(_, _),
    queues.map(new QueuedJobs(_, ledger, (sparkJob, why) => if (scheduler.enforcing) scheduler.refuse(sparkJob, why), user => groups.flatMap(_.known(user)))))
  /** Owners of Spark jobs whose local properties do not name them. */
  val origins = new JobOrigins(context, registry.users)
  val tally = new SchedTally(registry, ledger, events, settings.mode)
  val waitingQueries = new WaitingQueries(context.conf.getOption(_), registry.stories.add(_, scheduler.nowMs, _))
  val questions = new Questions(() => events.nudge())
}
