package org.apache.spark.scheduler.sparksched

import java.io.NotSerializableException
import java.nio.ByteBuffer

import org.apache.spark._
import org.apache.spark.scheduler._
import org.apache.spark.scheduler.sparksched.backend.PlannedAllocationSuite
import org.apache.spark.scheduler.sparksched.offers.SchedTaskSetManager
import org.apache.spark.storage.BlockManagerId
import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite
import schedcore.settings.Settings

/** What the failures of attempts cost that only this scheduler wanted: copies, and attempts that it evicts. */
final class FreeFailuresSuite extends AnyFunSuite with BeforeAndAfterAll with Waiting {
  import BetweenStepsSuite.UnrunTask
  import PlannedAllocationSuite.CountingBackend

  private lazy val context = new SparkContext(
    new SparkConf().setMaster("local[1]").setAppName("free").set("spark.ui.enabled", "false")
      .set("spark.excludeOnFailure.enabled", "true").set("spark.excludeOnFailure.task.maxTaskAttemptsPerExecutor", "1")
      .set("spark.excludeOnFailure.stage.maxFailedTasksPerExecutor", "1")
      .set("spark.excludeOnFailure.application.fetchFailure.enabled", "true"))

  override def afterAll(): Unit = context.stop()

  /** A scheduler that was never started, and a stage of four tasks on executors of one slot, e1 to e4. One failure aborts it. */
  private final class Fixture(maxFailures: Int = 1) {
    val ours = new SchedTaskScheduler(context, maxFailures, false, Settings.from(Map(
      "spark.sched.planner.enabled" -> "false", "spark.sched.copies.minTaskTime" -> "0ms", "spark.sched.copies.minSlowdown" -> "0")))
    new DAGScheduler(context, ours)
    val backend = new CountingBackend
    ours.initialize(backend)
    val stage: SchedTaskSetManager = submit(0, "export", priority = 9, tasks = 4)

    def submit(number: Int, job: String, priority: Int, tasks: Int): SchedTaskSetManager =
      MarkedTasks.submit(ours, number, job, priority, tasks)(new UnrunTask(number, 0, _, tasks, _, barrier = false))

    def offer(numbers: Int*): Seq[TaskDescription] = ours.resourceOffers(
      numbers.map(n => WorkerOffer(s"e$n", s"h$n", 1, Some(s"h$n:1"))).toIndexedSeq, isAllFreeResources = numbers.size > 1).flatten

    /** Spark reads results and failures in threads of its own. */
    private def read(manager: SchedTaskSetManager, tid: Long): Unit = until(ours.synchronized(manager.taskInfos(tid).finished))

    def finish(manager: SchedTaskSetManager, task: TaskDescription): Unit = {
      ours.statusUpdate(task.taskId, TaskState.FINISHED, SeededRun.result)
      read(manager, task.taskId)
    }

    def fail(manager: SchedTaskSetManager, task: TaskDescription, why: TaskFailedReason): Unit = {
      ours.statusUpdate(task.taskId, TaskState.FAILED, serialized(why))
      read(manager, task.taskId)
    }

    /** The executor of a task that runs dies of it, as far as Spark knows. */
    def lose(task: TaskDescription): Unit = {
      ours.statusUpdate(task.taskId, TaskState.RUNNING, ByteBuffer.allocate(0))
      ours.executorLost(task.executorId, ExecutorExited(137, exitCausedByApp = true, "out of memory"))
    }

    /** One task runs on, with a copy beside it on a slot that is held: the original and its copy. */
    def copied(): (TaskDescription, TaskDescription) = {
      val original +: others = offer(1, 2, 3, 4)
      others.foreach(finish(stage, _))
      val Seq(copy) = others.map(_.executorId.drop(1).toInt).iterator.map(n => offer(n)).find(_.nonEmpty).get
      assert(copy.index === original.index && stage.taskInfos(copy.taskId).speculative)
      (original, copy)
    }

    def excludes(task: TaskDescription): Boolean = stage.isExcludedFrom(task.executorId, s"h${task.executorId.drop(1)}")
    def failed: Long = ours.counters("copies_failed")
    def story: Seq[String] = ours.records.registry.stories.of(stage.job).map(_.text)
    def consistent(): Unit = assert(ours.records.ledger.violations() === Nil)
  }

  private def serialized(value: Any): ByteBuffer = SparkEnv.get.closureSerializer.newInstance().serialize(value)
  private def thrown(e: Throwable): ExceptionFailure = new ExceptionFailure(e, Nil)
  private val failure = thrown(new IllegalStateException("only one attempt at a time may own the partition"))

