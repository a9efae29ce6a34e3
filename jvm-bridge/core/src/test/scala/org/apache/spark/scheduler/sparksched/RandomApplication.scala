package org.apache.spark.scheduler.sparksched

import java.nio.ByteBuffer
import java.nio.file.Path
import java.util.Properties

import com.fasterxml.jackson.databind.ObjectMapper
import org.apache.spark._
import org.apache.spark.TaskState.TaskState
import org.apache.spark.resource._
import org.apache.spark.scheduler._
import org.apache.spark.scheduler.sparksched.backend.PlannedAllocationSuite
import org.apache.spark.scheduler.sparksched.offers.SchedTaskSetManager
import schedcore.SteadyClock
import schedcore.ledger.RecordedLedger
import schedcore.settings.Settings
import scala.collection.mutable
import scala.util.Random

/**
 * A whole application drawn from a seed, before executors that run nothing and under a clock that its own steps move: jobs with
 * marks, pools, resource profiles, gangs and pauses between their Spark jobs, plans, operators' changes, failed tasks, lost executors.
 * Its ledger writes its steps into the file.
 */
private final class RandomApplication(context: SparkContext, seed: Int, file: Path) extends Waiting {
  import BetweenStepsSuite.UnrunTask
  import PlannedAllocationSuite.CountingBackend
  import RandomApplication._

  private val random = new Random(seed)
  random.nextInt()
  private var timeMs = 1700000000000L
  private val fair = random.nextBoolean()
  context.conf.set(RecordedLedger.Setting, file.toString)
  context.conf.set("spark.scheduler.mode", if (fair) "FAIR" else "FIFO")

  private val ours = new SchedTaskScheduler(
    context, 4, false, Settings.from(settings), steadyClock = new SteadyClock(() => timeMs, () => timeMs * 1000000L))
  private val dag = new DAGScheduler(context, ours)
  private val executors = mutable.LinkedHashMap.empty[String, Executor]
  private val running = mutable.LinkedHashMap.empty[Long, (TaskDescription, SchedTaskSetManager)]
  private val jobs = IndexedSeq.tabulate(2 + random.nextInt(4))(new Job(_))
  private var numbers = 0 // of stages, Spark jobs and executors
  private var plans = 0

  /** Invariants that its ledger broke. */
  def run(): Long = {
    ours.initialize(new CountingBackend)
    ours.timer.stop()
    (1 to 2 + random.nextInt(3)).foreach(_ => addExecutor())
    var step = 0
    while (step < MostSteps && jobs.exists(!_.over)) {
      step += 1
      timeMs += Steps(random.nextInt(Steps.size))
      act()
      offerAll()
    }
    val broken = ours.synchronized(ours.counters("invariant_violations") + ours.counters("failed_open"))
    dag.stop()
    ours.records.ledger.asInstanceOf[RecordedLedger].close()
    context.conf.remove(RecordedLedger.Setting)
    broken
  }

  private def settings: Map[String, String] = {
    def one(values: String*) = values(random.nextInt(values.size))
    Map(
      "spark.sched.planner.enabled" -> "false",
      Settings.FirstGap.name -> one("0s", "1s", "3s"), Settings.Gap.name -> one("2s", "10s"),
      Settings.MaxHold.name -> one("2s", "10min"), Settings.IdleShare.name -> one("0", "0.25", "1"),
      Settings.LimitsIdleBurst.name -> one("0s", "1s", "5s"), Settings.LimitsIdleShare.name -> one("0.1", "0.4", "1"),
      Settings.Deadline.name -> one("calibrated", "pareto", "fixed"), Settings.Isolation.name -> one("0.3", "0.9", "1.0"),
      Settings.MinPriority.name -> one("0", "1"), Settings.Lookahead.name -> one("job", "stage"),
      Settings.PreReserveThreshold.name -> one("0.0", "0.5", "1.0"), Settings.CopiesMinTaskTime.name -> one("100ms", "1s"),
      Settings.IdleWaitingCost.name -> one("1", "2", "6.5"))
  }

  // ---- what happens ------------------------------------------------------------------------------------------

