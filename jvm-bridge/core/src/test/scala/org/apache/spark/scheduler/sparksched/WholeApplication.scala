package org.apache.spark.scheduler.sparksched

import java.util.Properties

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode
import org.apache.spark.{SparkConf, SparkContext, TaskState}
import org.apache.spark.resource._
import org.apache.spark.scheduler._
import org.apache.spark.scheduler.sparksched.backend.PlannedAllocationSuite
import org.apache.spark.scheduler.sparksched.offers.SchedTaskSetManager
import schedcore.SteadyClock
import schedcore.settings.Settings
import scala.collection.mutable
import scala.jdk.CollectionConverters._

/**
 * An application that is written as data (`tools/application_walk.py`), under this scheduler and before executors that run nothing: a
 * task ends when its duration is over by a clock that goes from one event to the next.
 */
private final class WholeApplication(context: SparkContext, written: JsonNode) extends Waiting {
  import BetweenStepsSuite.UnrunTask
  import PlannedAllocationSuite.CountingBackend
  import WholeApplication._

  private var nowMs = 0L
  context.conf.set("spark.scheduler.mode", if (written.required("fair").asBoolean) "FAIR" else "FIFO")

  private val ours = new SchedTaskScheduler(
    context, 4, false, Settings.from(settings), steadyClock = new SteadyClock(() => BeginMs + nowMs, () => (BeginMs + nowMs) * 1000000L))
  private val dag = new DAGScheduler(context, ours)
  private val executors = elements(written, "executors").map(new Executor(_))
  private val jobs = elements(written, "jobs").zipWithIndex.map { case (job, number) => new Job(job, number) }
  private val backend = new CountingBackend
  private val launched = mutable.ArrayBuffer.empty[Launch]
  private var stages = 0
  private var plans = 0

  // What happens later: at one instant ends of tasks first, then stages, jobs and plans.
  private val agenda = mutable.PriorityQueue.empty[Later](Ordering.by((l: Later) => (l.atMs, l.kind, l.number)).reverse)
  private var numbers = 0

  /** When each task started: ms, job, stage, task, executor by number. */
  def run(): Seq[Launch] = {
    ours.initialize(backend)
    ours.timer.stop()
    elements(written, "pools").foreach { p =>
      val mode = if (p.required("fair").asBoolean) SchedulingMode.FAIR else SchedulingMode.FIFO
      ours.rootPool.addSchedulable(new Pool(p.required("name").asText, mode, p.required("min_share").asInt, p.required("weight").asInt))
    }
    jobs.foreach(job => later(job.atMs, 2)(job.submit()))
    elements(written, "plans").foreach(plan => later(plan.required("at_ms").asLong, 3)(offer(plan)))
    offerAll() // The executors are there from the beginning.
    var wakeMs = Option.empty[Long]
    while (agenda.nonEmpty || wakeMs.nonEmpty) {
      nowMs = (wakeMs ++ agenda.headOption.map(_.atMs)).min
      while (agenda.headOption.exists(_.atMs == nowMs)) agenda.dequeue().act()
      offerAll()
      wakeMs = nextWakeMs
    }
    assert(ours.synchronized(ours.counters("invariant_violations") + ours.counters("failed_open")) === 0)
    dag.stop()
    launched.toSeq.sorted
  }

  private def settings: Map[String, String] = written.required("settings").properties.asScala.map(e => e.getKey -> e.getValue.asText).toMap +
    ("spark.sched.planner.enabled" -> "false")

  private def later(atMs: Long, kind: Int)(act: => Unit): Unit = {
    numbers += 1
    agenda += new Later(atMs, kind, numbers, () => act)
  }

  /** When the scheduler's own timer would fire. */
  private def nextWakeMs: Option[Long] = ours.synchronized {
    val now = BeginMs + nowMs
    (ours.records.ledger.nextWakeMs(now) ++ ours.records.plans.starts.nextStartMs(now)).filter(_ > now).minOption.map(_ - BeginMs)
  }

  private final class Executor(json: JsonNode) {
    val id: String = json.required("executor").asText
    val profile: Int = Profiles(json.required("profile").asInt).id
    var free: Int = json.required("slots").asInt
    def offer: WorkerOffer = WorkerOffer(id, s"host-$id", free, Some(s"host-$id:1"), resourceProfileId = profile)
  }

  /** One tenant's job: its stages follow one another, each some time after the end of the one before. */
  private final class Job(json: JsonNode, number: Int) {
    val atMs: Long = json.required("at_ms").asLong
    private val key = json.required("key").asText
    private val marked = json.required("marked").asBoolean
    private val id = key.stripPrefix("mark-")
    private val left = mutable.Queue.from(elements(json, "stages"))
    private var submitted = 0
    private val properties = new Properties
    private def mark(name: String, value: String): Unit = properties.setProperty(s"spark.sched.job.$name", value)
    if (marked) mark("id", id)
    mark("priority", json.required("priority").asText)
    if (!json.required("isolation").isNull) mark("isolation", json.required("isolation").asText)
    if (!json.required("pool").isNull) properties.setProperty(SparkContext.SPARK_SCHEDULER_POOL, json.required("pool").asText)

