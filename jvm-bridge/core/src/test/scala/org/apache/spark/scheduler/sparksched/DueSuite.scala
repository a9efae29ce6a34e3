package org.apache.spark.scheduler.sparksched

import java.nio.ByteBuffer
import java.util.concurrent.{LinkedBlockingQueue, TimeUnit}

import org.apache.spark.{ExceptionFailure, FetchFailed, SparkConf, SparkContext, SparkEnv, TaskState}
import org.apache.spark.scheduler._
import org.apache.spark.scheduler.sparksched.backend.PlannedAllocationSuite
import org.apache.spark.scheduler.sparksched.offers.{Revival, SchedTaskSetManager, WakeTimer}
import scala.collection.mutable

import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite
import schedcore.settings.Settings

/** Slots that become free for somebody are offered, whatever became of timers and of rounds that were asked for. */
final class DueSuite extends AnyFunSuite with BeforeAndAfterAll with Waiting {
  import PlannedAllocationSuite.{CountingBackend, LocalTask}

  private lazy val context = new SparkContext(
    new SparkConf().setMaster("local[1]").setAppName("due").set("spark.ui.enabled", "false").set("spark.excludeOnFailure.enabled", "true"))

  override def afterAll(): Unit = context.stop()

  /** One that was never started: it has no ticks. */
  private final class Fixture(more: (String, String)*) {
    val ours = new SchedTaskScheduler(context, 4, false, Settings.from(Map("spark.sched.planner.enabled" -> "false") ++ more))
    val backend = new CountingBackend
    new DAGScheduler(context, ours)
    ours.initialize(backend)

    def submit(stage: Int, job: String, priority: Int, host: Option[String] = None, tasks: Int = 1): SchedTaskSetManager =
      MarkedTasks.submit(ours, stage, job, priority, tasks)(new LocalTask(stage, _, tasks, _, host))

    /** The free slot of an executor with a host of the same number. */
    def offer(numbers: Int*): Seq[TaskDescription] =
      ours.resourceOffers(numbers.map(n => WorkerOffer(s"e$n", s"h$n", 1)).toIndexedSeq, isAllFreeResources = numbers.size > 1).flatten

    def finish(task: TaskDescription): Unit = {
      val manager = ours.taskIdToTaskSetManager.get(task.taskId)
      ours.statusUpdate(task.taskId, TaskState.FINISHED, SeededRun.result)
      until(ours.synchronized(manager.isZombie)) // Spark reads results in threads of its own.
    }

    def plan(validMs: Long, jobs: String): Unit = assert(ours.planOffered(
      s"""{"schema": 1, "plan": 1, "snapshot": ${ours.records.events.currentVersion}, "made_at_ms": ${ours.nowMs}, "valid_for_ms": $validMs,
         |"policy": "test", "ordered": true, "jobs": [$jobs]}""".stripMargin) === "accepted")

    /** A job that waits for two seconds, by the plan. */
    def late(): Unit = {
      val job = submit(0, "late", priority = 0).job
      plan(2000, s"""{"job": "$job", "rank": 0, "priority": 0, "reservation": null, "deferred": true, "start_ms": ${Long.MaxValue}}""")
      ours.resourceOffers(IndexedSeq.empty, isAllFreeResources = true)
    }

    /** A job of high priority holds the only slot of e1 for what it does next. */
    def holding(): Unit = {
      submit(0, "first", priority = 9)
      val task = offer(1)
      assert(task.size === 1)
      finish(task.head)
      assert(ours.counters("holds_total") === 1)
    }
  }

  test("a hold whose time is over refuses nobody though no timer came") {
    val f = new Fixture("spark.sched.reservation.firstGap" -> "1s", "spark.sched.reservation.gap" -> "1s")
    f.ours.timer.stop()
    f.holding()
    f.submit(1, "second", priority = 0)
    until(f.offer(1).nonEmpty)
  }

