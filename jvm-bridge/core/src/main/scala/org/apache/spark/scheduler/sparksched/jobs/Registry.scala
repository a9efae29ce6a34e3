package org.apache.spark.scheduler.sparksched
package jobs

import java.util.Properties

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.spark.scheduler.sparksched.planner.ReceivedPlans
import org.apache.spark.scheduler.sparksched.sql.SqlOutlook
import schedcore.PlainText
import schedcore.events.{Event, EventQueue}
import schedcore.ledger.{HeldIdle, HeldIdleSums, Ledger, PoolShare, Rule, TaskShape}
import schedcore.marks.{JobCrowds, JobMark, Origin, SessionUsers}
import schedcore.operators.{CalledJobs, Orders}
import schedcore.plan.Overlay
import schedcore.settings.{QueueTree, Settings}
import schedcore.status.{JobFacts, JobQueue, JobStories, JobSums, JobTimes, PlanForJob, SlotTimes, StageFacts, StageNames}

/**
 * The jobs and stages of this application. How jobs end is in [[JobEnds]], what runs where in [[Executors]].
 *
 * Translates Spark's callbacks into calls of the ledger and events for the planner, so that both have the same state.
 * Used under the scheduler's lock only.
 *
 * @param applicationUser owner of unmarked jobs
 * @param ended called for every job that is forgotten, with its key
 * @param attemptOver called for every attempt that is over, with its job's key, how long it ran, the time
 * @param slotsChanged called with a job's key when its attempts take so many slots more, or fewer
 * @param queued the jobs in the tenants' queues
 */