    def submit(): Unit = {
      val stage = left.dequeue()
      val durations = elements(stage, "durations_ms").map(_.asLong)
      val (stageId, index) = (stages, submitted)
      stages += 1
      submitted += 1
      val tasks = Array.tabulate[Task[_]](durations.size)(
        new UnrunTask(stageId, 0, _, durations.size, properties, stage.required("gang").asBoolean))
      ours.submitTasks(new TaskSet(tasks, stageId, 0, number, properties, Profiles(stage.required("profile").asInt).id, None))
      val manager = ours.taskSetManagerForAttempt(stageId, 0).get.asInstanceOf[SchedTaskSetManager]
      assert(manager.job === key)
      running(stageId) = new Stage(this, number, index, durations, manager)
    }

    def stageEnded(): Unit = left.headOption match {
      case Some(next) =>
        val delayMs = next.required("delay_ms").asLong
        if (delayMs == 0) submit() else later(nowMs + delayMs, 1)(submit())
      case None =>
        ours.sparkJobEnded(number, failed = false)
        if (marked) ours.endJob(id)
    }
  }

  private final class Stage(val job: Job, val number: Int, val index: Int, val durations: IndexedSeq[Long], val manager: SchedTaskSetManager)
  private val running = mutable.HashMap.empty[Int, Stage]

  /** All executors, and again where the scheduler asks for it. */
  private def offerAll(): Unit = {
    var asked = true
    while (asked) {
      val before = backend.revived
      ours.resourceOffers(executors.map(_.offer), isAllFreeResources = true).flatten.foreach { task =>
        val stage = running(ours.taskIdToTaskSetManager.get(task.taskId).stageId)
        val executor = executors.indexWhere(_.id == task.executorId)
        executors(executor).free -= 1
        launched += ((nowMs, stage.number, stage.index, task.index, executor))
        later(nowMs + stage.durations(task.index), 0)(end(task, stage, executors(executor)))
      }
      asked = backend.revived > before
    }
  }

  private def end(task: TaskDescription, stage: Stage, executor: Executor): Unit = {
    ours.statusUpdate(task.taskId, TaskState.FINISHED, SeededRun.result)
    executor.free += 1
    // Spark reads results in threads of its own.
    until(ours.synchronized(stage.manager.taskInfos(task.taskId).finished))
    if (stage.manager.isZombie) stage.job.stageEnded()
  }

  private def offer(plan: JsonNode): Unit = {
    plans += 1
    val json = plan.deepCopy[ObjectNode]()
    json.put("schema", 1).put("plan", plans).put("snapshot", ours.records.events.currentVersion).put("made_at_ms", BeginMs + nowMs)
      .put("valid_for_ms", 3600000L).put("policy", "script")
    elements(json, "jobs").foreach { entry =>
      if (entry.has("start_ms")) entry.asInstanceOf[ObjectNode].put("start_ms", BeginMs + entry.required("start_ms").asLong)
      if (!entry.has("reservation")) entry.asInstanceOf[ObjectNode].putNull("reservation")
    }
    json.remove("at_ms")
    assert(ours.planOffered(json.toString) === "accepted")
  }
}

private object WholeApplication {
  type Launch = (Long, Int, Int, Int, Int)

  private val BeginMs = 1700000000000L

  private final class Later(val atMs: Long, val kind: Int, val number: Int, val act: () => Unit)

  private def elements(json: JsonNode, name: String): IndexedSeq[JsonNode] = json.required(name).elements().asScala.toIndexedSeq

  /** The default one, and two with executors of their own. */
  private val Profiles: IndexedSeq[ResourceProfile] = ResourceProfile.getOrCreateDefaultProfile(new SparkConf) +: IndexedSeq(1, 2).map { cores =>
    new ResourceProfileBuilder().require(new ExecutorResourceRequests().cores(cores)).require(new TaskResourceRequests().cpus(1)).build()
  }

  /** The manager itself refuses profiles on a local master. */
  def addProfiles(context: SparkContext): Unit = {
    val field = classOf[ResourceProfileManager].getDeclaredField("resourceProfileIdToResourceProfile")
    field.setAccessible(true)
    val known = field.get(context.resourceProfileManager).asInstanceOf[mutable.HashMap[Int, ResourceProfile]]
    Profiles.tail.foreach(p => known(p.id) = p)
  }
}