  private val reasons: Seq[(String, TaskFailedReason)] = Seq(
    "throws" -> failure,
    "returns what cannot be serialised" -> thrown(new NotSerializableException("a socket")),
    "finds the output of another attempt" -> thrown(new TaskOutputFileAlreadyExistException(new java.io.IOException("a file"))),
    "loses its result" -> TaskResultLost,
    "fails without a reason" -> UnknownReason,
    "cannot fetch its input" -> FetchFailed(BlockManagerId("e9", "h9", 7337), 0, -1L, -1, 0, "outputs are gone"))

  for ((what, reason) <- reasons)
    test(s"a copy that $what costs its job nothing") {
      val f = new Fixture
      val (original, copy) = f.copied()
      f.fail(f.stage, copy, reason)
      assert(!f.stage.isZombie && f.stage.runningTasks === 1 && !f.excludes(copy))
      assert(f.ours.healthTrackerOpt.exists(h => !h.isExecutorExcluded("e9") && !h.isNodeExcluded("h9")))
      assert(f.failed === 1)
      assert(f.story.count(_.startsWith(s"a copy of task ${original.index} of stage 0.0 failed, which does not count")) === 1)
      f.consistent()
      // Its slot is the job's again, and the task gets no other copy.
      assert(f.offer(copy.executorId.drop(1).toInt) === Nil && f.ours.counters("copies_launched") === 1)
      f.finish(f.stage, original)
      assert(f.stage.completed)
    }

  test("a copy that is lost with its executor costs its job nothing") {
    val f = new Fixture
    val (original, copy) = f.copied()
    f.lose(copy)
    assert(!f.stage.isZombie && f.stage.runningTasks === 1 && f.failed === 1)
    f.consistent()
    f.finish(f.stage, original)
    assert(f.stage.completed)
  }

  test("of an original and its copy that both fail only the original's failure counts") {
    for (copyFirst <- Seq(true, false)) {
      val f = new Fixture(maxFailures = 2)
      val (original, copy) = f.copied()
      val (first, second) = if (copyFirst) (copy, original) else (original, copy)
      f.fail(f.stage, first, failure)
      // While the other attempt runs the task does not run again.
      assert(f.stage.waitingTasks === 0)
      f.fail(f.stage, second, failure)
      assert(!f.stage.isZombie && f.stage.waitingTasks === 1 && f.failed === 1 && f.excludes(original) && !f.excludes(copy))
      val Seq(third) = f.offer(copy.executorId.drop(1).toInt)
      assert(!f.stage.taskInfos(third.taskId).speculative)
      f.fail(f.stage, third, failure)
      assert(f.stage.isZombie) // The task's own second failure.
      f.consistent()
    }
  }

  test("an original's failure beside its copy counts as on stock Spark") {
    val f = new Fixture
    val (original, _) = f.copied()
    f.fail(f.stage, original, failure)
    assert(f.stage.isZombie && f.failed === 0)
  }

  test("an original that fails because its copy was faster costs its job nothing") {
    val f = new Fixture
    val (original, copy) = f.copied()
    f.finish(f.stage, copy)
    assert(f.backend.killed === Seq(original.taskId))
    f.fail(f.stage, original, failure)
    assert(f.stage.completed && !f.excludes(original) && f.failed === 0)
    f.consistent()
  }

  test("what Spark copies itself is charged by Spark's rule") {
    val f = new Fixture
    val original = f.offer(1, 2, 3, 4).head
    f.stage.speculatableTasks += original.index
    f.stage.addPendingTask(original.index, speculatable = true)
    val Seq(copy) = f.offer(5)
    assert(copy.index === original.index)
    f.fail(f.stage, copy, failure)
    assert(f.stage.isZombie && f.failed === 0)
  }

  test("an attempt that fails while it is being evicted costs its job nothing, and its next one's failure counts") {
    val f = new Fixture
    val victim = f.offer(1).head
    val high = f.submit(1, "high", priority = 99, tasks = 1)
    assert(f.ours.planOffered(
      s"""{"schema": 1, "plan": 1, "snapshot": ${f.ours.records.events.currentVersion}, "made_at_ms": ${f.ours.nowMs},
         |"valid_for_ms": 600000, "policy": "test", "ordered": true, "jobs": [{"job": "${high.job}", "rank": 0, "priority": 99,
         |"reservation": null, "victims": [${victim.taskId}]}]}""".stripMargin) === "accepted")
    assert(f.backend.killed === Seq(victim.taskId))
    f.fail(f.stage, victim, failure)
    assert(!f.stage.isZombie && f.stage.waitingTasks === 4 && !f.excludes(victim))
    f.consistent()
    val next = f.offer(1, 2).find(t => f.stage.taskInfos.contains(t.taskId)).get
    f.fail(f.stage, next, failure)
    assert(f.stage.isZombie)
  }
}