private[sparksched] final class Registry(
    settings: Settings, ledger: Ledger, events: EventQueue, applicationUser: String, ended: String => Unit,
    attemptOver: (String, Long, Long) => Unit, slotsChanged: (String, Int) => Unit = (_, _) => (), queued: Option[QueuedJobs] = None) {

  private val jobs = mutable.LinkedHashMap.empty[String, RegisteredJob]
  private val sparkJobs = new SparkJobs
  /** Whom servers know the users of sessions to be. */
  val users = new SessionUsers
  private val orders = new Orders(settings.mode)
  private val heldIdle = new HeldIdleSums
  private val crowds = new JobCrowds(settings.jobsPerUser)
  private var arrivals = 0
  /** What happened to each job, for people. */
  val stories = new JobStories
  val executors = new Executors(ledger, events, stories, jobs.get, attemptOver, slotsChanged, queued)
  val ends = new JobEnds(settings, users, jobs, jobEnded)
  val sums = new JobSums
  val warnings = new MarkWarnings

  // ---- jobs and stages ---------------------------------------------------------------------------------------

  def stageStarted(
      marked: JobMark, plans: ReceivedPlans, sparkJobId: Int, stage: String, callSite: String, tasks: Int, outlook: DagOutlook,
      barrier: Boolean, restartable: Boolean, shape: TaskShape, pool: Option[PoolShare], property: String => Option[String],
      nowMs: Long): StagePlace = {
    val mark = admitted(marked, sparkJobId)
    val name = PlainText.short(callSite) // a program may call its stages what it likes
    val job = jobs.getOrElseUpdate(mark.key, startJob(mark, plans, nowMs))
    warnings.log(mark)
    if (ends.stageBegan(mark, block = property(JobMark.Prefix + "id"))) close(job, "ended", nowMs)
    if (job.pool != pool) {
      job.pool = pool
      applyRule(job, plans, nowMs)
    }
    job.lastActiveMs = nowMs
    queued.foreach(_.stageBegan(job.mark, job.arrival, sparkJobId, nowMs))
    job.actions.began(sparkJobId)
    sparkJobs.began(sparkJobId, mark.key)
    val stageId = stage.takeWhile(_ != '.').toInt
    val index = job.indices.of(stageId)
    val last = isLast(mark, job, outlook, property)
    // A job that forbade reruns when it began forbids them for all of its stages.
    val again = restartable && mark.copies && job.mark.copies
    val slotsPerTask = shape.slots
    val started = Event.StageStarted(
      nowMs, mark.key, stage, name, index, tasks, outlook.nextTasks, last, barrier, again, slotsPerTask,
      outlook.written.map(_.partitions))
    job.stages(stage) = started
    val shown = StageNames.shown(name, mark.statement)
    job.stageNames(stage) = shown
    job.warned((job.mark.warnings ++ mark.warnings).distinct).foreach(warning => stories.add(mark.key, nowMs, s"mark: ${warning.sentence}"))
    ledger.stageStarted(
      mark.key, stage, index, tasks, outlook.nextSlots, last, barrier, nowMs, slotsPerTask, restartable = again,
      vertex = stageId.toString, successors = outlook.next,
      nextAtMost = outlook.written.map(_.partitions * slotsPerTask), profile = shape.profile,
      killMs = outlook.killMs, writes = outlook.written.map(_.id.toString), reads = outlook.reads.map(_.toString))
    events.offer(started)
    stories.add(mark.key, nowMs, s"stage $stage of $tasks tasks is ready: $shown")
    val hasDeadline = mark.deadlineMs.isDefined || job.mark.deadlineMs.isDefined
    StagePlace(mark.key, index, again, mark.runsOnce || job.mark.runsOnce, hasDeadline = hasDeadline, last = last)
  }

  /** The mark under which the Spark job counts: its own, or that of the job which has what is too much. */
  private def admitted(marked: JobMark, sparkJob: Int): JobMark = {
    // The history identifies jobs by user and name; without a marked user it is the application's.
    val mark = marked.copy(user = Some(userOf(marked)))
    if (jobs.contains(mark.key)) mark
    else sparkJobs.jobOf(sparkJob).filter(JobCrowds.isRest).flatMap(jobs.get(_)).fold(crowds.admitted(mark))(_.mark)
  }

  private def startJob(marked: JobMark, plans: ReceivedPlans, nowMs: Long): RegisteredJob = {
    val mark = queued.fold(marked)(_.limited(marked))
    crowds.began(mark)
    warnings.count(mark)
    warnings.log(mark)
    ends.began(mark, nowMs)
    ledger.jobStarted(mark.key, mark.marked, rule(mark, plans, None, mayHold = orders.reserves))
    events.offer(Event.JobStarted(nowMs, mark))
    arrivals += 1
    val waits = queued.flatMap(_.began(mark, arrivals, nowMs))
    ledger.jobRanked(mark.key, plans.rank(mark.key), arrivals)
    stories.submitted(mark.key, nowMs)
    (queued.flatMap(_.withoutGroups(mark)) ++ waits).foreach(stories.add(mark.key, nowMs, _))
    sums.begun(mark)
    new RegisteredJob(mark, arrivals, nowMs, orders.shadow)
  }

  /** Whether the tenant's job ends with this stage: only if no further Spark job can belong to it. */
  private def isLast(mark: JobMark, job: RegisteredJob, outlook: DagOutlook, property: String => Option[String]): Boolean =
    outlook.finalOfSparkJob && !outlook.mapStageJob && (mark.grouping match {
      case JobMark.BySparkJob => true
      // Broadcasts and subqueries are Spark jobs of their own inside one query.
      case JobMark.BySqlExecution => !outlook.partial && job.actions.sparkJobs.size == 1 && SqlOutlook.broadcasts(property).isEmpty
      case JobMark.ByMark | JobMark.ByBatch | JobMark.ByGroup => false
    })

  /** No task of the stage starts any more; some may take long to end. */
  def stageGivenUp(jobKey: String, stage: String, completed: Boolean, nowMs: Long): Unit = {
    ledger.stageEnded(stage, nowMs)
    jobs.get(jobKey).filter(_.giveUp(stage)).foreach(_ => events.offer(Event.StageEnded(nowMs, jobKey, stage, completed)))
  }

  /** The stage has no running and no waiting tasks, by success or otherwise. Spark says so again for each result that it reads then. */
  def stageEnded(jobKey: String, stage: String, completed: Boolean, nowMs: Long): Unit =
    jobs.get(jobKey).filter(_.stages.contains(stage)).foreach { job =>
      stageGivenUp(jobKey, stage, completed, nowMs)
      stories.add(jobKey, nowMs, s"stage $stage ${if (completed) "is done" else "ended without all of its tasks"}")
      job.remove(stage)
      job.actions.stageCutShort = !completed
      job.lastActiveMs = nowMs
      releaseIfFailed(job, nowMs)
      if (job.stages.isEmpty) job.closing.foreach(forget(job, _, nowMs))
    }

  /** @param failed it failed or was cancelled, so that its other stages will not start */
  def sparkJobEnded(sparkJobId: Int, failed: Boolean, nowMs: Long): Unit = sparkJobs.ended(sparkJobId).foreach { key =>
    jobs.get(key).foreach { job =>
      job.actions.ended(sparkJobId, failed)
      job.lastActiveMs = nowMs
      releaseIfFailed(job, nowMs)
      if (job.actions.sparkJobs.isEmpty && job.stages.nonEmpty) queued.foreach(q => toldByQueue(q.onlyServes(key, nowMs), nowMs))
      if (job.mark.grouping == JobMark.BySparkJob) jobEnded(key, "ended", nowMs)
    }
  }

  private def releaseIfFailed(job: RegisteredJob, nowMs: Long): Unit =
    if (job.actions.sparkJobs.isEmpty && job.actions.failed) ledger.actionFailed(job.mark.key, nowMs)

  /** The mark of a Spark job with these local properties. */
  def markOf(
      sparkJob: Int, property: String => Option[String], properties: Properties, nowMs: Long,
      origin: Origin = Origin()): JobMark = JobMark.from(
    property, sparkJob, settings.limits, users.ofGroup, nowMs,
    Option(properties).fold(Iterable.empty[String])(_.stringPropertyNames.asScala), origin)

  /**
   * The job is over. It may still have task sets: Spark cancels jobs, not stages, and another Spark job may need a stage
   * that this one submitted. So its holds are released now, and the job is forgotten, also by the planner, when its last
   * task set is gone.
   */
  def jobEnded(key: String, outcome: String, nowMs: Long): Unit = jobs.get(key).foreach { job =>
    if (job.stages.isEmpty) forget(job, outcome, nowMs) else close(job, outcome, nowMs)
  }

  private def close(job: RegisteredJob, outcome: String, nowMs: Long): Unit = {
    job.closing = Some(outcome)
    ledger.ruleOf(job.mark.key).foreach(rule => ledger.ruleChanged(job.mark.key, rule.copy(isolation = 0.0), nowMs))
  }

  private def forget(job: RegisteredJob, outcome: String, nowMs: Long): Unit = {
    val key = job.mark.key
    jobs -= key
    slotsChanged(key, -job.attempts.runningSlots)
    crowds.ended(job.mark)
    orders.jobEnded(key)
    ends.forgotten(job.mark)
    sparkJobs.forget(job.actions.sparkJobs)
    heldIdle.add(heldIdleOf(job, nowMs))
    val endedMs = if (job.mark.endIsInferred(outcome)) job.lastActiveMs else nowMs
    val last = facts(job, Nil, nowMs, Some(endedMs)).copy(outcome = Some(job.actions.outcome(outcome)), heldSlots = 0)
    stories.ended(last, nowMs)
    sums.over(last)
    ledger.jobEnded(key, nowMs)
    queued.foreach(q => toldByQueue(q.ended(key, nowMs), nowMs))
    events.offer(Event.JobEnded(nowMs, key, outcome, Some(endedMs).filter(_ != nowMs)))
    ended(key)
  }

  /** Slot time held idle so far, of jobs that ended and those that go on, by user and job name. */
  def heldIdleByOwner(nowMs: Long): Seq[HeldIdle] = heldIdle.beside(jobs.valuesIterator.map(heldIdleOf(_, nowMs)))

  private def heldIdleOf(job: RegisteredJob, nowMs: Long): HeldIdle = {
    val mark = job.mark
    val (heldMs, predictedMs) = (ledger.heldIdleMs(mark.key, nowMs), ledger.predictedIdleMs(mark.key))
    // An unnamed job is named by its key, which is unique.
    HeldIdle(
      mark.user.getOrElse(""), if (mark.name == mark.key) "" else mark.name, 1L,
      heldMs - job.inShadow.held.wouldHave(heldMs), predictedMs - job.inShadow.predicted.wouldHave(predictedMs))
  }

  /** How often a job was admitted after it had waited in its queue. */
  def admissions: Long = queued.fold(0L)(_.admitted)

  /** Cancels the jobs that have waited in their queues for too long, or for which there was no place and is none yet. */
  def refuseOverdue(nowMs: Long): Unit = queued.foreach { q =>
    toldByQueue(q.look(nowMs), nowMs)
    for (key <- q.due(nowMs); job <- jobs.get(key)) {
      q.cancel(key, job.mark.name, job.actions.sparkJobs)
      q.waits(key, 1).foreach(stories.add(key, nowMs, _))
    }
  }

  private def toldByQueue(said: Seq[(String, String)], nowMs: Long): Unit =
    said.foreach { case (key, sentence) => stories.add(key, nowMs, sentence) }

  /** Ends Spark jobs whose end nobody reported; see [[SparkJobs.lost]]. */
  def endMissing(known: Int => Boolean, nowMs: Long): Unit =
    sparkJobs.lost(known).foreach(sparkJobEnded(_, failed = false, nowMs))

  /** Slots on which attempts run now, by job. */
  def runningByJob: Iterator[(String, Int)] = jobs.iterator.map { case (key, j) => key -> j.attempts.runningSlots }

  /** Rank of the job's arrival among all jobs. */
  def arrival(job: String): Int = jobs.get(job).fold(Int.MaxValue)(_.arrival)

  // ---- rules -------------------------------------------------------------------------------------------------

  def priority(job: String): Int = ledger.ruleOf(job).fold(0)(_.priority)

  /** Whether the job may hold slots. For other jobs it does not matter which stage follows. */
  def mayHold(job: String): Boolean = ledger.ruleOf(job).exists(_.isolation > 0.0)

  def applyPlan(plans: ReceivedPlans, nowMs: Long): Unit = jobs.valuesIterator.foreach(applyRule(_, plans, nowMs))

  private def applyRule(j: RegisteredJob, plans: ReceivedPlans, nowMs: Long): Unit = {
    val key = j.mark.key
    val mayHold = j.closing.isEmpty && !orders.isOnHold(key) && orders.reserves
    // Of most jobs a plan says what the one before it said.
    val from = RuleSources(j.mark, j.pool, plans.forJob(key), orders.isNewer(key, plans), mayHold)
    if (!j.ruledBy.exists(from.sameAs)) {
      ledger.ruleChanged(key, rule(j.mark, plans, j.pool, mayHold), nowMs)
      j.ruledBy = Some(from)
    }
    ledger.jobRanked(key, plans.rank(key), j.arrival)
  }

  private def rule(mark: JobMark, plans: ReceivedPlans, pool: Option[PoolShare], mayHold: Boolean): Rule = Overlay.inForce(
    settings, Overlay.own(settings, mark.priority, mark.isolation, mark.copies, pool), plans.forJob(mark.key),
    changed = orders.isNewer(mark.key, plans), mayHold)

  // ---- what operators change -----------------------------------------------------------------------------------
  /** Marks of the jobs that people mean by a key, an id or a name. */
  def marksOf(job: String): Seq[JobMark] = CalledJobs.of(jobs.values.map(_.mark), job)(identity)
  def names: Seq[String] = jobs.valuesIterator.map(_.mark.name).toList.distinct
  def isOnHold(job: String): Boolean = orders.isOnHold(job)
  def hasStages(job: String): Boolean = jobs.get(job).exists(_.stages.nonEmpty)
  /** An operator cancels what runs of a job. */
  def cancelled(job: String): Unit = jobs.get(job).foreach(_.actions.cancel())
  /** Spark jobs of a job that are not over. */
  def sparkJobsOf(job: String): Seq[Int] = jobs.get(job).fold(Seq.empty[Int])(_.actions.sparkJobs.toList.sorted)
  /** An operator gives a job this mark, and lets nothing of it start where it is `held`. @return the event for the planner */
  def change(mark: JobMark, held: Boolean, by: String, plans: ReceivedPlans, nowMs: Long): Option[Event] =
    jobs.get(mark.key).map { job =>
      val event = orders.changed(mark, held, by, nowMs)
      job.mark = mark
      queued.foreach(_.ranked(mark))
      events.offer(event)
      orders.sentAs(mark.key, events.currentVersion)
      applyRule(job, plans, nowMs)
      event
    }

  /** An operator switches what holds for all jobs. */
  def switch(change: Event.SchedulingChanged, plans: ReceivedPlans): Unit = {
    val enforced = orders.enforces
    orders.switch(change)
    if (orders.enforces && !enforced) queued.foreach(q => toldByQueue(q.switchedOn(change.timeMs), change.timeMs))
    jobs.foreach { case (key, job) =>
      job.inShadow.held.switchTo(orders.shadow, ledger.heldIdleMs(key, change.timeMs))
      job.inShadow.predicted.switchTo(orders.shadow, ledger.predictedIdleMs(key))
    }
    events.offer(change)
    applyPlan(plans, change.timeMs)
  }

  /** The user whose a job with this mark is. */
  def userOf(mark: JobMark): String = mark.user.getOrElse(applicationUser)
  def usersOfJobs: Seq[String] = jobs.valuesIterator.flatMap(_.mark.user).toList.distinct

  /** The tenants' queues are these from now on. */
  def queuesChanged(tree: QueueTree, nowMs: Long): Unit =
    queued.foreach(q => toldByQueue(q.changed(tree, jobs.get(_).map(_.mark), nowMs), nowMs))

  // ---- what people are shown ---------------------------------------------------------------------------------

  /** Every job that is not over, with its active stages as `stages` has them. */
  def jobFacts(nowMs: Long)(stages: Event.StageStarted => Option[StageFacts]): Seq[JobFacts] =
    jobs.valuesIterator.map(j => facts(j, j.stages.valuesIterator.flatMap(s => stages(s).map(_.copy(name = j.stageNames.getOrElse(s.stage, s.name)))).toList, nowMs)).toList

  private def facts(job: RegisteredJob, stages: Seq[StageFacts], nowMs: Long, endedMs: Option[Long] = None): JobFacts = {
    val (key, held, use) = (job.mark.key, heldIdleOf(job, nowMs), job.attempts.use)
    val rule = ledger.ruleOf(key)
    val onPaperMs = ledger.heldIdleMs(key, nowMs) - held.heldMs
    JobFacts(
      job.shownMark, job.arrival, JobTimes(job.startedMs, job.attempts.begunMs, endedMs),
      rule.fold(job.mark.priority)(_.priority), rule.fold(0.0)(_.isolation), stages, job.attempts.runningSlots, ledger.heldBy(key), use.copiedSlots,
      SlotTimes(use.runMs(nowMs), held.heldMs, use.evictedMs, use.copiedMs(nowMs), onPaperMs,
        if (ledger.heldAtMostMs(key) > 0) held.predictedMs else 0L),
      onHold = orders.isOnHold(key), plan = PlanForJob(queue = JobQueue(queued.flatMap(_.pathOf(key)), place = queued.fold(0)(_.place(key)))))
  }

  /** As of [[QueuedJobs.waits]]. */
  def queueWaits(job: String, slots: Int, never: Option[String]): Option[String] = queued.flatMap(_.waits(job, slots, never))
  /** As of [[QueuedJobs.tooNarrow]]. */
  def queueTooNarrow(job: String, slots: Int, mayGrow: Boolean): Option[(String, Int)] = queued.flatMap(_.tooNarrow(job, slots, mayGrow))

  // ---- the whole state, for a planner that knows nothing -------------------------------------------------------

  def state(nowMs: Long): Seq[Event] =
    executors.inForce ++ orders.inForce ++
      jobs.valuesIterator.flatMap(j => (Event.JobStarted(j.startedMs, j.mark, j.attempts.begunMs) +: orders.withEnded(j.mark, nowMs)) ++
        j.stages.valuesIterator.map(stage => stage.copy(done = doneOf(j, stage)))) ++
      executors.attempts ++
      jobs.valuesIterator.flatMap(j => j.givenUp.map(Event.StageEnded(nowMs, j.mark.key, _, completed = false))) ++
      ledger.holds.flatMap { case (job, executor, slots, deadlineMs) =>
        Seq.fill(slots)(Event.SlotHeld(nowMs, job, "", executor, deadlineMs))
      }

  /** The ledger forgets a stage with its last task, but the results of its tasks are yet to be read, or slower copies to end. */
  private def doneOf(job: RegisteredJob, stage: Event.StageStarted): Seq[Int] =
    if (ledger.isActive(stage.stage)) ledger.doneTasks(stage.stage).toList.sorted
    else if (job.givenUp(stage.stage)) Nil
    else 0 until stage.tasks
}
