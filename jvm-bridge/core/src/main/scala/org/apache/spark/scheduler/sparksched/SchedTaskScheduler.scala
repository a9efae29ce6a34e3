package org.apache.spark.scheduler.sparksched

import java.nio.ByteBuffer

import org.apache.spark.{SparkContext, SparkEnv, SparkException, TaskKilled, TaskState}
import org.apache.spark.TaskState.TaskState
import org.apache.spark.scheduler._
import org.apache.spark.scheduler.sparksched.backend.{ManagedScheduler, PlannedAllocation, SlotDemand, StockScheduler}
import org.apache.spark.scheduler.sparksched.jobs.{JobEndListener, JobEnds, StageArrivals, StagePlace}
import org.apache.spark.scheduler.sparksched.offers._
import org.apache.spark.scheduler.sparksched.operators.{PlannerSwitch, StatusSource, StatusViews, Steering}
import org.apache.spark.scheduler.sparksched.planner.{PlannerEntry, PlannerProcess, PlannerPythons}
import org.apache.spark.scheduler.sparksched.sql.MapOutput
import org.apache.spark.util.Utils
import schedcore.SteadyClock
import schedcore.ledger.{HeldIdle, ShadowCounters}
import schedcore.plan.{Plan, Refusal}
import schedcore.settings.{Modes, Settings}

/**
 * Spark's scheduler with the ledger in its offer path.
 *
 * Everything here happens under this object's lock, like in TaskSchedulerImpl. A freed slot is decided upon inside
 * `statusUpdate`, because the backend offers it again right after; the result of the task comes much later. No call
 * waits for Python: rules are applied here, plans only replace rules.
 */
