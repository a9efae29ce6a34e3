package org.apache.spark.scheduler.sparksched

import org.apache.spark.{SparkConf, SparkContext, TaskState}
import org.apache.spark.scheduler._
import org.apache.spark.scheduler.sparksched.backend.PlannedAllocationSuite
import org.apache.spark.scheduler.sparksched.offers.SchedTaskSetManager
import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite
import schedcore.settings.Settings

import scala.collection.mutable

/**
 * Tasks that must run at the same time, beside held slots: of the stages of a pipelined group, and of a barrier stage. A property says
 * which stages are a group, since lines of Spark before 4.3 have none; `tests/integration/test_groups.py` runs Spark's own.
 */
final class GroupsSuite extends AnyFunSuite with BeforeAndAfterAll with Waiting {
  import BetweenStepsSuite.UnrunTask
  import PlannedAllocationSuite.CountingBackend

  private lazy val context = new SparkContext(
    new SparkConf().setMaster("local[1]").setAppName("groups").set("spark.ui.enabled", "false"))

  override def afterAll(): Unit = context.stop()

  /** A scheduler that was never started. */
  private final class Fixture(executors: Int, slots: Int) {
    private val GroupTasks = "test.group.tasks"
    val ours = new SchedTaskScheduler(
      context, 4, false, Settings.from(Map("spark.sched.planner.enabled" -> "false")),
      groupTasks = (_, set) => Option(set.properties.getProperty(GroupTasks)).map(_.toInt))
    val backend = new CountingBackend
    new DAGScheduler(context, ours)
    ours.initialize(backend)
    private val free = mutable.LinkedHashMap.from((1 to executors).map(_ -> slots))

    /** @param group tasks of all stages of its group, all of which are of one Spark job */
    def submit(
        stage: Int, job: String, priority: Int, tasks: Int, barrier: Boolean = false, group: Option[Int] = None,
        sparkJob: Option[Int] = None): SchedTaskSetManager = {
      // Copies would take held slots.
      val more = Map("spark.sched.job.copies" -> "never") ++ group.map(GroupTasks -> _.toString)
      MarkedTasks.submit(ours, stage, job, priority, tasks, sparkJob = sparkJob, more = more)(new UnrunTask(stage, 0, _, tasks, _, barrier))
    }

    /** All free slots of these executors. */
    def offer(numbers: Iterable[Int] = free.keys): Seq[TaskDescription] = {
      val launched = ours.resourceOffers(
        numbers.map(n => WorkerOffer(s"e$n", s"h$n", free(n), Some(s"h$n:1"))).toIndexedSeq, isAllFreeResources = numbers.size == free.size).flatten
      launched.foreach(task => free(task.executorId.drop(1).toInt) -= 1)
      launched
    }

    /** Jobs of the tasks that a round starts, with how many. */
    def started(): Map[String, Int] =
      offer().groupBy(task => ours.taskIdToTaskSetManager.get(task.taskId).asInstanceOf[SchedTaskSetManager].job).map { case (job, tasks) => job -> tasks.size }

    /** A job of this priority ran so many tasks on the first executors, holds their slots, and goes on with one task. */
    def holding(priority: Int, held: Int): SchedTaskSetManager = {
      val holder = submit(0, "holder", priority, tasks = held + 1)
      val running = offer(1 to held / slots + 1)
      assert(running.size === held + 1)
      running.take(held).foreach { task =>
        ours.statusUpdate(task.taskId, TaskState.FINISHED, SeededRun.result)
        free(task.executorId.drop(1).toInt) += 1
      }
      until(ours.synchronized(holder.tasksSuccessful == held))
      assert(ours.records.ledger.heldSlots === held)
      holder
    }

    /** The context has one endpoint for the coordinator, and each scheduler wants to set up its own. */
    def close(): Unit = ours.barrierCoordinator.stop()

    def said(of: SchedTaskSetManager): Seq[String] = ours.records.registry.stories.of(of.job).map(_.text)
  }

