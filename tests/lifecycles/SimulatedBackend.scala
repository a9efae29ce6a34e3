package org.apache.spark.scheduler.sparksched.lifecycles

import java.nio.ByteBuffer
import java.util.concurrent.{RejectedExecutionException, ScheduledFuture, TimeUnit}
import java.util.concurrent.atomic.{AtomicBoolean, AtomicLong, AtomicReference}

import scala.collection.mutable

import org.apache.spark.{ExceptionFailure, FetchFailed, SparkContext, SparkEnv, TaskKilled, TaskState}
import org.apache.spark.TaskState.TaskState
import org.apache.spark.resource.ResourceProfile
import org.apache.spark.scheduler._
import org.apache.spark.serializer.SerializerHelper
import org.apache.spark.status.api.v1.ThreadStackTrace
import org.apache.spark.storage.BlockManagerId
import org.apache.spark.util.ThreadUtils

/**
 * @param reviveMs how often offers are made without an occasion, as cluster backends do; 0: never, as the local one
 */
final case class ClusterShape(hosts: Int, executors: Int, slotsPerExecutor: Int, reviveMs: Long) {
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

  private final class Executor(val id: String, val host: String, var free: Int)
  private final class Running(val task: TaskDescription, val fate: Fate, val executor: Executor, var timer: ScheduledFuture[_])

  private val loop = ThreadUtils.newDaemonSingleThreadScheduledExecutor("simulated-cluster")
  private val executors = mutable.LinkedHashMap.empty[String, Executor]
  private val running = mutable.LinkedHashMap.empty[Long, Running]
  private val offersDue = new AtomicBoolean
  private var executorsEver = 0

  val launched = new AtomicLong
  val lost = new AtomicLong
  /** When a task last started or ended. */
  @volatile var lastActivityNs: Long = System.nanoTime()
  /** What the scheduler threw at the backend: Spark's own backends swallow it. */
  val thrown = new AtomicReference[Throwable]

  // ---- what Spark asks of a backend ----------------------------------------------------------------------------

  override def start(): Unit = {
    later(0)((1 to shape.executors).foreach(_ => addExecutor()))
    if (shape.reviveMs > 0)
      loop.scheduleWithFixedDelay(() => guarded(offerAll()), shape.reviveMs, shape.reviveMs, TimeUnit.MILLISECONDS)
  }

  override def stop(): Unit = {
    loop.shutdownNow()
    loop.awaitTermination(10, TimeUnit.SECONDS)
  }

  override def defaultParallelism(): Int = shape.slots
  override def maxNumConcurrentTasks(profile: ResourceProfile): Int = shape.slots
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
    // One at a time: a barrier stage must fit again soon.
    if (executors.size == shape.executors) {
      val victim = executors.valuesIterator.drop(choice % executors.size).next()
      executors -= victim.id
      running.valuesIterator.filter(_.executor eq victim).toSeq.foreach { r =>
        r.timer.cancel(false)
        running -= r.task.taskId
      }
      lost.incrementAndGet()
      scheduler.executorLost(victim.id, ExecutorProcessLost("lost on purpose", None, causedByApp = false))
      later(replacedAfterMs)(addExecutor())
    }
  }

  private def addExecutor(): Unit = {
    val executor = new Executor(s"e$executorsEver", s"host${executorsEver % shape.hosts}", shape.slotsPerExecutor)
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
    val offers = these.map(e => WorkerOffer(e.id, e.host, e.free, Some(e.host + ":1"))).toIndexedSeq
    scheduler.resourceOffers(offers, all).flatten.foreach(launch)
  }

  private def launch(task: TaskDescription): Unit = {
    val executor = executors(task.executorId)
    executor.free -= 1
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
    case None => end(r, TaskState.FINISHED, bytes(succeeded(r)))
  }

  /** A task that reads a shuffle whose outputs were lost meanwhile. */
  private def fetchFailure(r: Running): Option[FetchFailed] = r.fate.reads.collectFirst {
    case (shuffle, maps) if scheduler.mapOutputTracker.getNumAvailableOutputs(shuffle) < maps =>
      FetchFailed(null, shuffle, -1L, -1, r.task.partitionId, "map outputs are gone")
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
      r.executor.free += 1
      if (executors.contains(r.executor.id)) offerOf(r.executor)
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
