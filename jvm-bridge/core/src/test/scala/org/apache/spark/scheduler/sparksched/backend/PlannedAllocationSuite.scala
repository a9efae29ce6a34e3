package org.apache.spark.scheduler.sparksched
package backend

import java.util.Properties

import scala.collection.mutable

import org.apache.spark.{ExecutorAllocationClient, JobArtifactSet, SparkConf, SparkContext, TaskContext}
import org.apache.spark.resource.ResourceProfile
import org.apache.spark.scheduler._
import org.apache.spark.scheduler.sparksched.offers.SchedTaskSetManager
import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite
import schedcore.settings.Settings

/** What a scheduler asks of a cluster: executors, and offers of their slots. */
final class PlannedAllocationSuite extends AnyFunSuite with BeforeAndAfterAll with Waiting {
  import PlannedAllocationSuite._

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
  private def capped(test: (SchedTaskScheduler, Cluster, SchedTaskSetManager) => Unit): Unit = {
    val ours = scheduler
    ours.initialize(new CountingBackend)
    val cluster = new Cluster
    val allocation = planned(ours, cluster)
    val late = submit(ours, stage = 0, "late", tasks = 9)
    plan(ours, s"""{"job": "${late.job}", "rank": 0, "priority": 0, "reservation": null, "deferred": true, "start_ms": ${Long.MaxValue}}""")
    assert(ours.resourceOffers(IndexedSeq(WorkerOffer("e1", "h1", 4)), isAllFreeResources = false).flatten.isEmpty)
    ours.askForExecutors()
    assert(allocation.requestTotalExecutors(Map(0 -> 5), Map(0 -> 2), Map(0 -> Map("h1" -> 2))))
    assert(cluster.asked === Seq(1))
    test(ours, cluster, late)
  }

  private def planned(ours: SchedTaskScheduler, cluster: Cluster) = {
    val made = new PlannedAllocation(cluster, () => ours.enforcing, ours.isExecutorBusy(_), least = 0, _.run())
    ours.allocation = Some(made)
    made
  }

  test("a task set that no executor may run gets another executor, whatever idles") {
    capped { (ours, cluster, late) =>
      ours.unschedulableTaskSetToExpiryTime(late) = Long.MaxValue
      ours.askForExecutors()
      assert(cluster.asked === Seq(1, 5))
    }
  }

  test("what no cluster heard of is asked for again, and what one granted is not") {
    capped { (ours, cluster, late) =>
      cluster.grants = false
      plan(ours, "")
      ours.askForExecutors()
      ours.askForExecutors()
      assert(cluster.asked === Seq(1, 5, 5))
      cluster.grants = true
      ours.askForExecutors()
      ours.askForExecutors()
      assert(cluster.asked === Seq(1, 5, 5, 5))
    }
  }

  test("idle slots of executors that are about to go are nobody's") {
    capped { (ours, cluster, _) =>
      ours.executorDecommission("e1", ExecutorDecommissionInfo("a test", None))
      ours.askForExecutors()
      assert(cluster.asked === Seq(1, 5))
    }
  }

  test("Spark's own scheduling wants as many executors as Spark does") {
    capped { (ours, cluster, _) =>
      ours.failOpen("slot", ())(throw new IllegalStateException("a test"))
      until(cluster.asked == Seq(1, 5))
    }
  }

  test("a plan changes nothing of where Spark wants executors") {
    capped { (ours, cluster, _) =>
      plan(ours, "")
      ours.askForExecutors()
      assert(cluster.asked === Seq(1, 5))
      assert(cluster.askedNear.toSet === Set((Map(0 -> 2), Map(0 -> Map("h1" -> 2)))))
    }
  }

  test("an executor that is busy is not decommissioned, and others are") {
    val cluster = new Cluster
    val allocation = new PlannedAllocation(cluster, () => true, _ == "busy", least = 0, _.run())
    val why = ExecutorDecommissionInfo("spark scale down", None)
    assert(allocation.decommissionExecutors(Array("busy" -> why), adjustTargetNumExecutors = false, triggeredByExecutor = false).isEmpty)
    assert(cluster.leaving.isEmpty)
    val left = allocation.decommissionExecutors(
      Array("busy" -> why, "idle" -> why), adjustTargetNumExecutors = false, triggeredByExecutor = false)
    assert(left === Seq("idle"))
    assert(cluster.leaving === Seq("idle"))
  }

  test("a cluster that cannot be asked is asked again") {
    capped { (ours, cluster, _) =>
      plan(ours, "")
      cluster.fails = true
      ours.askForExecutors()
      assert(cluster.asked === Seq(1))
      cluster.fails = false
      ours.askForExecutors()
      assert(cluster.asked === Seq(1, 5))
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

private[sparksched] object PlannedAllocationSuite {

  /** Writes down what it is asked for in all, and who is to leave. */
  final class Cluster extends ExecutorAllocationClient {
    @volatile var grants = true
    @volatile var fails = false
    private val requests = mutable.ArrayBuffer.empty[(Int, Map[Int, Int], Map[Int, Map[String, Int]])]
    val leaving = mutable.ArrayBuffer.empty[String]
    def asked: Seq[Int] = synchronized(requests.map(_._1).toList)
    def askedNear: Seq[(Map[Int, Int], Map[Int, Map[String, Int]])] = synchronized(requests.map(r => (r._2, r._3)).toList)

    override def requestTotalExecutors(
        totals: Map[Int, Int], localTasks: Map[Int, Int], hosts: Map[Int, Map[String, Int]]): Boolean = synchronized {
      if (fails) throw new IllegalStateException("a test")
      requests += ((totals.values.sum, localTasks, hosts))
      grants
    }
    override def decommissionExecutors(
        executors: Array[(String, ExecutorDecommissionInfo)], adjustTargetNumExecutors: Boolean,
        triggeredByExecutor: Boolean): Seq[String] = {
      leaving ++= executors.map(_._1)
      executors.map(_._1).toList
    }
    override def killExecutors(
        ids: Seq[String], adjustTargetNumExecutors: Boolean, countFailures: Boolean, force: Boolean): Seq[String] = ids
    override def requestExecutors(additional: Int): Boolean = grants
    override def getExecutorIds(): Seq[String] = Nil
    override def isExecutorActive(id: String): Boolean = true
    override def decommissionExecutorsOnHost(host: String): Boolean = false
    override def killExecutorsOnHost(host: String): Boolean = false
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
