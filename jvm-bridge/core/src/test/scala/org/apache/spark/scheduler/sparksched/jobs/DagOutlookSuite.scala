package org.apache.spark.scheduler.sparksched
package jobs

import java.util.concurrent.atomic.AtomicReference

import org.apache.spark.{HashPartitioner, MapOutputTrackerMaster, ShuffleDependency, SparkConf, SparkContext, TaskContext}
import org.apache.spark.rdd.RDD
import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite
import schedcore.ledger.TaskShape

/** What the DAG of a small application says while a stage of it runs. */
final class DagOutlookSuite extends AnyFunSuite with BeforeAndAfterAll {
  private lazy val context = new SparkContext(
    new SparkConf().setMaster("local[2]").setAppName("outlook").set("spark.ui.enabled", "false"))

  override def afterAll(): Unit = context.stop()

  private def shuffleOf(rdd: RDD[_]): Int =
    rdd.dependencies.collectFirst { case d: ShuffleDependency[_, _, _] => d.shuffleId }.get

  /** What follows the stage in which `first` is computed, asked while its task runs: the event loop waits for it then. */
  private def outlook(first: RDD[(Int, Int)] => (() => Unit)): DagOutlook = {
    DagOutlookSuite.context.set(context)
    DagOutlookSuite.seen.set(null)
    val begin = context.parallelize(0 until 4, 1).map { i => DagOutlookSuite.look(); (i, i) }
    first(begin)()
    DagOutlookSuite.seen.get
  }

  test("a stage whose output is there will not run and is no reader, nor is what leads to it alone") {
    val found = outlook { begin =>
      val wide = begin.partitionBy(new HashPartitioner(5))
      val again = wide.map(_.swap).partitionBy(new HashPartitioner(3))
      again.count()
      // Now the first shuffle's output is lost; the second one's, which also reads it, is not.
      context.env.mapOutputTracker.asInstanceOf[MapOutputTrackerMaster]
        .unregisterAllMapAndMergeOutput(shuffleOf(wide))
      () => wide.zipPartitions(again.coalesce(3).repartition(5))((a, b) => a ++ b).count()
    }
    assert(found.nextTasks.contains(5))
    assert(found.next.map(_.slots) === Seq(5))
  }

  test("a stage of which some outputs are there needs slots for the other tasks alone") {
    val found = outlook { begin =>
      val wide = begin.partitionBy(new HashPartitioner(5))
      val again = wide.map(_.swap).partitionBy(new HashPartitioner(3))
      again.count()
      val master = context.env.mapOutputTracker.asInstanceOf[MapOutputTrackerMaster]
      master.unregisterAllMapAndMergeOutput(shuffleOf(wide))
      val written = master.shuffleStatuses(shuffleOf(again)).mapStatuses
      for (i <- 0 until 2) master.unregisterMapOutput(shuffleOf(again), i, written(i).location)
      () => again.count()
    }
    assert(found.nextTasks.contains(2))
    assert(found.next.map(_.slots) === Seq(2))
  }
}

object DagOutlookSuite {
  val context = new AtomicReference[SparkContext]
  val seen = new AtomicReference[DagOutlook]

  /** In a task of the stage. */
  def look(): Unit = {
    val at = TaskContext.get()
    val dag = context.get.dagScheduler
    val job = dag.stageIdToStage(at.stageId()).firstJobId
    seen.set(DagOutlook.of(dag, at.stageId(), job, profile => TaskShape(1, 1, profile)))
  }
}
