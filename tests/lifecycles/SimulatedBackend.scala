package org.apache.spark.scheduler.sparksched.lifecycles

import java.nio.ByteBuffer
import java.util.concurrent.{RejectedExecutionException, ScheduledFuture, TimeUnit}
import java.util.concurrent.atomic.{AtomicBoolean, AtomicLong, AtomicReference}

import scala.collection.mutable

import org.apache.spark.{ExceptionFailure, FetchFailed, MapOutputTrackerMaster, SparkContext, SparkEnv, TaskKilled, TaskState}
import org.apache.spark.TaskState.TaskState
import org.apache.spark.resource.ResourceProfile
import org.apache.spark.scheduler._
import org.apache.spark.serializer.SerializerHelper
import org.apache.spark.status.api.v1.ThreadStackTrace
import org.apache.spark.storage.{BlockManagerId, TaskResultBlockId}
import org.apache.spark.util.ThreadUtils

/**
 * @param reviveMs how often offers are made without an occasion, as cluster backends do; 0: never, as the local one
 * @param apart executors beside these of another resource profile
 */
final case class ClusterShape(hosts: Int, executors: Int, slotsPerExecutor: Int, reviveMs: Long, apart: Int) {
  val slots: Int = executors * slotsPerExecutor
}

/**
 * Executors that run nothing: a task is a timer, and its end is what its [[Fate]] says. They come and go, obey kills
 * (or are too late for them) and lose map outputs when they are lost, like real ones.
 *
 * All of its state belongs to one thread, as that of a real backend does.
 */
