package org.apache.spark.scheduler.sparksched

import java.nio.ByteBuffer
import java.util.Properties

import scala.collection.mutable

import org.apache.spark._
import org.apache.spark.executor.TaskMetrics
import org.apache.spark.rdd.RDD
import org.apache.spark.resource.ResourceProfile
import org.apache.spark.scheduler._
import org.apache.spark.status.api.v1.ThreadStackTrace
import org.apache.spark.util.{AccumulatorV2, CallSite}

/** A backend without executors: the benchmark makes the offers and ends the tasks. It only notes that offers were asked for. */
final class FakeBackend extends SchedulerBackend {
  @volatile var asked = false
  override def start(): Unit = ()
  override def stop(): Unit = ()
  override def reviveOffers(): Unit = asked = true
  override def killTask(taskId: Long, executorId: String, interruptThread: Boolean, reason: String): Unit = ()
  override def defaultParallelism(): Int = 1
  override def maxNumConcurrentTasks(profile: ResourceProfile): Int = Int.MaxValue
  override def getTaskThreadDump(taskId: Long, executorId: String): Option[ThreadStackTrace] = None
}

/** What the scheduler tells the DAG scheduler goes nowhere: its event loop would take processor time of its own. */
final class DeafDagScheduler(sc: SparkContext, scheduler: TaskScheduler) extends DAGScheduler(sc, scheduler) {
  override def taskStarted(task: Task[_], taskInfo: TaskInfo): Unit = ()
  override def taskGettingResult(taskInfo: TaskInfo): Unit = ()
  override def taskEnded(
      task: Task[_], reason: TaskEndReason, result: Any, accumUpdates: Seq[AccumulatorV2[_, _]], metricPeaks: Array[Long],
      taskInfo: TaskInfo): Unit = ()
  override def executorAdded(execId: String, host: String): Unit = ()
  override def executorLost(execId: String, reason: ExecutorLossReason): Unit = ()

  /** Enters a Spark job of two stages, a shuffle of `tasks` map tasks and its reader: what [[DagOutlook]] looks at. */
  def enter(id: Int, tasks: Int): Unit = {
    val (rows, shuffle) = DeafDagScheduler.shuffles.getOrElseUpdate((sc, tasks), {
      val pairs = sc.parallelize(0 until tasks, tasks).map(n => (n, n))
      (pairs, new ShuffleDependency[Int, Int, Int](pairs, new HashPartitioner(tasks)))
    })
    val site = CallSite("scale", "scale")
    val outputs = SparkEnv.get.mapOutputTracker.asInstanceOf[MapOutputTrackerMaster]
    val map = new ShuffleMapStage(id, rows, tasks, Nil, id, site, shuffle, outputs, 0)
    val reader = new ResultStage(
      DeafDagScheduler.Readers + id, rows, (_: TaskContext, _: Iterator[_]) => 0, (0 until tasks).toArray, List(map), id, site, 0)
    val job = new ActiveJob(id, reader, site, null, JobArtifactSet.emptyJobArtifactSet, new Properties, false)
    reader.setActiveJob(job)
    stageIdToStage(id) = map
    jobIdToActiveJob(id) = job
  }
}

object DeafDagScheduler {
  private val Readers = 1 << 24 // ids of the stages that read
  // Shared by the arms: an RDD of a thousand partitions is large.
  private val shuffles = mutable.HashMap.empty[(SparkContext, Int), (RDD[(Int, Int)], ShuffleDependency[Int, Int, Int])]
}

/** Results are read by the benchmark, at a time of its own. */
final class ManualResults(env: SparkEnv, scheduler: TaskSchedulerImpl) extends TaskResultGetter(env, scheduler) {
  override def enqueueSuccessfulTask(manager: TaskSetManager, tid: Long, data: ByteBuffer): Unit = ()
  override def enqueueFailedTask(manager: TaskSetManager, tid: Long, state: TaskState.TaskState, data: ByteBuffer): Unit = ()
}

final class FakeTask(stage: Int, index: Int, tasks: Int, properties: Properties)
    extends Task[Int](
      stage, 0, index, tasks, JobArtifactSet.emptyJobArtifactSet, properties, serializedTaskMetrics = FakeTask.metrics) {
  override def runTask(context: TaskContext): Int = 0
  override def preferredLocations: Seq[TaskLocation] = Nil
}

object FakeTask {
  // The tasks of a stage share these; each of its own would register accumulators.
  private lazy val metrics: Array[Byte] = SparkEnv.get.closureSerializer.newInstance().serialize(TaskMetrics.registered).array()
}
