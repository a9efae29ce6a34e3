package org.apache.spark.scheduler.sparksched

import java.util.Properties

import scala.collection.mutable
import scala.concurrent.Future

import org.apache.spark.{JobArtifactSet, SparkConf, SparkContext, TaskContext}
import org.apache.spark.deploy.client.StandaloneAppClient
import org.apache.spark.resource.ResourceProfile
import org.apache.spark.scheduler._
import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite
import schedcore.Settings

/** What a scheduler asks of a standalone cluster: executors of its master, and offers of its slots. */
final class PlannedStandaloneBackendSuite extends AnyFunSuite with BeforeAndAfterAll with Waiting {
  import PlannedStandaloneBackendSuite._

  private lazy val context = new SparkContext(new SparkConf()
    .setMaster("local[1]").setAppName("executors").set("spark.ui.enabled", "false")
    .set("spark.dynamicAllocation.enabled", "true").set("spark.dynamicAllocation.testing", "true")
    .set("spark.dynamicAllocation.shuffleTracking.enabled", "true"))

  override def afterAll(): Unit = context.stop()

  private def scheduler = {
    val made = new SchedTaskScheduler(context, 4, false, Settings.from(Map("spark.sched.planner.enabled" -> "false")))
    new DAGScheduler(context, made)
    made
  }

  /** With an executor of four slots, which idle since the plan lets the only job wait; Spark wants five executors. */
  private def capped(test: (SchedTaskScheduler, PlannedStandaloneBackend, Master, SchedTaskSetManager) => Unit): Unit = {
    val ours = scheduler
    val backend = new PlannedStandaloneBackend(ours, context, Array("spark://nowhere:1"))
    try {
      val master = new Master(context)
      backend.client = master
      ours.initialize(backend)
      val late = submit(ours, stage = 0, "late", tasks = 9)
      plan(ours, s"""{"job": "${late.job}", "rank": 0, "priority": 0, "reservation": null, "deferred": true, "start_ms": ${Long.MaxValue}}""")
      assert(ours.resourceOffers(IndexedSeq(WorkerOffer("e1", "h1", 4)), isAllFreeResources = false).flatten.isEmpty)
      ours.askForExecutors()
      backend.doRequestTotalExecutors(Map(context.resourceProfileManager.defaultResourceProfile -> 5))
      assert(master.asked === Seq(1))
      test(ours, backend, master, late)
    } finally context.env.rpcEnv.stop(backend.driverEndpoint)
  }

  test("a task set that no executor may run gets another executor, whatever idles") {
    capped { (ours, _, master, late) =>
      ours.unschedulableTaskSetToExpiryTime(late) = Long.MaxValue
      ours.askForExecutors()
      assert(master.asked === Seq(1, 5))
    }
  }

  test("what no master heard of is asked for again, and what one granted is not") {
    capped { (ours, backend, master, late) =>
      master.leads = false
      plan(ours, "")
      ours.askForExecutors()
      ours.askForExecutors()
      assert(master.asked === Seq(1, 5, 5))
      master.leads = true
      ours.askForExecutors()
      ours.askForExecutors()
      assert(master.asked === Seq(1, 5, 5, 5))
    }
  }

  test("idle slots of executors that are about to go are nobody's") {
    capped { (ours, _, master, _) =>
      ours.executorDecommission("e1", ExecutorDecommissionInfo("a test", None))
      ours.askForExecutors()
      assert(master.asked === Seq(1, 5))
    }
  }

  test("Spark's own scheduling wants as many executors as Spark does") {
    capped { (ours, _, master, _) =>
      ours.failOpen("slot", ())(throw new IllegalStateException("a test"))
      until(master.asked == Seq(1, 5))
    }
  }

