package org.apache.spark.scheduler.sparksched
package offers

import org.apache.spark.{ExceptionFailure, FetchFailed, SparkEnv, TaskFailedReason, TaskKilled}
import org.apache.spark.TaskState.TaskState
import org.apache.spark.scheduler._
import org.apache.spark.scheduler.sparksched.jobs.StagePlace
import org.apache.spark.util.{Clock, SystemClock}
import schedcore.enforce.{PilotGate, WaitingSet}
import schedcore.status.StageFacts
import scala.collection.mutable

/** One stage as Spark runs it. Every method is called under the scheduler's lock, as TaskSetManager demands. */
private[sparksched] class SchedTaskSetManager(
    scheduler: SchedTaskScheduler, taskSet: TaskSet, maxTaskFailures: Int, health: Option[HealthTracker], clock: Clock)
    extends OfferGate(scheduler, taskSet, maxTaskFailures, health, clock) with WaitingSet {
  import SchedTaskSetManager.{Dequeued, Unended}

  private def failOpen: FailOpen = scheduler.failOpen

  val stage: String = s"${taskSet.stageId}.${taskSet.stageAttemptId}"
  val place: StagePlace = scheduler.stageStarted(stage, taskSet, isBarrier)
  def job: String = place.job
  def slotsPerTask: Int = place.slotsPerTask
  def executorProfile: Int = place.executorProfile
  def jobPriority: Int = scheduler.records.registry.priority(job)
  def jobArrival: Int = scheduler.records.registry.arrival(job)
  // Its tasks must run beside those of other stages, or of each other, to end at all.
  private val concurrent = isBarrier || place.groupTasks.isDefined
  private val pilots = new PilotGate(numTasks)
  private var doubled = false // whether two attempts of a task ran at once, or one of a task that was done elsewhere
  private val unread = mutable.HashSet.empty[Long] // attempts that have ended, and whose result Spark has not read
  private val endedBy = Array.fill(numTasks)(Unended) // by task, the attempt that is known to have ended well
  private var unfetched = 0 // tasks that Spark counts as successful, though they could not fetch their input

  protected def mayTake(executor: String): Boolean = scheduler.mayTake(this, executor, slotsPerTask * pendingOn(executor))

  /**
   * Spark's delay scheduling keeps a task for `spark.locality.wait` from executors that have little of its input. Where the input
   * is map outputs, most of which other executors have wherever the task runs, a slot held for it would idle for that time.
   * Within a round Spark still offers slots near the input first.
   */
  override protected def offered[A](executor: String)(offer: => A): A =
    if (!place.onlyShuffles || !failOpen("slot", false)(scheduler.holdsIdle(job, executor))) offer
    else {
      val waits = localityWaits
      localityWaits = new Array[Long](waits.length)
      try offer finally localityWaits = waits
    }

  /** Tasks of a barrier stage that were offered slots in this round; Spark launches them together at its end. */
  private def pendingOn(executor: String): Int =
    if (isBarrier) barrierPendingLaunchTasks.valuesIterator.count(_.execId == executor) else 0

  /** Whether all tasks wait and must start together. */
  def waitsAsGang: Boolean =
    isBarrier && !isZombie && runningTasks == 0 && unread.isEmpty && tasksSuccessful < numTasks && !onHold

  /** Its job is on hold: rounds of offers leave it out. */
  private def onHold: Boolean = scheduler.records.registry.isOnHold(job)

  private val evictions = mutable.HashMap.empty[Int, Int] // by task, of those that had one

  /** How often an attempt of the task was evicted. */
  def evictionsOf(index: Int): Int = evictions.getOrElse(index, 0)

  /** An attempt is about to be killed for others. */
  def evicting(tid: Long): Unit = if (runningTasksSet.contains(tid)) beingEvicted += tid

  /** An attempt was killed for others. */
  def evicted(tid: Long): Unit = taskInfos.get(tid).foreach(info => evictions(info.index) = evictionsOf(info.index) + 1)

  override def addRunningTask(tid: Long): Unit = {
    val fresh = !runningTasksSet.contains(tid)
    super.addRunningTask(tid)
    val info = taskInfos(tid)
    doubled ||= copiesRunning(info.index) > 1
    if (fresh && info.speculative && picked.contains(info.index)) copies += tid
    picked = None
    if (fresh) scheduler.taskLaunched(this, info)
  }

  override def removeRunningTask(tid: Long): Unit = {
    if (runningTasksSet.contains(tid)) unread += tid
    super.removeRunningTask(tid)
  }

  /** An attempt ended well, as its executor says. */
  def endedWell(tid: Long): Unit =
    taskInfos.get(tid).map(_.index).filter(endedBy(_) == Unended).foreach(endedBy(_) = tid)

  /** Tasks that are done. Spark counts also those that could not fetch their input. */
  private def tasksDone: Int = tasksSuccessful - unfetched

  /** Whether all tasks are done. */
  def completed: Boolean = tasksDone == numTasks

  // ---- pilots ------------------------------------------------------------------------------------------------

  /** Whether only this stage's pilots may start; tasks that wait for each other have none. */
  def pilotsFirst: Boolean = !concurrent && !isZombie && {
    pilots.put(scheduler.records.plans.pilots(job, place.index))
    pilots.closed
  }

  /** Pilots that have not been launched. */
  def idlePilots: IndexedSeq[Int] = pilots.waiting.filter(i => !successful(i) && copiesRunning(i) == 0)

  /** Tasks that wait for a slot. */
  def waitingTasks: Int = if (pilotsFirst) idlePilots.size else tasksLeft

  /** Tasks that are not done and of which no attempt runs or has a result that is to be read; a zombie starts none of its tasks. */
  private def tasksLeft: Int = if (isZombie) 0 else {
    val busy =
      if (doubled) (runningTasksSet.iterator ++ unread).map(taskInfos(_).index).filterNot(successful(_)).toSet.size
      else runningTasks + unread.size
    math.max(0, numTasks - tasksSuccessful - busy)
  }

  /** Whether it would start an attempt if it were given a slot. Spark keeps task sets in its queue that would not. */
  def couldStart: Boolean = isSchedulable && (tasksLeft > 0 || pendingSpeculatableTasks.all.nonEmpty || wantsCopies)

  /** Whether too many attempts failed on the executor, or its host, for any of its waiting tasks to start there. */
  def isExcludedFrom(executor: String, host: String): Boolean = taskSetExcludelistHelperOpt.exists { h =>
    h.isExecutorExcludedForTaskSet(executor) || h.isNodeExcludedForTaskSet(host) || (h.execToFailures.nonEmpty &&
      (0 until numTasks).forall(i => successful(i) || copiesRunning(i) > 0 ||
        h.isExecutorExcludedForTask(executor, i) || h.isNodeExcludedForTask(host, i)))
  }

  /** Whether a task of it prefers an executor or host that is there. */
  override def prefersPlaces: Boolean =
    myLocalityLevels.exists(level => level != TaskLocality.NO_PREF && level != TaskLocality.ANY)

  /** Its progress, for people. */
  def facts: StageFacts = {
    val left = tasksLeft
    val behindPilots = scheduler.enforcing && pilotsFirst
    StageFacts(
      stage, "", numTasks, tasksDone, runningTasks, left, slotsPerTask, behindPilots,
      gated = if (behindPilots) math.max(0, left - idlePilots.size) else 0, runningPilots.size,
      // The tasks of a pipelined group begin together, each on one slot.
      math.max(atOnce, place.groupTasks.filter(_ => tasksDone == 0 && runningTasks == 0).getOrElse(0)))
  }

  /** Pilots that run now, while the other tasks wait for them. */
  def runningPilots: Set[Int] =
    if (scheduler.enforcing && pilotsFirst) scheduler.records.plans.pilots(job, place.index).filter(i => i < numTasks && runs(i)).toSet
    else Set.empty

  /** Whether an attempt of the task runs. Spark's `copiesRunning` counts those that ended well, too. */
  private def runs(index: Int): Boolean = taskAttempts(index).exists(attempt => runningTasksSet(attempt.taskId))

  /** An attempt of the task ended or was lost. */
  def attemptOver(index: Int): Unit = failOpen("pilots", ())(if (pilots.ended(index)) scheduler.pilotsOver())

  /** Another attempt of the stage completed the task: it is done for the ledger, and as a pilot it is over. */
  override def markPartitionCompleted(partitionId: Int): Unit = {
    val undone = partitionToIndex.get(partitionId).filterNot(successful(_))
    doubled ||= undone.exists(copiesRunning(_) > 0)
    undone.foreach(scheduler.taskDoneElsewhere(stage, _))
    super.markPartitionCompleted(partitionId)
    failOpen("pilots", ())(partitionToIndex.get(partitionId).foreach(attemptOver))
  }

  private def nextPilot(execId: String, host: String, maxLocality: TaskLocality.Value): Option[Dequeued] =
    idlePilots.iterator.filterNot(i => taskSetExcludelistHelperOpt.exists { h =>
      h.isNodeExcludedForTask(host, i) || h.isExecutorExcludedForTask(execId, i)
    }).map(i => (i, localityOf(i, execId, host), false)).find(found => TaskLocality.isAllowed(maxLocality, found._2))

  private def localityOf(index: Int, execId: String, host: String): TaskLocality.Value = {
    val wanted = tasks(index).preferredLocations
    def rack = scheduler.getRackForHost(host)
    if (wanted.isEmpty) TaskLocality.NO_PREF
    else if (wanted.exists { case at: ExecutorCacheTaskLocation => at.executorId == execId; case _ => false })
      TaskLocality.PROCESS_LOCAL
    else if (wanted.exists(_.host == host)) TaskLocality.NODE_LOCAL
    else if (rack.isDefined && wanted.exists(at => scheduler.getRackForHost(at.host) == rack)) TaskLocality.RACK_LOCAL
    else TaskLocality.ANY
  }

  // ---- copies ------------------------------------------------------------------------------------------------

  /** Spark's own speculation is the application's choice, but for jobs that forbid that a task runs twice. */
  override def checkSpeculatableTasks(minTimeToSpeculation: Long): Boolean =
    !place.runsOnce && super.checkSpeculatableTasks(minTimeToSpeculation)

  override def isSchedulable: Boolean =
    (super.isSchedulable || (!isZombie && wantsCopies)) && !failOpen("slot", false)(onHold)

  private def wantsCopies: Boolean = place.restartable && scheduler.wantsCopies(job, stage)

  /** Stock speculation refuses the original's host, so copies on held slots are picked by the ledger instead. */
  override protected def dequeueTaskHelper(
      execId: String,
      host: String,
      maxLocality: TaskLocality.Value,
      speculative: Boolean): Option[Dequeued] = {
    val onlyPilots = !speculative && failOpen("pilots", false)(scheduler.enforcing && !scheduler.givesSpare && pilotsFirst)
    val stock =
      if (onlyPilots) failOpen("pilots", Option.empty[Dequeued])(nextPilot(execId, host, maxLocality))
      else super.dequeueTaskHelper(execId, host, maxLocality, speculative)
    if (stock.isDefined || !speculative || !place.restartable) stock
    else failOpen("copies", Option.empty[Dequeued])(nextCopy(execId, host))
  }

  private val copies = mutable.HashSet.empty[Long] // attempts that only this scheduler wanted; not Spark's speculative ones
  private var picked: Option[Int] = None // the task of which a copy is about to be launched
  private val beingEvicted = mutable.HashSet.empty[Long]
  private var toldOfCopies = false // its job's story has said that a copy failed

  private def nextCopy(execId: String, host: String): Option[Dequeued] =
    scheduler.pickCopy(stage, execId).filter(i => !successful(i) && copiesRunning(i) == 1).map { index =>
      scheduler.dagScheduler.speculativeTaskSubmitted(tasks(index), index)
      picked = Some(index)
      (index, localityOf(index, execId, host), true)
    }

  override def handleSuccessfulTask(tid: Long, result: DirectTaskResult[_]): Unit = {
    failOpen("map output", ())(place.output.foreach { output =>
      // The status is present already: the thread that fetched the result has read it.
      result.value() match {
        case status: MapStatus => scheduler.outputWritten(job, output, taskInfos(tid).index, status)
        case _ =>
      }
    })
    super.handleSuccessfulTask(tid, result)
    unread -= tid
  }

  // ---- what the ledger cannot see from task states -------------------------------------------------------------

  /**
   * What Spark is to charge a failure as. A failure that would not exist without this scheduler costs the job no more than the kill
   * of an attempt: it does not count towards `spark.task.maxFailures`, excludes no executor and gives up no stage. These are the
   * failures of copies; of attempts that are being evicted, which may fail by themselves before the kill arrives, or of it; and of
   * an attempt whose task is done because its copy was faster.
   *
   * That includes fetch failures. The original reads the same map outputs, or has read them: if they are lost, it says so itself, as
   * does the attempt that replaces it. Spark's own speculative attempts are charged by Spark's own rule.
   */
  private def charged(tid: Long, reason: TaskFailedReason): TaskFailedReason = {
    val info = taskInfos(tid)
    def isCopy = copies(tid)
    def isOvertaken = successful(info.index) && taskAttempts(info.index).exists(a => copies(a.taskId))
    val costs = reason.countTowardsTaskFailures || reason.isInstanceOf[FetchFailed]
    if (info.finished || !costs || !(isCopy || beingEvicted(tid) || isOvertaken)) reason
    else {
      val what =
        if (isCopy) "a copy"
        else if (beingEvicted(tid)) "an attempt that was being evicted"
        else "an attempt that its copy overtook"
      val why = SchedTaskSetManager.inOneLine(reason)
      if (isCopy) {
        val sentence = s"a copy of task ${info.index} of stage $stage failed, which does not count as a failure of the task: $why"
        scheduler.copyFailed(job, Option.unless(toldOfCopies)(sentence))
        toldOfCopies = true
      }
      val (updates, accums, peaks) = reason match {
        case thrown: ExceptionFailure => (thrown.accumUpdates, thrown.accums, thrown.metricPeaks)
        case _ => (Nil, Nil, Nil)
      }
      TaskKilled(s"the failure of $what does not count: $why", updates, accums, peaks)
    }
  }

  override def handleFailedTask(tid: Long, state: TaskState, reported: TaskFailedReason): Unit = {
    val reason = failOpen("copies", reported)(charged(tid, reported))
    failOpen("task undone", ()) {
      val info = taskInfos(tid)
      // A task that ended well may still fail when its result cannot be fetched.
      if (!info.finished && !successful(info.index)) {
        if (reason.isInstanceOf[FetchFailed]) unfetched += 1
        if (!unread.exists(other => other != tid && taskInfos(other).index == info.index)) undone(info.index)
      }
      attemptOver(info.index) // Spark sends no status update for an attempt that is lost with its executor.
    }
    super.handleFailedTask(tid, state, reason)
    unread -= tid
    beingEvicted -= tid
    // A new attempt of the stage runs what this one has not launched by now, however long its last tasks take to end.
    if (reason.isInstanceOf[FetchFailed]) scheduler.stageGivenUp(this)
  }

  /** Spark cancels the stage: tasks that are killed now do not run again, however long others of it take to end. */
  override def suspend(): Unit = {
    super.suspend()
    scheduler.stageGivenUp(this)
  }

  /** The backends of clusters give up a stage of which a task is too large to send, and never say that this task does not run. */
  override def abort(message: String, exception: Option[Throwable]): Unit = {
    super.abort(message, exception)
    failOpen("task undone", ())(SchedTaskSetManager.unsent(message).foreach(scheduler.neverRan(this, _)))
  }

  override def executorLost(execId: String, host: String, reason: ExecutorLossReason): Unit = {
    super.executorLost(execId, host, reason)
    // Map outputs went with the executor: those tasks run again.
    failOpen("task undone", ()) {
      if (!isZombie) {
        val done = scheduler.records.ledger.doneTasks(stage)
        val toRead = unread.map(taskInfos(_).index)
        (0 until numTasks).filter(i => (done(i) || endedBy(i) != Unended) && !successful(i) && !toRead(i)).foreach(undone)
      }
    }
  }

  private def undone(index: Int): Unit = {
    val ended = taskInfos.get(endedBy(index))
    endedBy(index) = Unended
    scheduler.records.registry.executors.taskUndone(job, stage, index, ended, scheduler.nowMs)
  }
}

