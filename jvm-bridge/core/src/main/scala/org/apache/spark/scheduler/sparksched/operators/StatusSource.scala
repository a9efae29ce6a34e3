package org.apache.spark.scheduler.sparksched
package operators

import java.util.concurrent.TimeUnit

import scala.collection.mutable
import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.ObjectMapper
import com.fasterxml.jackson.databind.node.ObjectNode
import org.apache.spark.SparkContext
import org.apache.spark.internal.Logging
import org.apache.spark.scheduler.sparksched.jobs.Registry
import org.apache.spark.util.Utils
import schedcore.{Pace, PlainText}
import schedcore.events.Event
import schedcore.ledger.Ledger
import schedcore.operators.CalledJobs
import schedcore.plan.Start
import schedcore.status._

/**
 * The status document of a live application, made for each request, and the look at all jobs that their stories are written
 * from: once a second, or less often if the number of jobs is so large that it would take over a thousandth of the time.
 *
 * Under the scheduler's lock it only copies records; the text is made outside of the lock. Nothing here decides anything, so
 * a failure here is logged and answered as one, and scheduling goes on. Where scheduling itself has failed open, its books
 * are not read any more: they may be half-written.
 */
private[sparksched] final class StatusSource(
    scheduler: SchedTaskScheduler, context: SparkContext, registry: Registry, ledger: Ledger, planner: () => PlannerFacts)
    extends Logging {
  import StatusSource._

  @volatile private var failed = false

  /** For Spark's metrics system. */
  val metrics: SchedMetrics = new SchedMetrics(() => brief)

  /** The document with all jobs that are not over. */
  def document: StatusDocument = made(withStories = false)(_.jobs)

  /**
   * The document with the job of this key, or else those of this id or name, and their stories, those that ended lately included;
   * it has no jobs where there are none.
   */
  def documentOf(job: String): StatusDocument = made(withStories = true)(c => CalledJobs.of(c.ended ++ c.jobs, job)(_.mark))

  @volatile private var book: Option[EventLogWriter] = None

  /** From now on, ended jobs and summaries are also written to the event log. */
  def logTo(events: EventLogWriter): Unit = book = Some(events)

  /** The application ends: logs the last ended jobs and the state of the others. */
  def finishLog(): Unit = book.foreach { events =>
    book = None
    val document = this.document
    events.finish(document, registry.stories.takeEnded(), document.jobs.map(job => job -> registry.stories.of(job.mark.key)))
  }

  /** The document for a page, and the jobs that ended lately, the latest last. */
  def overview: (StatusDocument, Seq[JobFacts]) = {
    val living = document
    val why = new Why(Nil, 0, living.nowMs)
    // Their stories have a lock of their own.
    val ended = if (living.application.scheduling) registry.stories.endedJobs else Nil
    (living.copy(whys = living.whys ++ ended.map(job => job.mark.key -> why.of(job))), ended)
  }

  /** The tenants' queues as they are in force, as JSON; `tree` is null where the application has none. */
  def queueTree: String = {
    val root = mapper.createObjectNode().put("schema", StatusDocument.Schema)
    val q = scheduler.steering.queuesInForce
    root.put("version", q.version).put("from", PlainText.of(q.from)).put("since_ms", q.sinceMs)
    if (q.text.isEmpty) root.putNull("tree") else root.set[ObjectNode]("tree", mapper.readTree(q.text))
    val warnings = root.putArray("warnings")
    scheduler.steering.warnings.foreach(warnings.add(_))
    root.toString
  }

  /** Without the part on each executor. */
  private def brief: StatusDocument = made(withStories = false, withExecutors = false, withReasons = false)(_.jobs)

  private val pace = new Pace(LookShare, MostPauseNs)

  /** Recent use of the executors' slots; empty if no UI shows it. */
  val timeline: SlotTimeline = new SlotTimeline

  /** Writes the changes of all jobs since the last look into their stories, if one is due. Called about once a second by one thread. */
  def look(): Unit = if (!failed && pace.due(System.nanoTime())) try {
    val startNs = System.nanoTime()
    val sampled = context.ui.isDefined && timeline.due(scheduler.nowMs)
    val document = made(withStories = false, withExecutors = sampled, withReasons = false)(_.jobs)
    if (sampled) timeline.sample(document.executors, document.nowMs)
    registry.stories.forgetOld(document.nowMs)
    document.jobs.foreach(registry.stories.look(_, document.nowMs, document.plans.inForce))
    warnOf(neverStarting(document.jobs))
    metrics.looked(document)
    val ended = registry.stories.takeEnded()
    book.foreach(_.look(document.copy(executors = Nil), ended))
    if (document.jobs.sizeIs > FewJobs) pace.done(startNs, System.nanoTime())
  } catch {
    case NonFatal(thrown) =>
      failed = true
      timeline.clear()
      logWarning("spark_sched: the stories of jobs can no longer be written", thrown)
  }

  private var warned = Set.empty[String]
  /** Into the driver's log, each once. */
  private def warnOf(never: Seq[String]): Unit = {
    never.filterNot(warned).foreach(said => logWarning(s"spark_sched: $said"))
    warned = never.toSet
  }

  /** Of stages that can never start as things are. */
  private def neverStarting(jobs: Seq[JobFacts]): Seq[String] =
    jobs.flatMap(job => job.plan.queue.never.map(said => PlainText.of(s"job ${job.mark.shown}: $said")))

  private def shortened(said: Seq[String]): Seq[String] =
    said.take(MostWarnings) ++ Option.when(said.sizeIs > MostWarnings)(s"${said.size - MostWarnings} further stages can never start")

  private def made(withStories: Boolean, withExecutors: Boolean = true, withReasons: Boolean = true)(
      chosen: Copied => Seq[JobFacts]): StatusDocument = {
    val (facts, list, stories) =
      if (scheduler.failOpen.isOpen) (Copied.nothing(scheduler.nowMs), Nil, Map.empty[String, Seq[StoryEntry]])
      else scheduler.synchronized {
        val facts = copied(withStories, withExecutors)
        val list = chosen(facts)
        (facts, list, if (withStories) list.map(j => j.mark.key -> registry.stories.of(j.mark.key)).toMap else Map.empty[String, Seq[StoryEntry]])
      }
    val application = ApplicationFacts(
      Option(context.applicationId).getOrElse(""), context.appName, context.sparkUser, context.startTime,
      scheduling = !scheduler.failOpen.isOpen, facts.executors, facts.slots,
      facts.jobs.map(_.runningSlots).sum, facts.jobs.map(_.heldSlots).sum, facts.keptFreeSlots)
    lazy val why = new Why(facts.jobs, facts.slots, facts.nowMs)
    StatusDocument(
      facts.nowMs, application, planner(), facts.plans, list, stories, facts.onExecutors.facts,
      if (scheduler.failOpen.isOpen) scheduler.failOpen.counters else scheduler.countersAtHand,
      facts.classes.beside(facts.jobs, facts.nowMs), scheduler.steering.reservationsPaused, scheduler.steering.mode,
      facts.users.beside(facts.jobs, facts.nowMs),
      if (withReasons) list.map(job => job.mark.key -> why.of(job)).toMap else Map.empty, facts.queuesWithSums,
      scheduler.steering.warnings ++ shortened(neverStarting(facts.jobs)))
  }

  /** All that the scheduler's lock is needed for; to be called under it. */
  private[sparksched] def copied(ended: Boolean, onExecutors: Boolean): Copied = {
    val now = scheduler.nowMs
    val (executors, slots) = registry.executors.capacity
    val living = jobs(now)
    Copied(
      now, executors, slots, scheduler.records.plans.facts(scheduler.steering.policy), living, if (ended) registry.stories.endedJobs else Nil,
      if (onExecutors) registry.executors.snapshot(pilotsOf(living)) else ExecutorSnapshot.Empty, registry.sums.byClass.totals,
      registry.sums.byUser.totals,
      math.min(registry.executors.idle.map(_._2).sum, living.map(_.slotsForLater).sum), queues, registry.sums.byQueue.totals)
  }

  private def queues: Seq[QueueFigures] = scheduler.records.queues.toList.flatMap { q =>
    q.uses.map { use =>
      val path = use.spec.path
      QueueFigures(
        path, use.spec.ceiling.map(_ => q.ceiling(path)), use.running, use.held, use.peak, use.jobs, use.waiting, use.refused,
        q.shares.filter(_ => use.spec.floor.isDefined).map(_.floor(use)), use.slotMs, q.shares.map(_ => use.spec.weight.getOrElse(1.0)),
        day = use.spec.daySlotMs.map(most => DaySlotTime(use.day.slotMs, most, q.freesMs(use))))
    }
  }

  /** Every job that is not over, as it stands under the plan in force. */
  private def jobs(nowMs: Long): Seq[JobFacts] = {
    val plans = scheduler.records.plans
    val found = registry.jobFacts(nowMs)(stageFacts)
    val (forecasts, queued) = (plans.forecasts, plans.queued)
    lazy val capacity = registry.executors.capacity
    lazy val names = found.map(j => j.mark.key -> j.mark.name).toMap
    val holders = mutable.HashMap.empty[(Int, Option[String], Option[String], Int), Seq[String]]
    lazy val holding = found.filter(_.heldSlots > 0)
    def heldUpBy(job: JobFacts): Seq[String] = {
      def ask = ledger.heldUpBy(job.mark.key, 1).toList.map(key => names.getOrElse(key, key)).sorted
      // Where queues have floors or weights, these count, too.
      val queue = scheduler.records.queues.filter(_.shares.isDefined).flatMap(_.queueOf(job.mark.key))
      // Holds refuse all jobs of one priority and one pool alike that come after the same holders, but for those that hold some
      // themselves.
      val pool = ledger.ruleOf(job.mark.key).flatMap(_.pool).map(_.name)
      if (job.heldSlots > 0) ask
      else {
        val before = holding.count(h => h.priority == job.priority && ledger.isBefore(h.mark.key, job.mark.key))
        holders.getOrElseUpdate((job.priority, pool, queue, before), ask)
      }
    }
    val starts = found.map { job =>
      job -> (if (plans.starts.active && scheduler.enforcing) plans.starts.peek(job.mark.key, nowMs) else Start.Now)
    }
    val kept = starts.collect { case (job, Start.Planned) if job.waitingSlots > 0 => job.mark.name }
    starts.map { case (job, start) =>
      val key = job.mark.key
      val stuck = scheduler.enforcing && start == Start.Now && job.runningSlots == 0 && job.waitingSlots > 0 && ledger.heldSlots > 0
      job.copy(
        plan = PlanForJob(start, plans.forJob(key), forecasts.get(key), if (start == Start.Spare) kept else Nil, queued.get(key),
          if (scheduler.enforcing) queueOf(job, capacity) else job.plan.queue),
        heldUpBy = if (stuck) heldUpBy(job) else Nil)
    }
  }

  private def queueOf(job: JobFacts, capacity: => (Int, Int)): JobQueue = {
    val waiting = job.stages.filter(_.waiting > 0)
    val never = waiting.flatMap(stage => tooFewSlots(job.mark.key, stage.atOnce, capacity).map { case (limit, remedy) => stage.neverStarts(limit, remedy) })
    val none = never.headOption.filter(_ => never.size == waiting.size)
    job.plan.queue.copy(waits = waiting.map(_.atOnce).minOption.flatMap(registry.queueWaits(job.mark.key, _, none)), never = never)
  }

  private def tooFewSlots(job: String, wanted: Int, capacity: => (Int, Int)): Option[(String, String)] =
    if (wanted <= 1) None else StatusSource.tooFewSlots(wanted, capacity, asksForExecutors)(registry.queueTooNarrow(job, wanted, _))
  private lazy val asksForExecutors = Utils.isDynamicAllocationEnabled(context.conf)

  private def stageFacts(stage: Event.StageStarted): Option[StageFacts] = scheduler.taskSetOf(stage.stage).map(_.facts.copy(name = stage.name))

  /** Pilots that run, by stage that waits for them. */
  private def pilotsOf(living: Seq[JobFacts]): Map[String, Set[Int]] =
    living.flatMap(_.stages).filter(_.pilots > 0).flatMap(s => scheduler.taskSetOf(s.stage).map(s.stage -> _.runningPilots)).toMap
}

