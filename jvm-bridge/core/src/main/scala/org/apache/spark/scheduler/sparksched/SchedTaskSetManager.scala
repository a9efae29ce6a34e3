package org.apache.spark.scheduler.sparksched

import org.apache.spark.TaskFailedReason
import org.apache.spark.TaskState.TaskState
import org.apache.spark.scheduler._
import org.apache.spark.util.Clock

/**
 * One phase as Spark runs it. Every method is called under the scheduler's lock, as TaskSetManager demands.
 *
 * Spark's ID-aware logging for Structured Streaming is a private mixin of the stock scheduler and is not applied here.
 */
private[sparksched] final class SchedTaskSetManager(
    scheduler: SchedTaskScheduler, taskSet: TaskSet, maxTaskFailures: Int, health: Option[HealthTracker], clock: Clock)
    extends OfferGate(scheduler, taskSet, maxTaskFailures, health, clock) {

  val phase: String = s"${taskSet.stageId}.${taskSet.stageAttemptId}"
  val job: String = scheduler.phaseStarted(phase, taskSet, isBarrier)

  protected def mayTake(executor: String): Boolean = {
    // Barrier tasks of the same round are launched together at its end; until then only we know of them.
    val pending = if (isBarrier) barrierPendingLaunchTasks.valuesIterator.count(_.execId == executor) else 0
    scheduler.mayLaunch(job, executor, pending)
  }

  override def addRunningTask(tid: Long): Unit = {
    val fresh = !runningTasksSet.contains(tid)
    super.addRunningTask(tid)
    if (fresh) scheduler.taskLaunched(job, phase, taskInfos(tid))
  }

  // ---- copies ------------------------------------------------------------------------------------------------

  override def isSchedulable: Boolean = super.isSchedulable || (!isZombie && scheduler.wantsCopies(phase))

  /** Stock speculation refuses the original's host, so copies on held slots are picked by the ledger instead. */
  override protected def dequeueTaskHelper(
      execId: String,
      host: String,
      maxLocality: TaskLocality.Value,
      speculative: Boolean): Option[(Int, TaskLocality.Value, Boolean)] = {
    val stock = super.dequeueTaskHelper(execId, host, maxLocality, speculative)
    if (stock.isDefined || !speculative || isBarrier) stock
    else scheduler.pickCopy(phase, execId).filter(i => !successful(i) && copiesRunning(i) == 1).map { index =>
      scheduler.dagScheduler.speculativeTaskSubmitted(tasks(index), index)
      (index, maxLocality, true)
    }
  }

  // ---- what the ledger cannot see from task states -------------------------------------------------------------

  override def handleFailedTask(tid: Long, state: TaskState, reason: TaskFailedReason): Unit = {
    val info = taskInfos(tid)
    // A task that ended well may still fail when its result cannot be fetched.
    if (!info.finished && !successful(info.index)) scheduler.taskUndone(phase, info.index)
    super.handleFailedTask(tid, state, reason)
  }

  override def executorLost(execId: String, host: String, reason: ExecutorLossReason): Unit = {
    super.executorLost(execId, host, reason)
    // Map outputs went with the executor: those tasks run again.
    if (!isZombie) scheduler.doneTasks(phase).filterNot(successful(_)).toSeq.foreach(scheduler.taskUndone(phase, _))
  }
}
