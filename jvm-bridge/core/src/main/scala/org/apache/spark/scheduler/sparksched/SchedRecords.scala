package org.apache.spark.scheduler.sparksched

import org.apache.spark.SparkContext
import org.apache.spark.scheduler.sparksched.jobs.{QueuedJobs, Registry, StatementUsers, UserGroups}
import org.apache.spark.scheduler.sparksched.planner.ReceivedPlans
import org.apache.spark.scheduler.sparksched.sql.{JobOrigins, WaitingQueries}
import schedcore.enforce.{HoldsOfQueues, QueueUsage}
import schedcore.events.{EventQueue, Questions, HeldSlotEvents}
import schedcore.ledger.{Ledger, RecordedLedger}
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
  // It counts slots of jobs also while there are no queues: these may come later.
  private val usage = new QueueUsage(settings.queues.tree)
  private val someQueues = Some(usage)
  /** The tenants' queues; None: the application has none now. */
  def queues: Option[QueueUsage] = if (usage.tree.isEmpty) None else someQueues
  /** How the queues find out whether a job needs slots all at once. */
  def countAtOnce(needs: String => Boolean): Unit = usage.needsAtOnce = needs
  /** The groups of tenants. */
  val groups: UserGroups = UserGroups.of(context.conf)
  val ledger: Ledger = RecordedLedger.orPlain(
    new HoldsOfQueues(heldSlotEvents, usage), settings.idle, context.startTime,
    context.conf.getOption(RecordedLedger.Setting))
  val plans = new ReceivedPlans(settings.planner.patienceMs)
  val queueSlots = new QueueSlots(plans)
  val registry: Registry = new Registry(
    settings, ledger, events, context.sparkUser, job => plans.starts.jobEnded(job), plans.attemptEnded(_, _, _), queueSlots.changed(_, _),
    Some(new QueuedJobs(usage, ledger, (sparkJob, why) => if (scheduler.enforcing) scheduler.refuse(sparkJob, why), groups.known(_))))
  /** Owners of Spark jobs whose local properties do not name them. */
  val origins = new JobOrigins(context, registry.users)
  /** Users of a Thrift server's statements. */
  val statementUsers = new StatementUsers(registry.users)
  val tally = new SchedTally(registry, ledger, events, settings.mode)
  val waitingQueries = new WaitingQueries(context.conf.getOption(_), registry.stories.add(_, scheduler.nowMs, _))
  val questions = new Questions(() => events.nudge())
}
