package org.apache.spark.scheduler.sparksched

import java.nio.ByteBuffer
import java.util.Properties
import java.util.concurrent.TimeUnit

import scala.collection.mutable
import scala.util.Random

import org.apache.spark.{JobArtifactSet, SparkConf, SparkContext, SparkEnv, TaskContext, TaskState}
import org.apache.spark.resource.ResourceProfile
import org.apache.spark.scheduler._
import org.apache.spark.serializer.SerializerHelper
import org.apache.spark.status.api.v1.ThreadStackTrace
import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite
import schedcore.settings.{Modes, Settings}

/** In shadow mode every placement is the stock scheduler's, and what would have been done is written down. */
final class ShadowSuite extends AnyFunSuite with BeforeAndAfterAll {
  private lazy val context = new SparkContext(
    new SparkConf().setMaster("local[1]").setAppName("shadow").set("spark.ui.enabled", "false"))

  override def afterAll(): Unit = context.stop()

  private def stock = new TaskSchedulerImpl(context, 4, true)
  private def ours(mode: String) = new SchedTaskScheduler(
    context, 4, true, Settings.from(Map("spark.sched.mode" -> mode, "spark.sched.planner.enabled" -> "false",
      // Nobody kills the slower twin of a copy here.
      "spark.sched.copies.enabled" -> (mode == Modes.Shadow).toString)))

  test("placements are the stock scheduler's, whatever would have been held") {
    val seeds = 1 to 25
    val shadows = seeds.map { seed =>
      val scheduler = ours(Modes.Shadow)
      val placed = new SeededRun(context, scheduler, seed).run()
      assert(placed === new SeededRun(context, stock, seed).run(), s"seed $seed")
      scheduler.counters
    }
    def sum(key: String) = shadows.map(_(key)).sum
    assert(sum("holds_total") === 0 && sum("offers_refused") === 0 && sum("copies_launched") === 0)
    assert(sum("would_have_holds_total") > 0 && sum("would_have_offers_refused") > 0)
    assert(sum("invariant_violations") === 0 && sum("failed_open") === 0)
  }

  test("the same jobs are placed otherwise where holds are enforced, and as by the stock scheduler where all is off") {
    val seeds = 1 to 10
    assert(seeds.exists(seed => new SeededRun(context, ours(Modes.On), seed).run() != new SeededRun(context, stock, seed).run()))
    seeds.foreach { seed =>
      val scheduler = ours(Modes.Off)
      assert(new SeededRun(context, scheduler, seed).run() === new SeededRun(context, stock, seed).run())
      assert(scheduler.counters("holds_total") === 0)
    }
  }

  test("a planner is wanted unless all is off, and a switch changes that") {
    val planned = Settings.from(Map("spark.sched.mode" -> Modes.Off))
    val scheduler = new SchedTaskScheduler(context, 4, true, planned)
    assert(!scheduler.status.document.planner.enabled)
    val wanted = new SchedTaskScheduler(context, 4, true, Settings.from(Map("spark.sched.mode" -> Modes.Shadow)))
    assert(wanted.status.document.planner.enabled)
    assert(wanted.steering.steer("mode", Map("name" -> Modes.Off), "a test").isRight)
    assert(!wanted.status.document.planner.enabled)
    assert(!ours(Modes.On).status.document.planner.enabled)
  }

  test("modes change while tasks run, and the books stay right") {
    val scheduler = ours(Modes.Off)
    val modes = Iterator.continually(Seq(Modes.Shadow, Modes.On, Modes.Off)).flatten
    val run = new SeededRun(context, scheduler, 7, step => if (step % 5 == 0) {
      assert(scheduler.steering.steer("mode", Map("name" -> modes.next()), "a test").isRight)
      assert(scheduler.synchronized(scheduler.counters("invariant_violations")) === 0)
    })
    assert(run.run().nonEmpty)
    assert(scheduler.counters("failed_open") === 0)
    assert(scheduler.steering.steer("mode", Map("name" -> "dim"), "a test").left.exists(_.sentence.contains("must be one of on, shadow, off")))
  }
}

/** A task that nobody runs. */
private final class NoTask(stage: Int, index: Int, tasks: Int, properties: Properties)
    extends Task[Int](stage, 0, index, tasks, JobArtifactSet.emptyJobArtifactSet, properties) {
  override def runTask(context: TaskContext): Int = 0
  override def preferredLocations: Seq[TaskLocation] = Nil
}