private[sparksched] object StatusSource {
  private val mapper = new ObjectMapper

  /** Of stages that can never start. */
  val MostWarnings = 5
  /** A look at so few takes less than its share, but for the first ones, whose code is not compiled yet. */
  val FewJobs = 100
  /** The share of the time that looks may take. */
  val LookShare = 0.001
  /** Between two looks. Metrics are read without a look for a little longer. */
  val MostPauseNs: Long = TimeUnit.SECONDS.toNanos(10)

  /**
   * Who never has so many slots at once, and how many, and what to do. There may be more slots later, and with them a higher ceiling that is
   * a share, before the first executor came and where Spark asks for executors.
   *
   * @param capacity the executors, and their slots
   * @param tooNarrow a queue whose ceiling is too low, with the ceiling, given whether there may be more slots later
   */
  def tooFewSlots(wanted: Int, capacity: (Int, Int), asksForExecutors: Boolean)(
      tooNarrow: Boolean => Option[(String, Int)]): Option[(String, String)] = {
    val (executors, slots) = capacity
    val mayGrow = executors == 0 || asksForExecutors
    tooNarrow(mayGrow).map { case (queue, most) => s"queue $queue has at most $most" -> "raise the ceiling" }
      .orElse(Option.when(slots < wanted && !mayGrow)(s"the executors have $slots" -> "add executors"))
  }

  /** What was copied under the lock. */
  final case class Copied(
      nowMs: Long, executors: Int, slots: Int, plans: PlanFacts, jobs: Seq[JobFacts], ended: Seq[JobFacts],
      onExecutors: ExecutorSnapshot, classes: ClassTotals, users: ClassTotals, keptFreeSlots: Int = 0,
      queues: Seq[QueueFigures] = Nil, queueSums: QueueTotals = new QueueTotals) {

    def queuesWithSums: Seq[QueueFigures] = if (queues.isEmpty) Nil else {
      val sums = queueSums.beside(jobs, nowMs)
      queues.map(q => q.copy(sums = sums.getOrElse(q.queue, ClassFigures())))
    }
  }

  object Copied {
    def nothing(nowMs: Long): Copied =
      Copied(nowMs, 0, 0, PlanFacts("", None, None, 0L, 0L, 0L), Nil, Nil, ExecutorSnapshot.Empty, ClassSums.byClass().totals, ClassSums.byUser().totals)
  }
}