  test("the end of a task of a queue at its ceiling has all slots offered, one of another queue not") {
    val f = new Fixture("spark.sched.queues" ->
      """{"default":"rest","queues":[{"queue":"etl","ceiling":1},{"queue":"rest"}],"rules":[{"queue":"etl","name":"etl"}]}""")
    f.ours.timer.stop()
    val etl = f.submit(0, "etl", priority = 0, tasks = 2)
    f.submit(1, "first", priority = 0)
    val (ofEtl, ofOthers) = f.offer(1, 2, 3).partition(task => f.ours.taskIdToTaskSetManager.get(task.taskId) eq etl)
    assert((ofEtl.size, ofOthers.size, etl.waitingTasks) === ((1, 1, 1)))
    // 1. The end of another queue's task makes no room.
    val first = f.backend.revived
    f.finish(ofOthers.head)
    assert(f.backend.revived === first)
    // 2. Offers of one executor, in which nobody asks for the queue, change nothing.
    f.submit(2, "second", priority = 9)
    assert(f.offer(2).size === 1)
    val second = f.backend.revived
    f.ours.statusUpdate(ofEtl.head.taskId, TaskState.FINISHED, SeededRun.result)
    until(f.backend.revived > second)
    assert(f.offer(1, 3).size === 1 && etl.waitingTasks === 0)
  }

  test("a plan whose time is over keeps nobody waiting though no timer came, and all slots are offered") {
    val f = new Fixture
    f.ours.timer.stop()
    f.late()
    val before = f.backend.revived
    until(f.offer(1).nonEmpty)
    assert(f.backend.revived > before)
    assert(f.ours.counters("plan_fallbacks") === 1)
  }

  test("when a plan ends that keeps a job waiting, all slots are offered though nothing else happens") {
    val f = new Fixture
    f.late()
    val before = f.backend.revived
    until(f.backend.revived > before)
    assert(f.offer(1).size === 1)
  }

  test("a slot that a launch elsewhere frees is offered again") {
    val f = new Fixture("spark.sched.reservation.firstGap" -> "10min", "spark.sched.reservation.gap" -> "10min")
    f.holding()
    assert(f.offer(1, 2) === Nil && f.ours.counters("slots_held_now") === 1)
    f.submit(1, "first", priority = 9, host = Some("h2"))
    f.submit(2, "second", priority = 0)
    f.ours.resourceOffers(IndexedSeq.empty, isAllFreeResources = true)
    val before = f.backend.revived
    assert(f.offer(2).map(_.name).size === 1)
    assert(f.ours.counters("slots_held_now") === 0)
    assert(f.backend.revived === before + 1)
  }

  for (endsFirst <- Seq("task", "Spark job"))
    test(s"a cancelled stage keeps no slot while one of its tasks does not end: the $endsFirst ends first") {
      val f = new Fixture
      f.submit(0, "first", priority = 9, tasks = 2)
      val running = f.offer(1, 2)
      assert(running.size === 2)
      f.ours.killAllTaskAttempts(0, interruptThread = false, "cancelled")
      val ends = Seq(
        "task" -> (() => f.ours.statusUpdate(running.head.taskId, TaskState.KILLED, ByteBuffer.allocate(0))),
        "Spark job" -> (() => f.ours.sparkJobEnded(0, failed = true)))
      val before = f.backend.revived
      (ends.filter(_._1 == endsFirst) ++ ends.filter(_._1 != endsFirst)).foreach(_._2())
      assert(f.ours.counters("slots_held_now") === 0 && f.ours.counters("invariant_violations") === 0)
      if (endsFirst == "task") assert(f.backend.revived > before)
      f.submit(1, "second", priority = 0)
      assert(f.offer(running.head.executorId.drop(1).toInt).size === 1)
    }