final class SimulatedBackend(context: SparkContext, scheduler: TaskSchedulerImpl, val shape: ClusterShape)
    extends SchedulerBackend {

  private final class Executor(val id: String, val host: String, var free: Int, val profile: Int) {
    var decommissioned = false // it gets no offers any more
  }
  private final class Running(val task: TaskDescription, val fate: Fate, val executor: Executor, var timer: ScheduledFuture[_])

  private val loop = ThreadUtils.newDaemonSingleThreadScheduledExecutor("simulated-cluster")
  private val executors = mutable.LinkedHashMap.empty[String, Executor]
  private val running = mutable.LinkedHashMap.empty[Long, Running]
  private val offersDue = new AtomicBoolean
  private var executorsEver = 0

  val launched = new AtomicLong
  val lost = new AtomicLong
  val decommissioned = new AtomicLong
  /** When a task last started or ended. */
  @volatile var lastActivityNs: Long = System.nanoTime()
  /** What the scheduler threw at the backend: Spark's own backends swallow it. */
  val thrown = new AtomicReference[Throwable]

  // ---- what Spark asks of a backend ----------------------------------------------------------------------------

  override def start(): Unit = {
    Profiles.addTo(context)
    later(0) {
      (1 to shape.executors).foreach(_ => addExecutor(ResourceProfile.DEFAULT_RESOURCE_PROFILE_ID))
      (1 to shape.apart).foreach(_ => addExecutor(Profiles.Apart.id))
    }
    if (shape.reviveMs > 0)
      loop.scheduleWithFixedDelay(() => guarded(offerAll()), shape.reviveMs, shape.reviveMs, TimeUnit.MILLISECONDS)
  }

  override def stop(): Unit = {
    loop.shutdownNow()
    loop.awaitTermination(10, TimeUnit.SECONDS)
  }

  override def defaultParallelism(): Int = shape.slots
  override def maxNumConcurrentTasks(profile: ResourceProfile): Int =
    if (profile.id == Profiles.Apart.id) shape.apart * shape.slotsPerExecutor else shape.slots / Profiles.slotsOf(profile)
  override def getTaskThreadDump(taskId: Long, executorId: String): Option[ThreadStackTrace] = None

  override def reviveOffers(): Unit = if (offersDue.compareAndSet(false, true)) later(0) {
    offersDue.set(false)
    offerAll()
  }

  override def killTask(taskId: Long, executorId: String, interruptThread: Boolean, reason: String): Unit = later(0) {
    running.get(taskId).filterNot(_.fate.missesKills).foreach { r =>
      if (r.timer.cancel(false)) end(r, TaskState.KILLED, bytes(TaskKilled(reason)))
    }
  }

  // ---- executors -------------------------------------------------------------------------------------------------

  /** One executor goes without a word, and a new one comes in its place. */
  def loseExecutor(choice: Int, replacedAfterMs: Long): Unit = later(0) {
    chosen(choice).foreach { victim =>
      lose(victim, ExecutorProcessLost("lost on purpose", None, causedByApp = false))
      later(replacedAfterMs)(addExecutor(victim.profile))
    }
  }

  /**
   * One executor is told to go: it gets no further tasks, and a new one comes in its place.
   *
   * @param goneAfterMs when it goes, whatever runs there; None: it never does
   */
  def decommission(choice: Int, replacedAfterMs: Long, goneAfterMs: Option[Long]): Unit = later(0) {
    chosen(choice).foreach { victim =>
      victim.decommissioned = true
      decommissioned.incrementAndGet()
      scheduler.executorDecommission(victim.id, ExecutorDecommissionInfo("on purpose", None))
      later(replacedAfterMs)(addExecutor(victim.profile))
      goneAfterMs.foreach(later(_)(lose(victim, ExecutorDecommission(None, "on purpose"))))
    }
  }

  /** One at a time: a barrier stage must fit again soon. */
  private def chosen(choice: Int): Option[Executor] = {
    val all = executors.valuesIterator.filterNot(_.decommissioned).toSeq
    Option.when(all.size == shape.executors + shape.apart)(all(choice % all.size))
  }

  private def lose(victim: Executor, why: ExecutorLossReason): Unit = {
    executors -= victim.id
    running.valuesIterator.filter(_.executor eq victim).toSeq.foreach { r =>
      r.timer.cancel(false)
      running -= r.task.taskId
    }
    lost.incrementAndGet()
    scheduler.executorLost(victim.id, why)
  }

  private def addExecutor(profile: Int): Unit = {
    val executor = new Executor(s"e$executorsEver", s"host${executorsEver % shape.hosts}", shape.slotsPerExecutor, profile)
    executorsEver += 1
    executors(executor.id) = executor
    offerOf(executor)
  }

  /** Executors with their free slots, and the tasks that run on them. */
  def state: (Map[String, Int], Set[Long]) =
    loop.submit(() => (executors.valuesIterator.map(e => e.id -> e.free).toMap, running.keySet.toSet)).get()

  // ---- tasks -----------------------------------------------------------------------------------------------------

  private def offerAll(): Unit = offer(executors.valuesIterator.toSeq, all = true)

  /**
   * The local backend offers all that it has at once. One of a cluster offers just the executor, and relies on its next
   * revival for barrier stages, which never start on an offer of fewer slots than they have tasks.
   */
  private def offerOf(executor: Executor): Unit =
    if (shape.reviveMs == 0) offerAll() else offer(Seq(executor), all = false)

  private def offer(these: Seq[Executor], all: Boolean): Unit = {
    val offers = these.filterNot(_.decommissioned)
      .map(e => WorkerOffer(e.id, e.host, e.free, Some(e.host + ":1"), resourceProfileId = e.profile)).toIndexedSeq
    scheduler.resourceOffers(offers, all).flatten.foreach(launch)
  }

  private def launch(task: TaskDescription): Unit = {
    val executor = executors(task.executorId)
    executor.free -= task.cpus.toInt
    if (executor.free < 0) throw new IllegalStateException(s"executor ${executor.id} got more tasks than it has slots")
    val manager = scheduler.taskIdToTaskSetManager.get(task.taskId)
    val fate = Fate.of(task, manager.taskSet)
    launched.incrementAndGet()
    lastActivityNs = System.nanoTime()
    scheduler.statusUpdate(task.taskId, TaskState.RUNNING, ByteBuffer.allocate(0))
    val entry = new Running(task, fate, executor, null)
    running(task.taskId) = entry
    entry.timer = later(fate.lastsMs)(finish(entry))
  }

  private def finish(r: Running): Unit = fetchFailure(r) match {
    case Some(failure) => end(r, TaskState.FAILED, bytes(failure))
    case None if r.fate.fails =>
      end(r, TaskState.FAILED, bytes(new ExceptionFailure(new RuntimeException(SimulatedBackend.OnPurpose), Nil)))
    case None => end(r, TaskState.FINISHED, sent(r))
  }

  /** A task that reads a shuffle whose outputs were lost meanwhile, or one of which it does not get. */
  private def fetchFailure(r: Running): Option[FetchFailed] = r.fate.reads.collectFirst {
    case (shuffle, maps) if outputs.getNumAvailableOutputs(shuffle) < maps =>
      FetchFailed(null, shuffle, -1L, -1, r.task.partitionId, "map outputs are gone")
  }.orElse(if (r.fate.cannotFetch) r.fate.reads.lastOption.flatMap { case (shuffle, _) =>
    outputs.shuffleStatuses.get(shuffle).flatMap(_.mapStatuses.zipWithIndex.find(_._1 != null)).map { case (status, map) =>
      FetchFailed(status.location.asInstanceOf[BlockManagerId], shuffle, status.mapId, map, r.task.partitionId, "it does not answer")
    }
  } else None)

  private def outputs: MapOutputTrackerMaster = scheduler.mapOutputTracker.asInstanceOf[MapOutputTrackerMaster]

  private def sent(r: Running): ByteBuffer = r.fate.sends match {
    case Fate.Plain => bytes(succeeded(r))
    case Fate.Lost => bytes(IndirectTaskResult[Any](TaskResultBlockId(r.task.taskId), 100L))
    case Fate.TooLarge => bytes(IndirectTaskResult[Any](TaskResultBlockId(r.task.taskId), 1L << 40))
    case Fate.Unreadable => ByteBuffer.wrap(Array[Byte](1, 2, 3))
  }

  private def succeeded(r: Running): DirectTaskResult[Any] = {
    val value: Any = r.fate.writes match {
      case Some(partitions) =>
        val where = BlockManagerId(r.executor.id, r.executor.host, 1)
        MapStatus(where, Array.fill(partitions)(1L), r.task.taskId)
      case None => r.fate.result
    }
    val serializer = SparkEnv.get.serializer.newInstance()
    new DirectTaskResult(SerializerHelper.serializeToChunkedBuffer(serializer, value), Nil, Array.emptyLongArray)
  }

  private def end(r: Running, state: TaskState, data: ByteBuffer): Unit =
    if (running.remove(r.task.taskId).isDefined) {
      lastActivityNs = System.nanoTime()
      // The slot is free only afterwards, as in Spark's backends.
      scheduler.statusUpdate(r.task.taskId, state, data)
      r.executor.free += r.task.cpus.toInt
      if (executors.contains(r.executor.id) && !r.executor.decommissioned) offerOf(r.executor)
    }

  private def bytes(value: Any): ByteBuffer = SparkEnv.get.closureSerializer.newInstance().serialize(value)

  // ---- the thread ------------------------------------------------------------------------------------------------

  private def later(ms: Long)(body: => Unit): ScheduledFuture[_] =
    try loop.schedule((() => guarded(body)): Runnable, ms, TimeUnit.MILLISECONDS)
    catch { case _: RejectedExecutionException => null } // stopped

  private def guarded(body: => Unit): Unit =
    try body
    catch { case t: Throwable if !context.isStopped => thrown.compareAndSet(null, t) }
}

object SimulatedBackend {
  val OnPurpose = "failed on purpose"
}