  private def act(): Unit = random.nextInt(24) match {
    case 0 | 1 | 2 | 3 => jobs(random.nextInt(jobs.size)).goOn()
    case 4 | 5 => plan()
    case 6 => timeMs += 500L + random.nextInt(4000) // a pause
    case 7 if executors.size > 1 && random.nextInt(3) == 0 => lose()
    case 7 if executors.size < 5 => addExecutor()
    case 8 if executors.size > 1 && random.nextInt(4) == 0 =>
      ours.executorDecommission(drawn(executors.keySet), ExecutorDecommissionInfo("on purpose", None))
    case 9 => steer()
    case _ if running.nonEmpty => (0 to random.nextInt(2)).foreach(_ => if (running.nonEmpty) end(drawn(running.keySet)))
    case _ => jobs(random.nextInt(jobs.size)).goOn()
  }

  /** One tenant's job: Spark jobs of stages, one after the other, with pauses where no step of it is drawn. */
  private final class Job(number: Int) {
    private val properties = new Properties
    private def mark(name: String, value: Any): Unit = properties.setProperty(s"spark.sched.job.$name", value.toString)
    private val named = random.nextInt(5) > 0
    if (named) mark("name", s"job $number")
    if (named && random.nextBoolean()) mark("isolation", Seq("0", "0.5", "1")(random.nextInt(3)))
    mark("priority", random.nextInt(4))
    if (random.nextInt(6) == 0) mark("copies", "false")
    if (fair) properties.setProperty(SparkContext.SPARK_SCHEDULER_POOL, s"pool ${random.nextInt(3)}")
    private val profile = Profiles(if (random.nextInt(4) == 0) 1 + random.nextInt(2) else 0)
    private var stagesLeft = 1 + random.nextInt(5)
    private var sparkJob = -1
    private var stage: Option[SchedTaskSetManager] = None

    def over: Boolean = stagesLeft == 0 && sparkJob < 0

    def key: Option[String] = stage.map(_.job)

    def goOn(): Unit =
      if (stage.exists(!_.isZombie)) ()
      else if (sparkJob >= 0 && (stagesLeft == 0 || random.nextInt(3) == 0)) {
        ours.sparkJobEnded(sparkJob, failed = random.nextInt(10) == 0)
        sparkJob = -1
      } else if (stagesLeft > 0) {
        stagesLeft -= 1
        if (sparkJob < 0) sparkJob = next()
        submit()
      }

    private def submit(): Unit = {
      val number = next()
      val tasks = 1 + random.nextInt(4)
      val gang = random.nextInt(12) == 0
      ours.submitTasks(new TaskSet(
        Array.tabulate[Task[_]](tasks)(new UnrunTask(number, 0, _, tasks, properties, gang)), number, 0, sparkJob, properties,
        profile.id, None))
      stage = ours.taskSetManagerForAttempt(number, 0).collect { case m: SchedTaskSetManager => m }
    }
  }

  private def plan(): Unit = {
    plans += 1
    val entries = random.shuffle(jobs.flatMap(_.key)).zipWithIndex.filter(_ => random.nextInt(5) > 0).map { case (job, rank) =>
      val reservation =
        if (random.nextInt(3) == 0) "null"
        else s"""{"isolation": ${Seq(0.0, 0.5, 1.0)(random.nextInt(3))}, "prereserve_threshold": ${random.nextInt(3) / 2.0},
                |"copies": ${random.nextBoolean()}, "stage_tasks": [${random.nextInt(5) + 1}, ${random.nextInt(5) + 1}]}""".stripMargin
      val more = random.nextInt(6) match {
        case 0 => s""", "pilots": {"stage": 0, "tasks": [${random.nextInt(2)}]}"""
        case 1 => """, "deferred": true"""
        case 2 => s""", "pool": {"name": "planned ${random.nextInt(2)}", "weight": ${1 + random.nextInt(3)}, "min_share": 0}"""
        case _ => ""
      }
      s"""{"job": ${Json.writeValueAsString(job)}, "rank": $rank, "priority": ${random.nextInt(4)}, "reservation": $reservation$more}"""
    }
    val said = ours.planOffered(
      s"""{"schema": 1, "plan": $plans, "snapshot": ${ours.records.events.currentVersion}, "made_at_ms": ${ours.nowMs},
         |"valid_for_ms": ${1000 + random.nextInt(9000)}, "policy": "test", "ordered": ${random.nextBoolean()},
         |"jobs": [${entries.mkString(", ")}]}""".stripMargin)
    assert(said === "accepted")
  }