private object NoBackend extends SchedulerBackend {
  override def start(): Unit = ()
  override def stop(): Unit = ()
  override def reviveOffers(): Unit = ()
  override def killTask(taskId: Long, executorId: String, interruptThread: Boolean, reason: String): Unit = ()
  override def defaultParallelism(): Int = 1
  override def maxNumConcurrentTasks(profile: ResourceProfile): Int = 1000
  override def getTaskThreadDump(taskId: Long, executorId: String): Option[ThreadStackTrace] = None
}

/**
 * Jobs of some stages each, one after the other, on executors that run nothing: which task ends next and which stage is
 * submitted next is drawn from the seed. Executors are offered one at a time: Spark shuffles several by chance.
 */
private final class SeededRun(context: SparkContext, scheduler: TaskSchedulerImpl, seed: Int, each: Int => Unit = _ => ()) {
  private val random = new Random(seed)
  random.nextInt()
  private val slots = 2
  private val free = mutable.LinkedHashMap.from((1 to 3).map(n => s"e$n" -> slots))
  private val placed = mutable.ArrayBuffer.empty[(Int, Int, String)]
  private val running = mutable.ArrayBuffer.empty[(TaskDescription, TaskSetManager)]
  private val stagesLeft = mutable.LinkedHashMap.from((0 until 5).map(_ -> (1 + random.nextInt(3))))
  private val active = mutable.LinkedHashMap.empty[Int, TaskSetManager] // by job
  private var stages = 0

  /** Stage, index and executor of each launch, in order. */
  def run(): Seq[(Int, Int, String)] = {
    new DAGScheduler(context, scheduler)
    scheduler.initialize(NoBackend)
    var step = 0
    while (step < 2000 && (stagesLeft.nonEmpty || active.nonEmpty)) {
      step += 1
      each(step)
      val ready = stagesLeft.keys.filterNot(active.contains).toSeq
      if (ready.nonEmpty && (running.isEmpty || random.nextInt(4) == 0)) {
        submit(ready(random.nextInt(ready.size)))
        offerAll()
      } else if (running.nonEmpty) finish(random.nextInt(running.size))
      else offerAll()
    }
    placed.toSeq
  }

  private def submit(job: Int): Unit = {
    val properties = new Properties
    properties.setProperty("spark.sched.job.name", s"job $job")
    properties.setProperty("spark.sched.job.priority", (job % 3).toString)
    val tasks = 1 + random.nextInt(5)
    val stage = stages
    stages += 1
    scheduler.submitTasks(new TaskSet(
      Array.tabulate[Task[_]](tasks)(new NoTask(stage, _, tasks, properties)), stage, 0, job, properties,
      ResourceProfile.DEFAULT_RESOURCE_PROFILE_ID, None))
    active(job) = scheduler.taskSetManagerForAttempt(stage, 0).get
    if (stagesLeft(job) == 1) stagesLeft -= job else stagesLeft(job) -= 1
  }

  private def offerAll(): Unit = free.keys.foreach(offer)

  private def offer(executor: String): Unit =
    scheduler.resourceOffers(IndexedSeq(WorkerOffer(executor, "host", free(executor))), false).flatten.foreach { task =>
      val manager = scheduler.taskIdToTaskSetManager.get(task.taskId)
      free(executor) -= 1
      placed += ((manager.stageId, task.index, executor))
      running += task -> manager
    }

  private def finish(which: Int): Unit = {
    val (task, manager) = running.remove(which)
    val done = manager.tasksSuccessful
    scheduler.statusUpdate(task.taskId, TaskState.FINISHED, SeededRun.result)
    val until = System.nanoTime() + TimeUnit.MINUTES.toNanos(10)
    // Spark reads results in threads of its own.
    while (scheduler.synchronized(manager.tasksSuccessful) == done && System.nanoTime() < until) Thread.sleep(1)
    if (manager.tasksSuccessful == manager.numTasks) active.filterInPlace((_, m) => m ne manager)
    free(task.executorId) += 1
    offer(task.executorId)
  }
}

private object SeededRun {
  def result: ByteBuffer = {
    val value = SerializerHelper.serializeToChunkedBuffer(SparkEnv.get.serializer.newInstance(), 0)
    SparkEnv.get.closureSerializer.newInstance().serialize(new DirectTaskResult[Int](value, Nil, Array.emptyLongArray))
  }
}