  test("a group that fits beside held slots starts whole, and others get only what it leaves meanwhile") {
    val f = new Fixture(executors = 9, slots = 1)
    f.holding(priority = 9, held = 2)
    // Six slots are open. One of higher priority waits for all of them.
    val writes = f.submit(1, "group", priority = 0, tasks = 2, group = Some(4), sparkJob = Some(1))
    val rival = f.submit(2, "rival", priority = 5, tasks = 6)
    assert(f.started() === Map(writes.job -> 2, rival.job -> 2))
    val reads = f.submit(3, "group", priority = 0, tasks = 2, group = Some(4), sparkJob = Some(1))
    val before = f.backend.revived
    assert(f.started() === Map(reads.job -> 2))
    assert(f.backend.revived > before, "slots that were kept from others are offered")
    assert(f.started() === Map.empty && f.ours.records.ledger.heldSlots === 2)
    assert(!writes.place.restartable && !reads.place.restartable)
  }

  test("a group that would wait for held slots is refused before any task of it starts") {
    val f = new Fixture(executors = 9, slots = 1)
    f.holding(priority = 9, held = 2)
    val writes = f.submit(1, "group", priority = 0, tasks = 3, group = Some(7))
    val rival = f.submit(2, "rival", priority = 0, tasks = 6)
    assert(f.started() === Map(rival.job -> 6))
    val refusals = f.said(writes).filter(_.contains("refused"))
    assert(refusals === Seq(
      "Spark job 1 is refused: its group of pipelined stages needs 7 slots at once, and of 8 free ones 2 are held for job holder"))
    f.started()
    assert(f.said(writes).count(_.contains("refused")) === 1)
  }

  test("a group may take slots that are held against jobs behind its own") {
    val f = new Fixture(executors = 9, slots = 1)
    f.holding(priority = 1, held = 2)
    val writes = f.submit(1, "group", priority = 9, tasks = 8, group = Some(8))
    assert(f.started() === Map(writes.job -> 8))
  }

  test("a group that is larger than what is free is refused, whether or not anything is held") {
    val f = new Fixture(executors = 3, slots = 1)
    f.submit(0, "other", priority = 0, tasks = 1)
    assert(f.offer(1 to 1).size === 1)
    f.offer()
    val writes = f.submit(1, "group", priority = 0, tasks = 2, group = Some(3))
    assert(f.started() === Map.empty)
    assert(f.said(writes).filter(_.contains("refused")) === Seq(
      "Spark job 1 is refused: its group of pipelined stages needs 3 slots at once, and of 2 free ones none is held"))
  }

  test("what was kept for a group is offered when its Spark job is over") {
    val f = new Fixture(executors = 4, slots = 1)
    f.submit(1, "group", priority = 0, tasks = 1, group = Some(4))
    val rival = f.submit(2, "rival", priority = 5, tasks = 3)
    assert(f.offer().size === 1 && rival.waitingTasks === 3)
    val before = f.backend.revived
    f.ours.sparkJobEnded(1, failed = true)
    assert(f.backend.revived > before)
    assert(f.started() === Map(rival.job -> 3))
  }

  test("at 16,000 slots of which 2,000 are held a barrier stage starts at once where the others suffice, and does not where they do not") {
    val f = new Fixture(executors = 1000, slots = 16)
    f.holding(priority = 5, held = 2000)
    val large = f.submit(1, "large", priority = 0, tasks = 14000, barrier = true)
    assert(f.started() === Map.empty, "15,999 slots are free, and 13,999 are not held")
    f.ours.killAllTaskAttempts(1, interruptThread = false, "cancelled")
    assert(!large.waitsAsGang)
    val fits = f.submit(2, "fits", priority = 0, tasks = 13999, barrier = true)
    assert(f.started() === Map(fits.job -> 13999))
    assert(f.ours.records.ledger.heldSlots === 2000)
    f.close()
  }

  test("at 16,000 slots a barrier stage does not wait for held slots that its job may take") {
    val f = new Fixture(executors = 1000, slots = 16)
    f.holding(priority = 5, held = 2000)
    val gang = f.submit(1, "gang", priority = 9, tasks = 15999, barrier = true)
    assert(f.started() === Map(gang.job -> 15999))
    assert(f.ours.records.ledger.heldSlots === 0 && f.ours.records.ledger.violations() === Nil)
    f.close()
  }
}
