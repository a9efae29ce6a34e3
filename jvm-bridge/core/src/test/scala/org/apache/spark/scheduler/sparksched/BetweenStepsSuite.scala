package org.apache.spark.scheduler.sparksched

import java.nio.ByteBuffer
import java.util.Properties

import org.apache.spark._
import org.apache.spark.TaskState.TaskState
import org.apache.spark.resource.ResourceProfile
import org.apache.spark.rpc.{RpcEnv, ThreadSafeRpcEndpoint}
import org.apache.spark.scheduler._
import org.apache.spark.scheduler.cluster.{CoarseGrainedClusterMessages, CoarseGrainedSchedulerBackend}
import org.apache.spark.scheduler.sparksched.backend.PlannedAllocationSuite
import org.apache.spark.scheduler.sparksched.offers.SchedTaskSetManager
import org.apache.spark.storage.TaskResultBlockId
import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite
import schedcore.events.Event
import schedcore.settings.Settings

import scala.collection.mutable

/**
 * What the records say between two steps of Spark: from the end of an attempt to the reading of its result, from a kill to its
 * end, from the end of a stage's attempt to that of its last task.
 */
final class BetweenStepsSuite extends AnyFunSuite with BeforeAndAfterAll with Waiting {
  import BetweenStepsSuite._
  import PlannedAllocationSuite.CountingBackend

  private lazy val context = new SparkContext(
    new SparkConf().setMaster("local[1]").setAppName("between").set("spark.ui.enabled", "false")
      .set("spark.rpc.message.maxSize", "1"))

  override def afterAll(): Unit = context.stop()

  /** A scheduler that was never started, before executors of one slot each: e1 on host h1, and so on. */
  private final class Fixture {
    val ours = scheduler
    val backend = new CountingBackend
    ours.initialize(backend)
    private val told = mutable.ArrayBuffer.empty[Event]

    def submit(
        stage: Int, job: String, priority: Int, tasks: Int = 1, attempt: Int = 0, barrier: Boolean = false,
        made: Option[Task[_]] = None): SchedTaskSetManager =
      MarkedTasks.submit(ours, stage, job, priority, tasks, attempt)((i, properties) =>
        made.getOrElse(new UnrunTask(stage, attempt, i, tasks, properties, barrier)))

    def offer(numbers: Int*): Seq[TaskDescription] = ours.resourceOffers(
      numbers.map(n => WorkerOffer(s"e$n", s"h$n", 1, Some(s"h$n:1"))).toIndexedSeq, isAllFreeResources = numbers.size > 1).flatten

    def end(task: TaskDescription, state: TaskState, how: ByteBuffer): Unit = ours.statusUpdate(task.taskId, state, how)
    def finish(task: TaskDescription): Unit = end(task, TaskState.FINISHED, SeededRun.result)
    def lose(task: TaskDescription): Unit = ours.executorLost(task.executorId, ExecutorProcessLost("a test", None, causedByApp = false))

    /** Spark reads results in threads of its own, which wait for the scheduler's lock. */
    def read(manager: SchedTaskSetManager): Unit =
      until(ours.synchronized(manager.taskInfos.valuesIterator.forall(i => i.finished || manager.runningTasksSet(i.taskId))))

    def plan(jobs: String): Unit = assert(ours.planOffered(
      s"""{"schema": 1, "plan": 1, "snapshot": ${ours.records.events.currentVersion}, "made_at_ms": ${ours.nowMs},
         |"valid_for_ms": 600000, "policy": "test", "ordered": true, "jobs": [$jobs]}""".stripMargin) === "accepted")

    /** What a planner is told so far. */
    def events: Seq[Event] = {
      told ++= ours.records.events.poll(100000, 0).events
      told.toSeq
    }

    def done(manager: SchedTaskSetManager): collection.Set[Int] = ours.records.ledger.doneTasks(manager.stage)
  }

  private def entry(job: String, more: String) = s"""{"job": "$job", "rank": 0, "priority": 0, "reservation": null, $more}"""

  test("a task whose result is to be read stays done where another executor is lost") {
    val f = new Fixture
    val manager = f.submit(0, "first", priority = 0, tasks = 3)
    val Seq(ended, lost, _) = f.offer(1, 2, 3)
    f.ours.synchronized {
      f.finish(ended)
      f.lose(lost)
      assert(f.done(manager) === Set(ended.index))
    }
    f.read(manager)
    assert(f.done(manager) === Set(ended.index))
  }