  test("a slot that nobody else may use is given to a job that may only take spare ones") {
    val f = new Fixture
    val first = f.submit(0, "first", priority = 0)
    val failed = f.offer(1).head
    val other = f.submit(1, "other", priority = 0)
    assert(f.offer(2).size === 1) // It is busy, but may have room for the first job's task one day.
    val failure = new ExceptionFailure(new RuntimeException("failed on purpose"), Nil)
    f.ours.statusUpdate(failed.taskId, TaskState.FAILED, SparkEnv.get.closureSerializer.newInstance().serialize[Any](failure))
    until(f.ours.synchronized(first.taskSetExcludelistHelperOpt.exists(_.isExecutorExcludedForTask("e1", 0))))
    assert(f.offer(1) === Nil)
    val late = f.submit(2, "late", priority = 0)
    def entry(job: String, more: String) = s"""{"job": "$job", "rank": 0, "priority": 0, "reservation": null$more}"""
    f.plan(600000, Seq(entry(first.job, ""), entry(other.job, ""), entry(late.job, """, "deferred": true""")).mkString(","))
    assert(f.offer(1).map(task => f.ours.taskIdToTaskSetManager.get(task.taskId)) === Seq(late))
  }

  test("a stage that Spark attempts again for lost outputs keeps no slot for a retry, while another of its tasks does not end") {
    val f = new Fixture("spark.sched.reservation.gap" -> "0s")
    val manager = f.submit(0, "first", priority = 9, tasks = 2)
    val running = f.offer(1, 2)
    assert(running.size === 2)
    val lost = FetchFailed(null, 0, -1L, -1, running.head.partitionId, "outputs are gone")
    f.ours.statusUpdate(running.head.taskId, TaskState.FAILED, SparkEnv.get.closureSerializer.newInstance().serialize[Any](lost))
    until(f.ours.synchronized(manager.isZombie)) // Spark reads results in threads of its own.
    f.submit(1, "second", priority = 0)
    assert(f.offer(running.head.executorId.drop(1).toInt).size === 1)
    assert(f.ours.counters("slots_held_now") === 0 && f.ours.counters("invariant_violations") === 0)
  }

  test("a pilot that an earlier attempt of its stage completes keeps no other task waiting") {
    val f = new Fixture
    val manager = f.submit(0, "first", priority = 0, tasks = 3)
    val pilots = """, "pilots": {"stage": 0, "tasks": [0]}"""
    f.plan(600000, s"""{"job": "${manager.job}", "rank": 0, "priority": 0, "reservation": null$pilots}""")
    assert(manager.pilotsFirst && manager.waitingTasks === 1)
    f.ours.handlePartitionCompleted(0, 0)
    assert(!manager.pilotsFirst && manager.waitingTasks === 2)
  }

  test("a task that another attempt of its stage has done is done for the ledger, and waits for nothing while it still runs") {
    val f = new Fixture
    val manager = f.submit(0, "first", priority = 9, tasks = 3)
    val running = f.ours.taskIdToTaskSetManager.get(f.offer(1).head.taskId).taskInfos.values.head.index
    f.ours.handlePartitionCompleted(0, running)
    assert(f.ours.records.ledger.doneTasks(manager.stage) === Set(running) && manager.waitingTasks === 2)
    (0 until 3).filter(_ != running).foreach(f.ours.handlePartitionCompleted(0, _))
    assert(manager.waitingTasks === 0 && f.ours.counters("invariant_violations") === 0)
  }

  test("a task that waits is counted though a copy of another one runs") {
    val f = new Fixture
    val manager = f.submit(0, "first", priority = 0, tasks = 2)
    val running = f.offer(1, 2)
    assert(running.size === 2 && manager.waitingTasks === 0)
    manager.speculatableTasks += running.head.index
    manager.addPendingTask(running.head.index, speculatable = true)
    assert(f.offer(3).map(_.index) === Seq(running.head.index))
    val failure = new ExceptionFailure(new RuntimeException("failed on purpose"), Nil)
    f.ours.statusUpdate(running(1).taskId, TaskState.FAILED, SparkEnv.get.closureSerializer.newInstance().serialize[Any](failure))
    until(f.ours.synchronized(manager.copiesRunning(running(1).index) == 0))
    assert(manager.waitingTasks === 1)
  }