private[sparksched] object SchedTaskSetManager {
  /** Task index, its locality on the executor, and whether it is a copy. */
  type Dequeued = (Int, TaskLocality.Value, Boolean)
  /** No attempt. */
  private val Unended = -1L
  private val clock = new SystemClock
  private val Unsent = """Serialized task (\d+):\d+ was \d+ bytes, which exceeds max allowed: .*""".r

  /** Characters of a failure's reason that a job's story shows. */
  private val MostOfReason = 200

  /** The line of a failure's reason that says what went wrong: the last one of a Python traceback, else the first. */
  private def inOneLine(reason: TaskFailedReason): String = {
    val text = reason match {
      case thrown: ExceptionFailure => s"${thrown.className}: ${thrown.description}"
      case other => other.toErrorString
    }
    val lines = text.linesIterator.map(_.trim).filterNot(line => line.isEmpty || line.startsWith("SQLSTATE")).toList
    (if (text.contains("Traceback (most recent call last)")) lines.lastOption else lines.headOption).getOrElse("").take(MostOfReason)
  }

  /** The attempt that was too large to send, if it is that what Spark gave up a stage for. */
  private def unsent(message: String): Option[Long] = message match {
    case Unsent(tid) => tid.toLongOption
    case _ => None
  }

  def of(
      scheduler: SchedTaskScheduler, taskSet: TaskSet, maxTaskFailures: Int, health: Option[HealthTracker]): SchedTaskSetManager =
    SparkLine.taskSetManager(scheduler, taskSet, maxTaskFailures, health, clock)
}
