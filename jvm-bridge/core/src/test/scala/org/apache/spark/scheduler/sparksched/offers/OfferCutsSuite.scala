package org.apache.spark.scheduler.sparksched
package offers

import org.apache.spark.{SparkConf, SparkContext, TaskState}
import org.apache.spark.scheduler._
import org.apache.spark.scheduler.sparksched.backend.PlannedAllocationSuite
import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite
import schedcore.settings.Settings

/** What Spark is not offered since nobody can take it, and that nothing else is kept back. */
final class OfferCutsSuite extends AnyFunSuite with BeforeAndAfterAll {
  import PlannedAllocationSuite.{CountingBackend, LocalTask}

  private lazy val context = new SparkContext(
    new SparkConf().setMaster("local[1]").setAppName("cuts").set("spark.ui.enabled", "false"))

  override def afterAll(): Unit = context.stop()

  /** A scheduler that was never started, before executors of two slots each; a job that holds slots on the first one. */
  private final class Fixture {
    // A busy machine makes stragglers, and the copies of these take held slots.
    val ours = new SchedTaskScheduler(
      context, 4, false, Settings.from(Map("spark.sched.planner.enabled" -> "false", "spark.sched.copies.enabled" -> "false")))
    ours.initialize(new CountingBackend)
    private val dag = new DAGScheduler(context, ours)
    val holder: SchedTaskSetManager = submit(0, "holder", priority = 5, tasks = 4)
    Seq(1, 1).foreach(n => offer(n -> 2, n + 1 -> 2).filter(_.executorId == "e1").foreach(finish))
    dag.stop()

    def submit(stage: Int, job: String, priority: Int, tasks: Int): SchedTaskSetManager =
      MarkedTasks.submit(ours, stage, job, priority, tasks)(new LocalTask(stage, _, tasks, _, None))

    /** Executors and their free cores. */
    def offer(free: (Int, Int)*): Seq[TaskDescription] = ours.resourceOffers(
      free.map { case (n, cores) => WorkerOffer(s"e$n", s"h$n", cores) }.toIndexedSeq, isAllFreeResources = true).flatten

    def finish(task: TaskDescription): Unit = ours.statusUpdate(task.taskId, TaskState.FINISHED, SeededRun.result)
    def held: Int = ours.records.ledger.heldOn("e1")
    def refused: Long = ours.records.tally.offersRefused
  }

  test("held slots are not offered to those who may not take them, and count as refused once") {
    val f = new Fixture
    assert(f.held === 2)
    f.submit(1, "other", priority = 0, tasks = 3)
    val before = f.refused
    assert(f.offer(1 -> 2).isEmpty)
    assert(f.refused === before + 1)
    assert(f.offer(1 -> 2, 3 -> 2).map(_.executorId) === Seq("e3", "e3"))
  }

  test("they are offered where a job that comes first, or their own one, wants slots") {
    val first = new Fixture
    first.submit(1, "other", priority = 0, tasks = 1)
    first.submit(2, "first", priority = 9, tasks = 1)
    assert(first.offer(1 -> 2).size === 1)
    val own = new Fixture
    own.submit(1, "other", priority = 0, tasks = 1)
    own.submit(2, "holder", priority = 5, tasks = 1)
    assert(own.offer(1 -> 2).map(_.executorId) === Seq("e1"))
  }

  test("a new executor is told to Spark although nothing of it is free") {
    val f = new Fixture
    f.submit(1, "other", priority = 0, tasks = 1)
    assert(f.offer(7 -> 0).isEmpty)
    assert(f.ours.isExecutorAlive("e7"))
  }
}
