package org.apache.spark.scheduler.sparksched

import java.nio.ByteBuffer
import java.util.Properties

import scala.collection.mutable
import scala.util.Random

import org.apache.spark._
import org.apache.spark.resource.ResourceProfile
import org.apache.spark.scheduler._
import org.apache.spark.serializer.SerializerHelper
import schedcore.settings.Settings

/**
 * What one measurement is of.
 *
 * @param executors of [[Cell.SlotsEach]] slots
 * @param taskSets that wait for slots, each of a job of its own
 * @param holding jobs of a higher priority that hold slots for their next stage
 * @param plan name of the plan's shape; see [[PlanText]]
 * @param marked the task sets' jobs are marked, so that they hold slots, too
 * @param deadline rule for the deadlines of holds
 */
final case class Cell(
    executors: Int, taskSets: Int, holding: Int, plan: String, mode: String, marked: Boolean, deadline: String) {
  def slots: Int = executors * Cell.SlotsEach
  /** Tasks of each task set: they never run out while a cell is measured, for a new one replaces each that ended. */
  def tasksEach: Int = math.max(Cell.FewestTasks, 2 * slots / taskSets)
  /** Tasks of each holding job: all of them together first run on a quarter of the slots. */
  def tasksHolding: Int = math.max(4, slots / 4 / math.max(1, holding))
}

object Cell {
  val SlotsEach = 16
  private val FewestTasks = 40
}

/** A scheduler, Spark's own or ours, with its cluster; every arm of a cell does the same with it. */
final class Arm(sc: SparkContext, val name: String, cell: Cell) {
  private val ownScheduler: Option[SchedTaskScheduler] = Option.when(name == Arm.Ours) {
    sc.conf.set("spark.scheduler.mode", cell.mode)
    new SchedTaskScheduler(sc, Arm.MaxFailures, false, Settings.from(
      Map("spark.sched.planner.enabled" -> "false", "spark.sched.reservation.deadline" -> cell.deadline)))
  }
  private val scheduler: TaskSchedulerImpl = ownScheduler.getOrElse {
    sc.conf.set("spark.scheduler.mode", cell.mode)
    new TaskSchedulerImpl(sc, Arm.MaxFailures, false)
  }
  private val backend = new FakeBackend
  private val dag = new DeafDagScheduler(sc, scheduler)
  private val random = new Random(Arm.Seed)
  private val free = mutable.LinkedHashMap.from((0 until cell.executors).map(n => s"executor-$n" -> Cell.SlotsEach))
  private val running = mutable.ArrayBuffer.empty[Attempt]
  private val holders = mutable.HashSet.empty[Int] // their stages
  private var stages = 0
  private var plans = 0L
  private val result = {
    val direct = new DirectTaskResult[Int](
      SerializerHelper.serializeToChunkedBuffer(SparkEnv.get.serializer.newInstance(), 0), Nil, Array.emptyLongArray)
    direct.value() // decoded once
    direct
  }
  private val nothing = ByteBuffer.allocate(0)
  /** Tasks that ended, of all. */
  var ended = 0

  scheduler.initialize(backend)
  scheduler.taskResultGetter.stop()
  scheduler.taskResultGetter = new ManualResults(SparkEnv.get, scheduler)

  private final class Attempt(val tid: Long, val executor: String, val manager: TaskSetManager)

  // ---- the cell ------------------------------------------------------------------------------------------------

  /** Fills the cluster: holding jobs first, of whose tasks three quarters then end, so that these slots are held. */
  def fill(): Unit = {
    (0 until cell.holding).foreach { _ => submit(cell.tasksHolding, holds = true) }
    offerAll(new Laps)
    (0 until cell.taskSets).foreach { _ => submit(cell.tasksEach, holds = false) }
    offerAll(new Laps)
    val over = running.filter(a => holders(a.manager.stageId)).groupBy(_.manager.stageId).toSeq.sortBy(_._1)
      .flatMap { case (_, of) => of.take(of.size * 3 / 4) }.toSet
    running.filterInPlace(!over(_))
    over.toSeq.sortBy(_.tid).foreach { a => end(a, new Laps); listen() }
    offerAll(new Laps)
    listen()
    backend.asked = false
  }

  private def submit(tasks: Int, holds: Boolean): Unit = {
    val stage = stages
    stages += 1
    val properties = new Properties
    def mark(id: String, name: String, priority: Int): Unit = Seq("id" -> id, "name" -> name, "priority" -> priority.toString)
      .foreach { case (key, value) => properties.setProperty(s"spark.sched.job.$key", value) }
    if (holds) mark(s"holding-$stage", s"holding ${stage % Arm.Names}", 5)
    else if (cell.marked) mark(s"marked-$stage", s"report ${stage % Arm.Names}", 1)
    if (cell.mode == "FAIR") properties.setProperty("spark.scheduler.pool", s"pool-${stage % 10}")
    if (holds || cell.marked) dag.enter(stage, tasks)
    if (holds) holders += stage
    scheduler.submitTasks(new TaskSet(
      Array.tabulate[Task[_]](tasks)(new FakeTask(stage, _, tasks, properties)), stage, 0, stage, properties,
      ResourceProfile.DEFAULT_RESOURCE_PROFILE_ID, None))
  }