  for (end <- Seq("failed", "lost"))
    test(s"a task whose result is to be read stays done where its copy is $end") {
      val f = new Fixture
      val manager = f.submit(0, "first", priority = 0, tasks = 2)
      val original = f.offer(1, 2).head
      manager.speculatableTasks += original.index
      manager.addPendingTask(original.index, speculatable = true)
      val Seq(copy) = f.offer(3)
      assert(copy.index === original.index)
      f.ours.synchronized {
        f.finish(original)
        if (end == "lost") f.lose(copy)
        else {
          f.end(copy, TaskState.FAILED, failure)
          f.ours.handleFailedTask(manager, copy.taskId, TaskState.FAILED, UnknownReason) // Its reason may be read first.
        }
        assert(f.done(manager) === Set(original.index))
      }
      f.read(manager)
      assert(f.done(manager) === Set(original.index))
    }

  test("a barrier stage whose results are to be read does not wait for slots") {
    val f = new Fixture
    val gang = f.submit(0, "gang", priority = 0, tasks = 2, barrier = true)
    assert(gang.waitsAsGang)
    val running = f.offer(1, 2)
    assert(running.size === 2 && !gang.waitsAsGang)
    f.ours.synchronized {
      running.foreach(f.finish)
      assert(!gang.waitsAsGang)
    }
    f.read(gang)
  }

  test("a pilot that has ended does not run") {
    val f = new Fixture
    val manager = f.submit(0, "first", priority = 0, tasks = 4)
    f.plan(entry(manager.job, """"pilots": {"stage": 0, "tasks": [0, 1]}"""))
    val Seq(first, second) = f.offer(1, 2)
    assert(manager.runningPilots === Set(0, 1))
    f.finish(first)
    assert(manager.runningPilots === Set(second.index))
    f.read(manager)
    assert(manager.runningPilots === Set(second.index) && manager.facts.pilots === 1)
  }

  test("tasks of a stage that was cancelled or given up wait for nothing, though another one of it still runs") {
    val f = new Fixture
    val cancelled = f.submit(0, "first", priority = 0, tasks = 3)
    f.offer(1)
    f.ours.killAllTaskAttempts(0, interruptThread = false, "cancelled")
    assert(cancelled.facts.waiting === 0 && cancelled.waitingTasks === 0 && cancelled.runningTasks === 1)
    val failed = f.submit(1, "second", priority = 0, tasks = 3)
    val Seq(task, _) = f.offer(2, 3)
    f.end(task, TaskState.FAILED, fetchFailed(task))
    f.read(failed)
    assert(failed.facts.waiting === 0 && failed.facts.done === 0 && failed.facts.running === 1)
    assert(f.events.collect { case e: Event.StageEnded => e.stage -> e.completed } === Seq("0.0" -> false, "1.0" -> false))
  }

  test("a cancelled stage whose tasks end together ends once") {
    val f = new Fixture
    val manager = f.submit(0, "first", priority = 0, tasks = 2)
    val running = f.offer(1, 2)
    f.ours.killAllTaskAttempts(0, interruptThread = false, "cancelled")
    f.ours.synchronized(running.foreach(f.end(_, TaskState.KILLED, ByteBuffer.allocate(0))))
    f.read(manager)
    assert(f.events.count(_.isInstanceOf[Event.StageEnded]) === 1)
    assert(f.ours.records.registry.stories.of(manager.job).count(_.text.contains("ended without")) === 1)
  }

  test("a stage of which no task could fetch its input is not done") {
    val f = new Fixture
    val manager = f.submit(0, "first", priority = 0)
    val Seq(task) = f.offer(1)
    f.end(task, TaskState.FAILED, fetchFailed(task))
    f.read(manager)
    assert(f.events.collect { case e: Event.StageEnded => e.completed } === Seq(false))
  }

  test("an attempt of a stage that Spark replaces before any of its tasks runs is over") {
    val f = new Fixture
    val replaced = f.submit(0, "first", priority = 0, tasks = 2)
    val second = f.submit(0, "first", priority = 0, attempt = 1)
    assert(f.ours.taskSetManagerForAttempt(0, 0).isEmpty && replaced.isZombie)
    f.finish(f.offer(1).head)
    f.read(second)
    assert(!f.ours.records.registry.hasStages(second.job))
  }

  for (end <- Seq(TaskState.FINISHED, TaskState.FAILED, TaskState.KILLED))
    test(s"a victim that ends as $end was evicted only if it was killed") {
      val f = new Fixture
      val low = f.submit(0, "low", priority = 0)
      val Seq(victim) = f.offer(1)
      val high = f.submit(1, "high", priority = 9)
      f.plan(s"""{"job": "${high.job}", "rank": 0, "priority": 9, "reservation": null, "victims": [${victim.taskId}]}""")
      assert(f.backend.killed === Seq(victim.taskId))
      f.end(victim, end, if (end == TaskState.FINISHED) SeededRun.result else failure)
      f.read(low)
      val evictions = if (end == TaskState.KILLED) 1 else 0
      assert(f.ours.counters("evictions") === evictions && low.evictionsOf(0) === evictions)
    }

