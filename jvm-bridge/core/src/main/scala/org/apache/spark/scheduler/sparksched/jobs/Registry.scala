package org.apache.spark.scheduler.sparksched
package jobs

import java.util.Properties

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.spark.scheduler.TaskInfo
import org.apache.spark.scheduler.sparksched.planner.ReceivedPlans
import org.apache.spark.scheduler.sparksched.sql.SqlOutlook
import schedcore.PlainText
import schedcore.events.{Event, EventQueue}
import schedcore.ledger.{HeldIdle, HeldIdleSums, Ledger, PoolShare, Rule, TaskShape}
import schedcore.marks.{JobCrowds, JobMark, MarkedBlocks, MarkSources, Origin, SessionUsers, SqlMarks}
import schedcore.operators.{CalledJobs, Orders}
import schedcore.plan.Overlay
import schedcore.settings.Settings
import schedcore.status.{ExecutorSnapshot, JobFacts, JobQueue, JobStories, JobSums, JobTimes, PlanForJob, SlotTimes, StageFacts, StageNames}

/**
 * The jobs, stages, tasks and executors of this application.
 *
 * Translates Spark's callbacks into calls of the ledger and events for the planner, so that both have the same state.
 * Used under the scheduler's lock only.
 *
 * @param applicationUser owner of unmarked jobs
 * @param ended called for every job that is forgotten, with its key
 * @param attemptOver called for every attempt that is over, with its job's key, how long it ran, the time
 * @param queued the jobs in the tenants' queues
 */