  // ---- what is measured ----------------------------------------------------------------------------------------

  /** Ends that many random tasks: each is reported, its slot is offered, and its result is read. */
  def churn(tasks: Int, laps: Laps): Unit = {
    for (n <- 0 until tasks) {
      end(leave(), laps)
      if (n % 500 == 0) listen()
      // Rounds of all executors that our scheduler asks for belong to the cost of a task's end; see `asked`.
      if (backend.asked) {
        backend.asked = false
        laps.count("asked")
      }
    }
    listen()
  }

  /** All executors are offered, while no slot or the slots of `freed` tasks that just ended are free. */
  def round(freed: Int, laps: Laps): Unit = {
    (0 until freed).foreach { _ =>
      val a = leave()
      scheduler.statusUpdate(a.tid, TaskState.FINISHED, nothing)
      free(a.executor) += 1
      over(a, new Laps)
    }
    offerAll(laps, if (freed == 0) "round" else "burst")
    backend.asked = false
    listen()
  }

  /** Gives our scheduler a plan for all jobs. */
  def plan(laps: Laps): Unit = ownScheduler.filter(_ => cell.plan != PlanText.None).foreach { ours =>
    val jobs = (0 until stages).map(n => if (holders(n)) s"mark-holding-$n" else if (cell.marked) s"mark-marked-$n" else s"spark-$n")
    def next(): String = {
      plans += 1
      PlanText(cell.plan, jobs.filter(ours.records.ledger.ruleOf(_).isDefined), plans, ours.records.events.currentVersion, ours.nowMs)
    }
    def taken(answer: String): Unit = if (answer != "accepted") laps.complain(s"plan $plans was not taken: $answer")
    val text = next()
    taken(laps.time("plan")(ours.planOffered(text)))
    val read = ours.planRead(next())
    taken(laps.time("locked")(ours.planTaken(read)))
  }

  /** The document of the status, and its part under the scheduler's lock. */
  def status(laps: Laps): Unit = ownScheduler.foreach { ours =>
    laps.time("document")(ours.status.document)
    laps.time("copy")(ours.synchronized(ours.status.copied(ended = false, onExecutors = true)))
    laps.time("counters")(ours.countersAtHand)
  }

  /** What must be true of our scheduler when a cell has been measured. */
  def complaints: Seq[String] = ownScheduler.toSeq.flatMap { ours =>
    val counters = ours.counters
    Option.when(ours.failOpen.isOpen)("scheduling failed open").toSeq ++
      Option.when(counters.getOrElse("invariant_violations", 0L) > 0)(s"${counters("invariant_violations")} invariants are violated") ++
      Option.when(cell.holding > 0 && held == 0)("no slot is held")
  }

  def held: Int = ownScheduler.fold(0)(_.records.ledger.heldSlots)
  def runs: Int = running.size

  def close(): Unit = {
    dag.stop()
    ownScheduler.foreach(_.timer.stop())
  }

  // ---- steps ---------------------------------------------------------------------------------------------------

  /**
   * A task of those that are not of holding jobs: theirs go on. A random one of the quarter that began first: otherwise the
   * last tasks of each task set would run for so long that all tasks of the others begin, and none is left that waits.
   */
  private def leave(): Attempt = {
    def any: Int = random.nextInt(math.max(1, running.size / 4))
    var at = any
    while (holders(running(at).manager.stageId)) at = any
    running.remove(at)
  }

  private def end(a: Attempt, laps: Laps): Unit = {
    laps.time("end")(scheduler.statusUpdate(a.tid, TaskState.FINISHED, nothing))
    free(a.executor) += 1
    val offers = IndexedSeq(offerOf(a.executor))
    launched(laps.time("offer")(scheduler.resourceOffers(offers, false)))
    over(a, laps)
  }

  private def over(a: Attempt, laps: Laps): Unit = {
    laps.time("result")(scheduler.handleSuccessfulTask(a.manager, a.tid, result))
    ended += 1
    if (a.manager.isZombie && !holders(a.manager.stageId)) submit(cell.tasksEach, holds = false)
  }

  private def offerAll(laps: Laps, as: String = "round"): Unit = {
    val offers = free.keysIterator.map(offerOf).toIndexedSeq
    launched(laps.time(as)(scheduler.resourceOffers(offers, true)))
  }

  private def offerOf(executor: String): WorkerOffer =
    WorkerOffer(executor, s"host-of-$executor", BigDecimal(free(executor)), Some(s"host-of-$executor:1"))

  private def launched(tasks: Seq[Seq[TaskDescription]]): Unit = tasks.foreach(_.foreach { t =>
    free(t.executorId) -= 1
    running += new Attempt(t.taskId, t.executorId, scheduler.taskIdToTaskSetManager.get(t.taskId))
  })

  /** Reads events as a planner would: without one they would pile up and be dropped. */
  private def listen(): Unit = ownScheduler.foreach { ours =>
    while (ours.records.events.poll(Arm.Events, 0).events.nonEmpty) {}
  }
}

object Arm {
  val Ours = "ours"
  private val MaxFailures = 4
  private val Seed = 7
  private val Names = 17
  private val Events = 2000
}