  for (end <- Seq(TaskState.FINISHED, TaskState.FAILED))
    test(s"a task that is $end waits for nothing before Spark has read its result, and nobody loses a slot for it") {
      val f = new Fixture
      val manager = f.submit(0, "first", priority = 9)
      val ending = f.offer(1).head
      f.submit(1, "victim", priority = 0)
      val victim = f.offer(2).head.taskId
      f.ours.synchronized { // Spark reads results in threads of its own, which wait for this.
        val result =
          if (end == TaskState.FINISHED) SeededRun.result
          else SparkEnv.get.closureSerializer.newInstance()
            .serialize[Any](new ExceptionFailure(new RuntimeException("failed on purpose"), Nil))
        f.ours.statusUpdate(ending.taskId, end, result)
        assert(manager.waitingTasks === 0 && manager.facts.waiting === 0)
        f.plan(600000, s"""{"job": "${manager.job}", "rank": 0, "priority": 9, "reservation": null, "victims": [$victim]}""")
        assert(f.backend.killed.isEmpty)
      }
      until(f.ours.synchronized(manager.isZombie || manager.waitingTasks == 1))
      assert(manager.waitingTasks === (if (end == TaskState.FINISHED) 0 else 1))
    }

  test("slots of an executor that the whole application has excluded are spare for nobody") {
    val f = new Fixture
    f.offer(1, 2)
    val failures = new ExecutorFailuresInTaskSet("h1")
    (0 until 9).foreach(failures.updateWithFailure(_, System.currentTimeMillis()))
    f.ours.healthTrackerOpt.get.updateExcludedForSuccessfulTaskSet(9, 0, mutable.HashMap("e1" -> failures))
    val near = f.submit(0, "near", priority = 0, host = Some("h1")) // It waits for its host before it takes the other slot.
    val late = f.submit(1, "late", priority = 0)
    def entry(job: String, more: String) = s"""{"job": "$job", "rank": 0, "priority": 0, "reservation": null$more}"""
    f.plan(600000, s"""${entry(near.job, "")},${entry(late.job, """, "deferred": true""")}""")
    assert(!f.offer(1, 2).exists(task => f.ours.taskIdToTaskSetManager.get(task.taskId) eq late))
  }

  test("a round of all executors is asked for once until it comes, or did not come for a while") {
    val backend = new CountingBackend
    var known: SchedulerBackend = null
    val revival = new Revival(() => known)
    revival.ask()
    known = backend
    def asked(times: Int): Unit = {
      revival.ask()
      revival.ask()
      assert(backend.revived === times)
    }
    asked(1)
    revival.offered(all = false)
    asked(1)
    revival.offered(all = true)
    asked(2)
    revival.look()
    asked(3)
    revival.stop()
    revival.offered(all = true)
    asked(3)
  }

  test("the earliest wake-up comes, and one that was lost keeps no later one away") {
    val woken = new LinkedBlockingQueue[Long]
    val timer = new WakeTimer(woken.put(_))
    def next: Long = woken.poll(600, TimeUnit.SECONDS)
    try {
      timer.arm(atMs = 5000000, nowMs = 1000)
      timer.arm(atMs = 1005, nowMs = 1000)
      assert(next === 1005)
      timer.arm(atMs = 1100, nowMs = 1099) // The last one was never taken for fired.
      timer.look(nowMs = 1099)
      timer.arm(atMs = 1101, nowMs = 1099)
      assert(next === 1101)
      timer.fired(1101)
      timer.arm(atMs = 1102, nowMs = 1101)
      assert(next === 1102)
    } finally timer.stop()
  }
}