  private def steer(): Unit = jobs(random.nextInt(jobs.size)).key.foreach { job =>
    ours.steering.steer("set", Map("job" -> job, "priority" -> random.nextInt(5).toString), "a test")
  }

  // ---- executors and tasks -----------------------------------------------------------------------------------

  private def addExecutor(): Unit = {
    val profile = if (random.nextInt(4) == 0) Profiles.last.id else ResourceProfile.DEFAULT_RESOURCE_PROFILE_ID
    val id = s"e${next()}"
    executors(id) = new Executor(1 + random.nextInt(3), profile)
  }

  private def lose(): Unit = {
    val id = drawn(executors.keySet)
    executors -= id
    running.filterInPlace((_, task) => task._1.executorId != id)
    ours.executorLost(id, ExecutorProcessLost("lost on purpose", None, causedByApp = false))
  }

  /** One executor at a time, in order: Spark shuffles several by chance. Gangs need all slots at once. */
  private def offerAll(): Unit = {
    def offer(some: Iterable[(String, Executor)]): Unit = ours.resourceOffers(
      some.map { case (id, e) => WorkerOffer(id, s"h$id", e.free, Some(s"h$id:1"), resourceProfileId = e.profile) }.toIndexedSeq,
      isAllFreeResources = false).flatten.foreach { task =>
        executors(task.executorId).free -= task.cpus.toInt
        running(task.taskId) = task -> ours.taskIdToTaskSetManager.get(task.taskId).asInstanceOf[SchedTaskSetManager]
      }
    executors.toSeq.foreach(each => offer(Seq(each)))
    offer(executors)
  }

  private def end(id: Long): Unit = {
    val (task, manager) = running.remove(id).get
    if (random.nextInt(12) == 0)
      report(task, TaskState.FAILED, serialized(new ExceptionFailure(new RuntimeException("failed on purpose"), Nil)))
    else report(task, TaskState.FINISHED, SeededRun.result)
    executors.get(task.executorId).foreach(_.free += task.cpus.toInt)
    // Spark reads results in threads of its own.
    until(ours.synchronized(manager.taskInfos(id).finished))
  }

  private def report(task: TaskDescription, state: TaskState, how: ByteBuffer): Unit = ours.statusUpdate(task.taskId, state, how)
  private def serialized(value: Any): ByteBuffer = SparkEnv.get.closureSerializer.newInstance().serialize(value)

  private def drawn[A](some: collection.Set[A]): A = some.iterator.drop(random.nextInt(some.size)).next()

  private def next(): Int = {
    numbers += 1
    numbers
  }
}

private object RandomApplication {
  private val MostSteps = 120
  private val Steps = IndexedSeq(0L, 10L, 50L, 200L, 200L, 1000L)
  private val Json = new ObjectMapper

  private final class Executor(var free: Int, val profile: Int)

  /** The default one, one whose tasks take two slots of a usual executor, and one with executors of its own. */
  private val Profiles: IndexedSeq[ResourceProfile] = IndexedSeq(
    ResourceProfile.getOrCreateDefaultProfile(new SparkConf), new TaskResourceProfile(new TaskResourceRequests().cpus(2).requests),
    new ResourceProfileBuilder().require(new ExecutorResourceRequests().cores(2)).require(new TaskResourceRequests().cpus(1)).build())

  /** The manager itself refuses profiles on a local master. */
  def addProfiles(context: SparkContext): Unit = {
    val field = classOf[ResourceProfileManager].getDeclaredField("resourceProfileIdToResourceProfile")
    field.setAccessible(true)
    val known = field.get(context.resourceProfileManager).asInstanceOf[mutable.HashMap[Int, ResourceProfile]]
    Profiles.tail.foreach(p => known(p.id) = p)
  }
}