private[sparksched] final class Registry(
    settings: Settings, ledger: Ledger, events: EventQueue, applicationUser: String, ended: String => Unit,
    attemptOver: (String, Long, Long) => Unit, queued: Option[QueuedJobs] = None) {

  private val jobs = mutable.LinkedHashMap.empty[String, RegisteredJob]
  private val sparkJobs = new SparkJobs
  private val executors = mutable.LinkedHashMap.empty[String, Event.ExecutorAdded]
  private val running = mutable.LinkedHashMap.empty[Long, Event.TaskLaunched]
  private val blocks = new MarkedBlocks
  // The newest job of each series.
  private val newest = mutable.HashMap.empty[String, String]
  /** Whom servers know the users of sessions to be. */
  val users = new SessionUsers
  private val sqlMarks = new SqlMarks
  private val orders = new Orders(settings.mode)
  private val heldIdle = new HeldIdleSums
  private val crowds = new JobCrowds(settings.jobsPerUser)
  private var arrivals = 0
  /** What happened to each job, for people. */
  val stories = new JobStories
  val sums = new JobSums
  val warnings = new MarkWarnings

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

  def executorRemoved(executor: String, reason: String, nowMs: Long): Unit = if (executors.contains(executor)) {
    executors -= executor
    running.valuesIterator.filter(_.executor == executor).toList.foreach(t => attemptEnded(t, "lost", nowMs))
    queued.foreach(_.capacity(capacity._2))
    ledger.executorRemoved(executor, nowMs)
    events.offer(Event.ExecutorRemoved(nowMs, executor, reason))
  }

  /** Executors with a resource profile. */
  def executorsWith(profile: Int): Iterator[Event.ExecutorAdded] = executors.valuesIterator.filter(_.profile == profile)

  /** Slots of an executor, busy ones included. */
  def slotsOf(executor: String): Int = executors.get(executor).fold(0)(_.slots)

  /** Executors with slots that are free and not held, and how many. */
  def idleExecutors: Seq[(Event.ExecutorAdded, Int)] = executors.valuesIterator.map(e => e -> ledger.idleOn(e.executor)).filter(_._2 > 0).toList

  // ---- jobs and stages ---------------------------------------------------------------------------------------

  def stageStarted(
      marked: JobMark, plans: ReceivedPlans, sparkJobId: Int, stage: String, callSite: String, tasks: Int, outlook: DagOutlook,
      barrier: Boolean, restartable: Boolean, shape: TaskShape, pool: Option[PoolShare], property: String => Option[String],
      nowMs: Long): StagePlace = {
    val mark = admitted(marked, sparkJobId)
    val name = PlainText.short(callSite) // a program may call its stages what it likes
    val job = jobs.getOrElseUpdate(mark.key, startJob(mark, plans, nowMs))
    mark.session.foreach(sqlMarks.ran(_, mark.key))
    warnings.log(mark)
    property(JobMark.Prefix + "id").foreach(blocks.stageStarted)
    if (blocks.isOver(mark.key)) close(job, "ended", nowMs)
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
    val mark = marked.copy(user = marked.user.orElse(Some(applicationUser)))
    if (jobs.contains(mark.key)) mark
    else sparkJobs.jobOf(sparkJob).filter(JobCrowds.isRest).flatMap(jobs.get(_)).fold(crowds.admitted(mark))(_.mark)
  }

  private def startJob(marked: JobMark, plans: ReceivedPlans, nowMs: Long): RegisteredJob = {
    val mark = queued.fold(marked)(_.limited(marked))
    crowds.began(mark)
    warnings.count(mark)
    warnings.log(mark)
    mark.series.foreach { series =>
      seriesEnded(series, nowMs)
      newest(series) = mark.key
    }
    ledger.jobStarted(mark.key, mark.marked, rule(mark, plans, None, mayHold = true))
    events.offer(Event.JobStarted(nowMs, mark))
    arrivals += 1
    val waits = queued.flatMap(_.began(mark, arrivals, nowMs))
    ledger.jobRanked(mark.key, plans.rank(mark.key), arrivals)
    stories.submitted(mark.key, nowMs)
    waits.foreach(stories.add(mark.key, nowMs, _))
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

  def sqlExecutionEnded(id: Long, failed: Boolean, nowMs: Long): Unit = {
    val key = JobMark.keyOfSql(id.toString)
    jobs.get(key).foreach(_.actions.queryFailed = Some(failed))
    jobEnded(key, "ended", nowMs)
  }

  /** The owner of a mark says that its block is over. @return whether any stage had it */
  def markEnded(id: String, nowMs: Long): Boolean = {
    val had = blocks.ended(id)
    jobEnded(JobMark.keyOf(PlainText.bounded(id)), "ended", nowMs)
    had
  }

  /** Ends the newest job of the series: the series ended, or its next job starts. */
  def seriesEnded(series: String, nowMs: Long): Unit = newest.remove(series).foreach(jobEnded(_, "ended", nowMs))

  /** Ends a micro-batch and the jobs that were marked inside it by name. */
  def batchEnded(query: String, batch: String, nowMs: Long): Unit = {
    val key = JobMark.keyOfBatch(query, batch)
    jobs.keysIterator.filter(k => k == key || k.startsWith(s"$key-")).toList.foreach(jobEnded(_, "ended", nowMs))
  }

  /** A streaming query is over. */
  def streamEnded(query: String, nowMs: Long): Unit = {
    val series = JobMark.seriesOf(query)
    newest.keysIterator.filter(s => s == series || s.startsWith(s"$series-")).toList.foreach(seriesEnded(_, nowMs))
  }

  /**
   * A statement of a SQL session is over. A mark that was removed from the session's settings ends the job that the session's
   * executions had, not whatever job the settings name.
   *
   * @param setting the session's settings as they are now
   */
  def sqlSessionSeen(session: String, setting: String => Option[String], nowMs: Long): Unit = {
    val held = MarkSources.Keys.flatMap(key => setting(key).map(key -> _)).toMap
    val mark = JobMark.from(held.get, -1, settings.limits, origin = Origin.of(session, held, users.of(session)))
    sqlMarks.seen(session, Some(mark).filter(_.marked).map(_.key)).foreach(jobEnded(_, "ended", nowMs))
  }

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
    crowds.ended(job.mark)
    orders.jobEnded(key)
    job.mark.series.filter(newest.get(_).contains(key)).foreach(newest -= _)
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

  /**
   * The application ends, and whoever is done is over. A job of which a stage or a Spark job is still there was cut short,
   * and nothing is said of it.
   *
   * @param active whether a Spark job is not done
   */
  def endFinished(active: Int => Boolean, nowMs: Long): Unit =
    jobs.filter { case (_, j) => j.stages.isEmpty && !j.actions.sparkJobs.exists(active) }
      .keysIterator.toList.foreach(jobEnded(_, "ended", nowMs))

  /** Jobs that nobody ends by name and that have been idle for the gap are over. */
  def forgetIdle(nowMs: Long): Unit = {
    val over = jobs.filter { case (_, j) =>
      j.idle && !j.mark.endsByCall && nowMs - j.lastActiveMs > settings.defaults.gapMs
    }
    over.keysIterator.toList.foreach(jobEnded(_, "idle", nowMs))
  }

  // ---- tasks -------------------------------------------------------------------------------------------------

  def taskLaunched(
      job: String, stage: String, task: Long, index: Int, executor: String, copy: Boolean, slots: Int,
      nowMs: Long, evictions: Int = 0): Unit = {
    val launched = Event.TaskLaunched(nowMs, job, stage, task, index, executor, copy, slots, evictions)
    running(task) = launched
    jobs.get(job).foreach(_.attempts.launched(slots, copy, nowMs))
    queued.foreach(_.launched(job, executor, slots, nowMs))
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
    running -= t.task
    queued.foreach(_.stopped(t.job, t.slots, math.max(0L, nowMs - t.timeMs)))
    attemptOver(t.job, math.max(0L, nowMs - t.timeMs), nowMs)
    jobs.get(t.job).foreach(_.attempts.ended(t, outcome == "success", evicted, nowMs))
    if (evicted) tellEviction(t, evictedFor, forFloor, nowMs)
    events.offer(Event.TaskEnded(
      nowMs, t.job, t.stage, t.task, t.index, t.executor, nowMs - t.timeMs, outcome, t.copy, evictedFor))
  }

  private def tellEviction(t: Event.TaskLaunched, by: Option[String], forFloor: Option[String], nowMs: Long): Unit = {
    def name(key: String): String = jobs.get(key).fold(key)(_.mark.name)
    stories.moved(t.job, nowMs, "lost", t.slots, by.map(name).orElse(forFloor.map(q => s"queue $q, which was below its floor")).fold("to an eviction by the plan")("to " + _))
    by.foreach(stories.moved(_, nowMs, "took", t.slots, s"from ${name(t.job)}"))
  }

  /** Slots on which attempts run now, by job. */
  def runningByJob: Iterator[(String, Int)] = jobs.iterator.map { case (key, j) => key -> j.attempts.runningSlots }

  /** Rank of the job's arrival among all jobs. */
  def arrival(job: String): Int = jobs.get(job).fold(Int.MaxValue)(_.arrival)

  /** The launches of all running attempts, in their order. */
  def launches: Iterator[Event.TaskLaunched] = running.valuesIterator

  /** Attempts of a job that run now, in the order of their launch. */
  def runningTasks(job: String): Seq[Long] = running.valuesIterator.filter(_.job == job).map(_.task).toList

  // ---- rules -------------------------------------------------------------------------------------------------

  def priority(job: String): Int = ledger.ruleOf(job).fold(0)(_.priority)

  def applyPlan(plans: ReceivedPlans, nowMs: Long): Unit = jobs.valuesIterator.foreach(applyRule(_, plans, nowMs))

  private def applyRule(j: RegisteredJob, plans: ReceivedPlans, nowMs: Long): Unit = {
    val mayHold = j.closing.isEmpty && !orders.isOnHold(j.mark.key)
    ledger.ruleChanged(j.mark.key, rule(j.mark, plans, j.pool, mayHold), nowMs)
    ledger.jobRanked(j.mark.key, plans.rank(j.mark.key), j.arrival)
  }

  private def rule(mark: JobMark, plans: ReceivedPlans, pool: Option[PoolShare], mayHold: Boolean): Rule = Overlay.inForce(
    settings, Overlay.own(settings, mark.priority, mark.isolation, mark.copies, pool), plans.forJob(mark.key),
    changed = orders.isNewer(mark.key, plans), mayHold && orders.reserves)

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

  // ---- what people are shown ---------------------------------------------------------------------------------

  /** Every job that is not over, with its active stages as `stages` has them. */
  def jobFacts(nowMs: Long)(stages: Event.StageStarted => Option[StageFacts]): Seq[JobFacts] =
    jobs.valuesIterator.map(j => facts(j, j.stages.valuesIterator.flatMap(s => stages(s).map(_.copy(name = j.stageNames.getOrElse(s.stage, s.name)))).toList, nowMs)).toList

  private def facts(job: RegisteredJob, stages: Seq[StageFacts], nowMs: Long, endedMs: Option[Long] = None): JobFacts = {
    val (key, held, use) = (job.mark.key, heldIdleOf(job, nowMs), job.attempts.use)
    val rule = ledger.ruleOf(key)
    val onPaperMs = ledger.heldIdleMs(key, nowMs) - held.heldMs
    JobFacts(
      job.mark.copy(warnings = job.warnings), job.arrival, JobTimes(job.startedMs, job.attempts.begunMs, endedMs),
      rule.fold(job.mark.priority)(_.priority), rule.fold(0.0)(_.isolation), stages, job.attempts.runningSlots, ledger.heldBy(key), use.copiedSlots,
      SlotTimes(use.runMs(nowMs), held.heldMs, use.evictedMs, use.copiedMs(nowMs), onPaperMs,
        if (ledger.heldAtMostMs(key) > 0) held.predictedMs else 0L),
      onHold = orders.isOnHold(key), plan = PlanForJob(queue = JobQueue(queued.flatMap(_.pathOf(key)))))
  }

  /** Why its queue lets a job have no further slot. @param slots that one of its tasks needs */
  def queueWaits(job: String, slots: Int): Option[String] = queued.flatMap(_.waits(job, slots))

  /** What runs on each executor's slots and whom the others are held for, to be added up later. */
  def executorSnapshot(pilots: Map[String, Set[Int]]): ExecutorSnapshot = ExecutorSnapshot.copied(
    executors.valuesIterator, running.valuesIterator, ledger.holds, jobs.get(_).map(_.mark.name), pilots)

  /** Executors and their slots. */
  def capacity: (Int, Int) = (executors.size, executors.valuesIterator.map(_.slots).sum)

  // ---- the whole state, for a planner that knows nothing -------------------------------------------------------

  def state(nowMs: Long): Seq[Event] =
    executors.valuesIterator.toList ++ orders.inForce ++
      jobs.valuesIterator.flatMap(j => (Event.JobStarted(j.startedMs, j.mark, j.attempts.begunMs) +: orders.withEnded(j.mark, nowMs)) ++
        j.stages.valuesIterator.map(stage => stage.copy(done = doneOf(j, stage)))) ++
      running.valuesIterator ++
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