private[spark] final class SchedTaskScheduler(
    context: SparkContext, maxTaskFailures: Int, isLocal: Boolean, val settings: Settings, stock: Option[StockScheduler] = None,
    // Spark's own times, and the deadlines of marks, are the machine's clock's.
    private[sparksched] val steadyClock: SteadyClock = new SteadyClock,
    groupTasks: (DAGScheduler, TaskSet) => Option[Int] = SparkLine.groupTasks(_, _))
    extends ManagedScheduler(context, maxTaskFailures, isLocal, stock) {
  private[sparksched] def nowMs: Long = steadyClock.nowMs

  /** Every call of Spark's into this scheduler's own code goes through this. */
  private[sparksched] val failOpen = new FailOpen(
    context.conf.getOption("spark.testing.schedThrowAt"), () => putAside())

  // TaskSchedulerImpl asks for the pool only after construction.
  override val rootPool: RankedPool = new RankedPool(
    schedulingMode, failOpen, () => enforcing, round.rank(_), () => round.ranksAt, () => round.only)

  private[sparksched] val records = new SchedRecords(this, context)
  import records.{events, heldSlotEvents, ledger, plans, questions, registry, tally, waitingQueries}

  private val round = new OfferRound(
    this, records, () => rootPool.getSortedTaskSetQueue, () => rootPool.inOrder, () => rootPool.unsorted,
    Option.when(context.conf.getBoolean("spark.testing.schedInvariants", defaultValue = false))(
      new IdleSlotCheck(plans, settings.planner.patienceMs)))
  val slots = new SlotCounts(context)
  private val planner = new PlannerProcess(
    settings.planner, PlannerPythons(context.conf, settings.planner), new PlannerEntry(this), context.appName, () => plannerStarted())
  /** What is going on, for people. */
  val status: StatusSource = new StatusSource(this, context, registry, ledger, () => planner.facts(steering.mode))
  /** What operators change. */
  val steering: Steering = new Steering(
    this, context, registry, new PlannerSwitch(() => planner.replace(), () => planner.start()))
  private val views = new StatusViews(context, settings, status, steering)

  /** Whether anything but Spark's own scheduling applies. */
  def enforcing: Boolean = steering.enforcing

  private val arrivals = new StageArrivals(this, records, slots.shape, afterChange(_), groupTasks)
  private val revival = new Revival(() => backend)
  private val evictions = new Evictions(
    registry, managerOf, job => round.waitingSlots(job), round.openSlots(_, _), () => records.queues, () => enforcing, killTaskAttempt(_, interruptThread = true, _))

  // ---- life --------------------------------------------------------------------------------------------------

  private[sparksched] val timer = new WakeTimer(at => failOpen("timer", ())(wake(at)))

  override def start(): Unit = {
    if (settings.planner.enabled && settings.mode != Modes.Off) startPlanner()
    super.start()
    revival.start()
    SparkSched.register(context, this)
    views.attach()
    steering.start()
    records.origins.start()
    failOpen("start", ()) {
      context.listenerBus.addToManagementQueue(new JobEndListener(this))
      timer.everySecond(failOpen("timer", ()) { everySecond(); askForExecutors(); status.look() })
    }
  }

  override def postStartHook(): Unit = {
    views.applicationKnown()
    allocation = PlannedAllocation.enter(context, this)
    super.postStartHook()
  }

  override def stop(exitCode: Int): Unit = {
    AllSteps(
      () => { revival.stop(); timer.stop(); steering.stop(); records.groups.stop() },
      () => timer.join(), // A running look would write into the event log after that is closed.
      () => allocation.foreach(_.stop()),
      () => arrivals.sqlOutlook.stop(),
      () => stopPlanner(),
      () => views.detach(),
      () => SparkSched.unregister(context),
      () => ShadowCounters.report(countersAtHand).foreach(said => logWarning(s"spark_sched shadow report: $said")))
    super.stop(exitCode)
  }

  /** Scheduling has failed open: holds and plans no longer refuse slots to anybody. */
  private def putAside(): Unit = {
    timer.stop()
    Utils.tryLogNonFatalError(arrivals.sqlOutlook.stop())
    val ending = new Thread(() => Utils.tryLogNonFatalError(try askForExecutors() finally planner.stop(patient = false)), "spark-sched-end")
    ending.setDaemon(true)
    ending.start()
    revival.look()
    reviveOffers()
  }

  private def reviveOffers(): Unit = if (enforcing) revival.ask()

  /** Refused settings stop the application before any executor starts. It waits for settings that only the planner can check. */
  private def startPlanner(): Unit = {
    val refused = failOpen("planner", Option.empty[String]) {
      planner.start()
      if (settings.planner.judges) planner.refusal() else None
    }
    refused.foreach(sentence => throw new SparkException(sentence))
  }

  /** Ends finished jobs first, so that the planner learns from them: the listener bus may not have delivered their ends. */
  private def stopPlanner(): Unit = {
    var drained = false
    try drained = planner.drain { () =>
      synchronized {
        heldSlotEvents.report()
        registry.ends.applicationEnds(id => dagScheduler.activeJobs.exists(_.jobId == id), nowMs)
      }
      events.finish()
    } finally planner.stop(patient = drained) // also after an exception: its process must not outlive the application
  }

  // ---- stages ------------------------------------------------------------------------------------------------

  /**
   * Learns the task set's user first, and the groups of that where queues ask for them: not under the lock, since it may take a moment.
   */
  override def submitTasks(taskSet: TaskSet): Unit = {
    failOpen("users", ())(Option(taskSet.properties).flatMap(p => Option(p.getProperty(SparkContext.SPARK_JOB_GROUP_ID)))
      .foreach(records.statementUsers.await))
    if (records.queues.exists(_.tree.usesGroups)) failOpen("groups", ())(records.groups.learn(synchronized(arrivals.userOf(taskSet))))
    super.submitTasks(taskSet)
  }

  override private[scheduler] def createTaskSetManager(taskSet: TaskSet, maxTaskFailures: Int): TaskSetManager = {
    val manager = SchedTaskSetManager.of(this, taskSet, maxTaskFailures, healthTrackerOpt)
    failOpen("task set", ())(synchronized {
      // Spark starts nothing more of its earlier attempts, and does not see that one of which nothing runs is over.
      (0 until taskSet.stageAttemptId).flatMap(taskSetManagerForAttempt(taskSet.stageId, _)).foreach {
        case earlier: SchedTaskSetManager => earlier.suspend(); case _ => }
      round.add(manager)
    })
    manager
  }

  /** Called in the DAGScheduler's event loop, by the new task set manager. */
  def stageStarted(stage: String, taskSet: TaskSet, barrier: Boolean): StagePlace =
    failOpen("task set", StagePlace.None)(synchronized(arrivals.place(stage, taskSet, barrier)))

  override def taskSetFinished(manager: TaskSetManager): Unit = synchronized {
    super.taskSetFinished(manager)
    failOpen("task set finished", ())(ours(manager).foreach { m =>
      round.remove(m)
      waitingQueries.stageEnded(m.stage)
      tally.shadow.stageEnded(m.stage)
      m.place.output.foreach(arrivals.sqlOutlook.ended)
      offeringFreed(registry.stageEnded(m.job, m.stage, m.completed, nowMs))
    })
  }

  // ---- offers ------------------------------------------------------------------------------------------------

  override def resourceOffers(offers: IndexedSeq[WorkerOffer], isAllFreeResources: Boolean): Seq[Seq[TaskDescription]] =
    synchronized {
      val now = nowMs
      failOpen("offers", ()) {
        revival.offered(isAllFreeResources)
        endDue(now)
        offers.foreach { o =>
          registry.executors.offered(o.executorId, o.host, o.resourceProfileId, slots.free(o), now)
          if (round.excludes(o)) ledger.executorExcluded(o.executorId, now)
        }
      }
      // The round guards its own steps: what Spark has placed must reach the backend whatever happens then.
      val freed = heldSlotEvents.freed
      val tasks = round.run(offers, isAllFreeResources, now)(super.resourceOffers(_, _))
      failOpen("offers over", ()) {
        val gaveWay = enforcing && round.breakGangCycles()
        heldSlotEvents.report()
        check(offers, tasks)
        if (gaveWay || round.offersAgain(tasks.exists(_.nonEmpty)) || heldSlotEvents.freed > freed) reviveOffers()
        rearm()
      }
      tasks
    }

  /** Whether the current offers are of slots that nobody took before. */
  def givesSpare: Boolean = round.givesSpare

  /** Whether a task of the task set may take a slot of the executor, besides its `pending` tasks that are not launched yet. */
  def mayTake(manager: SchedTaskSetManager, executor: String, pending: => Int): Boolean = failOpen("slot", true) {
    val may = steering.mode == Modes.Off || round.mayTake(manager, executor, pending)
    if (!may) tally.offersRefused += 1
    may || !enforcing
  }

  /** The last pilot of a stage is over: its other tasks may take the idle slots of all executors. */
  def pilotsOver(): Unit = reviveOffers()

  /** Executors with held slots first, so that their owner takes those before it takes others. */
  override protected def shuffleOffers(offers: IndexedSeq[WorkerOffer]): IndexedSeq[WorkerOffer] = {
    val shuffled = super.shuffleOffers(offers)
    failOpen("order", shuffled) {
      if (ledger.heldSlots == 0 || !enforcing) shuffled
      else {
        val (holding, others) = shuffled.partition(o => ledger.heldOn(o.executorId) > 0)
        holding ++ others
      }
    }
  }

  // ---- tasks -------------------------------------------------------------------------------------------------

  def taskLaunched(manager: SchedTaskSetManager, info: TaskInfo): Unit = failOpen("launch", ()) {
    round.launched(manager, info)
    registry.executors.taskLaunched(
      manager.job, manager.stage, info.taskId, info.index, info.executorId, info.speculative, manager.slotsPerTask,
      nowMs, manager.evictionsOf(info.index))
    plans.starts.launched(manager.job, events.currentVersion, manager.slotsPerTask)
  }

  override def statusUpdate(tid: Long, state: TaskState, serializedData: ByteBuffer): Unit = synchronized {
    val manager = if (TaskState.isFinished(state)) taskIdToTaskSetManager.get(tid) else null
    super.statusUpdate(tid, state, serializedData)
    if (manager != null) failOpen("end of task", ()) {
      // It may have ended by itself before the kill arrived.
      val evicted = evictions.ended(tid, killed = state == TaskState.KILLED)
      val outcome = if (state == TaskState.FINISHED) "success" else if (state == TaskState.KILLED) "killed" else "failed"
      val now = nowMs
      val freed = heldSlotEvents.freed
      val makesRoom = ours(manager).exists(m => round.makesRoom(m.job)) // The task's end may end its job, which is in no queue then.
      val ranMs = registry.executors.taskEnded(tid, outcome, now, evicted.flatMap(_.beneficiary), evicted.isDefined, evicted.flatMap(_.queue))
      ours(manager).foreach { m =>
        if (state == TaskState.FINISHED) m.endedWell(tid)
        m.taskInfos.get(tid).foreach(info => m.attemptOver(info.index))
        if (evicted.isDefined) {
          m.evicted(tid)
          evictions.lost(m.slotsPerTask * ranMs)
        }
      }
      // The backend offers only this executor next, but slots of others may have been freed, or copies may be due there.
      if (heldSlotEvents.freed > freed || makesRoom || (enforcing && ledger.anyCopiesDue(now))) reviveOffers()
      tally.shadow.look(now)
      rearm()
    }
  }

  /** No executor has heard of the attempt, so that none will say that it ended. */
  def neverRan(manager: SchedTaskSetManager, tid: Long): Unit = synchronized {
    val why = SparkEnv.get.closureSerializer.newInstance().serialize[Any](TaskKilled("it was too large to send"))
    if (taskIdToTaskSetManager.get(tid) eq manager) statusUpdate(tid, TaskState.KILLED, why)
  }

  /** A task of a stage that writes a shuffle is done. */
  def outputWritten(job: String, output: MapOutput, index: Int, status: MapStatus): Unit =
    if (registry.mayHold(job)) arrivals.sqlOutlook.written(output, index, status)

  /** Asked for each task set with each slot that becomes free: few jobs hold any. */
  def wantsCopies(job: String, stage: String): Boolean = failOpen("copies", false)(
    ledger.heldSlots > 0 && enforcing && ledger.heldBy(job) > 0 && ledger.wantsCopies(stage, nowMs))
  def pickCopy(stage: String, executor: String): Option[Int] =
    if (ledger.heldSlots == 0 || !enforcing) None else ledger.pickCopy(stage, executor, nowMs)

  /** A copy failed. @param said a sentence for the job's story, the first time in a stage */
  def copyFailed(job: String, said: Option[String]): Unit = {
    tally.copiesFailed += 1
    said.foreach(registry.stories.add(job, nowMs, _))
  }

  def stageGivenUp(m: SchedTaskSetManager): Unit = afterChange(registry.stageGivenUp(m.job, m.stage, m.completed, nowMs))
  def taskDoneElsewhere(stage: String, index: Int): Unit = afterChange(ledger.taskDoneElsewhere(stage, index, nowMs))
  def holdsIdle(job: String, executor: String): Boolean = enforcing && ledger.heldOn(executor, job) > 0

  // ---- executors ---------------------------------------------------------------------------------------------

  override def executorLost(executorId: String, reason: ExecutorLossReason): Unit = synchronized {
    super.executorLost(executorId, reason)
    // Spark may report a loss twice, or while it only suspects one: the ledger follows Spark's own records.
    failOpen("executor", ())(if (!isExecutorAlive(executorId)) registry.executors.removed(executorId, reason.toString, nowMs))
  }

  override def executorDecommission(executorId: String, decommissionInfo: ExecutorDecommissionInfo): Unit = synchronized {
    super.executorDecommission(executorId, decommissionInfo)
    failOpen("executor", ())(ledger.executorDraining(executorId, nowMs))
  }

  /** An executor with held slots counts as busy for dynamic allocation, but not within a round of offers. */
  override def isExecutorBusy(executorId: String): Boolean = synchronized {
    super.isExecutorBusy(executorId) || failOpen("executor", false) {
      val kept = !round.underWay && ledger.heldOn(executorId) > 0
      if (kept) tally.executorsKept += 1
      kept && enforcing
    }
  }

  /** Tells dynamic allocation how many executors the plan needs; it asks the cluster in a thread of its own. */
  private[sparksched] def askForExecutors(): Unit = allocation.foreach(
    _.askAgain(failOpen("executor", Map.empty[Int, SlotDemand])(synchronized(round.cappedDemands(nowMs)))))

  // ---- jobs --------------------------------------------------------------------------------------------------

  /** Cancels a Spark job, in Spark's own thread. */
  def refuse(sparkJob: Int, why: String): Unit = context.cancelJob(sparkJob, why)

  def sparkJobEnded(sparkJobId: Int, failed: Boolean): Unit = afterChange {
    registry.sparkJobEnded(sparkJobId, failed, nowMs)
    groupsOver(_ != sparkJobId)
  }

  /** Slots that were kept for groups of Spark jobs that are over are for others. */
  private def groupsOver(active: Int => Boolean): Unit = if (round.groups.keepOnly(active)) reviveOffers()

  /** A job that is more than one Spark job may be over. The time is in milliseconds. */
  def jobOver(how: (JobEnds, Long) => Unit): Unit = afterChange(how(registry.ends, nowMs))

  /** @return whether any stage had this id as its mark; true where scheduling has failed open, for then nobody has seen */
  def endJob(id: String): Boolean = {
    var seen = true
    jobOver { (ends, nowMs) => seen = ends.markEnded(id, nowMs) }
    seen
  }

  /** Applies an operator's change and offers slots again, since waiting jobs may start now. */
  def steered[A](failed: => A)(change: Long => A): A = failOpen("jobs", failed)(synchronized {
    val done = change(nowMs)
    revival.ask()
    rearm()
    done
  })

  /** Shadow mode begins or ends. */
  def shadowed(now: Boolean, nowMs: Long): Unit = tally.shadow.switchTo(now, tally.sums(nowMs))

  private def afterChange(change: => Unit): Unit = failOpen("jobs", ())(synchronized(offeringFreed(change)))

  /** Offers slots again if the change frees held ones: nothing else triggers an offer then. */
  private def offeringFreed(change: => Unit): Unit = {
    val before = (heldSlotEvents.freed, registry.admissions)
    change
    if ((heldSlotEvents.freed, registry.admissions) != before) reviveOffers()
    rearm()
  }

  // ---- time --------------------------------------------------------------------------------------------------

  private def rearm(): Unit = if (ledger.heldSlots > 0 || plans.starts.active) {
    val now = nowMs
    (ledger.nextWakeMs(now) ++ plans.starts.nextStartMs(now) ++ plans.endMs).minOption.foreach(timer.arm(_, now))
  }

  /** Expires holds and the plan. Called wherever the result matters, so that a late timer delays nobody. */
  private def endDue(nowMs: Long): Unit = {
    val planOver = plans.expire(nowMs)
    if (planOver) registry.applyPlan(plans, nowMs)
    // Jobs that the plan or a hold kept waiting may start.
    if ((ledger.heldSlots > 0 && ledger.expire(nowMs)) || planOver) reviveOffers()
  }

  /** Periodic work: ends jobs whose owner reported no end, among others. */
  private def everySecond(): Unit = afterChange {
    val now = nowMs
    timer.look(now)
    revival.look()
    endDue(now)
    heldSlotEvents.report()
    tally.shadow.look(now)
    registry.endMissing(dagScheduler.jobIdToActiveJob.contains, now)
    groupsOver(dagScheduler.jobIdToActiveJob.contains)
    registry.ends.endIdle(now)
    registry.refuseOverdue(now)
    if (enforcing && round.lacksHeldSlots) reviveOffers()
    if (steering.mode != Modes.Off) records.queues.foreach(evictions.forFloors(_, round.wantedByQueue, now))
    evictions.keep(taskIdToTaskSetManager.containsKey(_))
    if (enforcing) waitingQueries.look(stage => taskSetOf(stage).exists(m => m.runningTasks == 0 && m.facts.waiting > 0), now)
  }

  /** Nothing else triggers an offer when a hold expires, a task becomes old enough for a copy, or a planned start comes. */
  private def wake(atMs: Long): Unit = synchronized {
    timer.fired(atMs)
    val now = nowMs
    endDue(now)
    if (ledger.anyCopiesDue(now) || plans.starts.active) reviveOffers()
    rearm()
  }

  // ---- plans and counters ------------------------------------------------------------------------------------

  /**
   * A new planner starts without any state. Called when its process is launched and again when it introduces itself: requests
   * of the previous planner may arrive in between, after its death.
   */
  def plannerStarted(): Unit = {
    events.restart()
    questions.plannerStarted()
    synchronized(plans.plannerStarted())
  }

  def planOffered(json: String): String = failOpen("plan", "rejected: failed_open: Spark's own scheduling is in force") {
    planTaken(planRead(json))
  }

  /** What a planner's text says. It takes most of the time, and needs no lock. */
  private[sparksched] def planRead(json: String): Either[Refusal, Plan] = {
    val read = Plan.parse(json)
    synchronized(plans.inForce).fold(read)(earlier => read.map(_.sharing(earlier)))
  }

  private[sparksched] def planTaken(plan: Either[Refusal, Plan]): String = synchronized {
    // The new plan may allow what a hold or the previous plan refused.
    val refusing = ledger.heldSlots > 0 || plans.starts.active
    val answer = plans.offer(plan, events.currentVersion, nowMs)
    if (answer.isRight) {
      registry.applyPlan(plans, nowMs)
      if (steering.mode != Modes.Off) evictions.evict(plans.evicted)
      if (steering.mode != Modes.Off) plans.preemptions.foreach { case (job, victims) => evictions.preempt(job, victims) }
      if (revival.started && (refusing || plans.starts.active)) reviveOffers()
      rearm()
    }
    answer.fold(r => s"rejected: ${r.code}: ${r.sentence}", _ => "accepted")
  }

  /** The task set of an active stage. */
  private[sparksched] def taskSetOf(stage: String): Option[SchedTaskSetManager] = round.taskSetOf(stage)
  /** The task set of an attempt that has not ended. */
  private def managerOf(tid: Long): Option[SchedTaskSetManager] = ours(taskIdToTaskSetManager.get(tid))
  private def ours(manager: TaskSetManager): Option[SchedTaskSetManager] = Option(manager).collect { case m: SchedTaskSetManager => m }

  private def check(offers: IndexedSeq[WorkerOffer], placed: Seq[Seq[TaskDescription]]): Unit =
    round.violations(offers, placed).foreach { sentence =>
      tally.violations += 1
      logError(s"spark_sched invariant: $sentence")
    }

  /** Slot time held idle so far by user and job name. */
  def heldIdleByOwner: Seq[HeldIdle] = failOpen("counters", Seq.empty[HeldIdle])(synchronized(registry.heldIdleByOwner(nowMs)))

  /** All counters, with the result of a check of all records, which visits every job on every executor. */
  def counters: Map[String, Long] = failOpen.counters ++ failOpen("counters", Map.empty[String, Long])(
    synchronized(countersAtHand ++ Map("invariant_violations" -> (tally.violations + ledger.violations().size))))

  /** The counters without that check, for callers that handle exceptions themselves. */
  def countersAtHand: Map[String, Long] =
    failOpen.counters ++ synchronized(tally.counters(nowMs) ++ evictions.counters ++ plans.counters ++ planner.counters)
}