  test("a round that starts nothing asks for one more at most") {
    val ours = scheduler
    val backend = new CountingBackend
    ours.initialize(backend)
    val begun = submit(ours, stage = 0, "begun", tasks = 1, host = Some("h1"))
    val late = submit(ours, stage = 1, "late", tasks = 1)
    val (first, second) = (WorkerOffer("e1", "h1", 2), WorkerOffer("e2", "h2", 1))
    // Executors are known, with nobody who may take their slots.
    def entry(job: String, more: String) = s"""{"job": "$job", "rank": 0, "priority": 0, "reservation": null$more}"""
    val wait = s""", "deferred": true, "start_ms": ${Long.MaxValue}"""
    plan(ours, entry(begun.job, wait) + "," + entry(late.job, wait))
    assert(ours.resourceOffers(IndexedSeq(first, second), isAllFreeResources = true).flatten.isEmpty)
    plan(ours, entry(begun.job, "") + "," + entry(late.job, """, "deferred": true"""))
    // One executor is about to go: Spark offers none of its slots. The other is not where the first job's data are.
    val before = backend.revived
    for (_ <- 1 to 5) assert(ours.resourceOffers(IndexedSeq(second), isAllFreeResources = true).flatten.isEmpty)
    assert(backend.revived - before <= 3)
  }

  private def submit(ours: SchedTaskScheduler, stage: Int, job: String, tasks: Int, host: Option[String] = None): SchedTaskSetManager = {
    val properties = new Properties
    properties.setProperty("spark.sched.job.name", job)
    ours.submitTasks(new TaskSet(
      Array.tabulate[Task[_]](tasks)(new LocalTask(stage, _, tasks, properties, host)), stage, 0, stage, properties,
      ResourceProfile.DEFAULT_RESOURCE_PROFILE_ID, None))
    ours.taskSetManagerForAttempt(stage, 0).get.asInstanceOf[SchedTaskSetManager]
  }

  private var plans = 0

  private def plan(ours: SchedTaskScheduler, jobs: String): Unit = {
    plans += 1
    val answer = ours.planOffered(
      s"""{"schema": 1, "plan": $plans, "snapshot": ${ours.books.events.currentVersion}, "made_at_ms": ${System.currentTimeMillis()},
         |"valid_for_ms": 600000, "policy": "test", "ordered": true, "jobs": [$jobs]}""".stripMargin)
    assert(answer === "accepted")
  }
}

private object PlannedStandaloneBackendSuite {

  /** Writes down what it is asked for in all. */
  final class Master(context: SparkContext)
      extends StandaloneAppClient(context.env.rpcEnv, Array("spark://nowhere:1"), null, null, context.conf) {
    @volatile var leads = true
    private val requests = mutable.ArrayBuffer.empty[Int]
    def asked: Seq[Int] = synchronized(requests.toSeq)

    override def requestTotalExecutors(totals: Map[ResourceProfile, Int]): Future[Boolean] = synchronized {
      requests += totals.values.sum
      Future.successful(leads)
    }
  }

  final class CountingBackend extends SchedulerBackend {
    var revived = 0
    val killed = mutable.ArrayBuffer.empty[Long]
    override def start(): Unit = ()
    override def stop(): Unit = ()
    override def reviveOffers(): Unit = revived += 1
    override def killTask(taskId: Long, executorId: String, interruptThread: Boolean, reason: String): Unit = killed += taskId
    override def defaultParallelism(): Int = 1
    override def maxNumConcurrentTasks(profile: ResourceProfile): Int = 1000
    override def getTaskThreadDump(taskId: Long, executorId: String) = None
  }

  /** A task that nobody runs, with data on a host. */
  final class LocalTask(stage: Int, index: Int, tasks: Int, properties: Properties, host: Option[String])
      extends Task[Int](stage, 0, index, tasks, JobArtifactSet.emptyJobArtifactSet, properties) {
    override def runTask(context: TaskContext): Int = 0
    override def preferredLocations: Seq[TaskLocation] = host.map(TaskLocation(_)).toSeq
  }
}