  test("a planner is told of an output that is lost with its executor, and no more than once") {
    val f = new Fixture
    val manager = f.submit(0, "first", priority = 0, tasks = 2, made = Some(new ShuffleMapTask(0)))
    val Seq(ended, other) = f.offer(1, 2)
    f.finish(ended)
    f.read(manager)
    f.lose(ended)
    f.lose(other)
    assert(f.events.collect { case e: Event.TaskEnded => e.task -> e.outcome } ===
      Seq(ended.taskId -> "success", ended.taskId -> "lost", other.taskId -> "lost"))
  }

  test("a planner is told of a result that is lost on its way to the driver") {
    val f = new Fixture
    val manager = f.submit(0, "first", priority = 0)
    val Seq(task) = f.offer(1)
    f.end(task, TaskState.FINISHED, serialized(IndirectTaskResult[Int](TaskResultBlockId(task.taskId), 100L)))
    f.read(manager)
    assert(manager.waitingTasks === 1)
    assert(f.events.collect { case e: Event.TaskEnded => e.task -> e.outcome } === Seq(task.taskId -> "success", task.taskId -> "lost"))
    f.end(f.offer(1).head, TaskState.FAILED, failure)
    f.read(manager)
    assert(f.events.collect { case e: Event.TaskEnded => e.outcome } === Seq("success", "lost", "failed"))
  }

  test("a job ends although Spark could not send a task of it, which was too large") {
    val rpc = context.env.rpcEnv
    val ours = scheduler
    val backend = new CoarseGrainedSchedulerBackend(ours, rpc)
    val executor = rpc.setupEndpoint("executor", new SilentExecutor(rpc))
    try {
      ours.initialize(backend)
      val large = new UnrunTask(0, 0, 0, 1, new Properties, barrier = false, ballast = new Array[Byte](2 << 20))
      ours.submitTasks(new TaskSet(
        Array[Task[_]](large), 0, 0, 0, new Properties, ResourceProfile.DEFAULT_RESOURCE_PROFILE_ID, None))
      val manager = ours.taskSetManagerForAttempt(0, 0).get.asInstanceOf[SchedTaskSetManager]
      backend.driverEndpoint.askSync[Boolean](CoarseGrainedClusterMessages.RegisterExecutor(
        "1", executor, "h1", 1, Map.empty, Map.empty, Map.empty, ResourceProfile.DEFAULT_RESOURCE_PROFILE_ID))
      backend.driverEndpoint.send(CoarseGrainedClusterMessages.LaunchedExecutor("1"))
      until(ours.synchronized(manager.isZombie))
      until(ours.synchronized(!ours.records.registry.hasStages(manager.job)))
      assert(ours.records.registry.executors.attemptsOf(Set(manager.job)).isEmpty && !ours.isExecutorBusy("1"))
    } finally {
      rpc.stop(backend.driverEndpoint)
      rpc.stop(executor)
    }
  }

  private def scheduler: SchedTaskScheduler = {
    val made = new SchedTaskScheduler(context, 4, false, Settings.from(Map("spark.sched.planner.enabled" -> "false")))
    new DAGScheduler(context, made)
    made
  }

  private def serialized(value: Any): ByteBuffer = SparkEnv.get.closureSerializer.newInstance().serialize(value)
  private def failure: ByteBuffer = serialized(new ExceptionFailure(new RuntimeException("failed on purpose"), Nil))
  private def fetchFailed(task: TaskDescription): ByteBuffer =
    serialized(FetchFailed(null, 0, -1L, -1, task.partitionId, "outputs are gone"))
}

private object BetweenStepsSuite {

  /** A task that nobody runs. */
  final class UnrunTask(
      stage: Int, attempt: Int, index: Int, tasks: Int, properties: Properties, barrier: Boolean, val ballast: Array[Byte] = Array.empty)
      extends Task[Int](stage, attempt, index, tasks, JobArtifactSet.emptyJobArtifactSet, properties, isBarrier = barrier) {
    override def runTask(context: TaskContext): Int = 0
  }

  /** One that runs nothing. */
  final class SilentExecutor(override val rpcEnv: RpcEnv) extends ThreadSafeRpcEndpoint {
    override def receive: PartialFunction[Any, Unit] = { case _ => }
  }
}
