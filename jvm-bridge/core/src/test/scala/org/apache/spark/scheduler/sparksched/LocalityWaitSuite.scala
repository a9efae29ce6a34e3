package org.apache.spark.scheduler.sparksched

import java.util.concurrent.TimeUnit

import scala.concurrent.{Await, Future}
import scala.concurrent.ExecutionContext.Implicits.global
import scala.concurrent.duration._

import org.apache.spark.{Partition, SparkConf, SparkContext, TaskContext}
import org.apache.spark.rdd.RDD
import org.apache.spark.scheduler.{ExecutorProcessLost, WorkerOffer}
import org.apache.spark.scheduler.sparksched.offers.SchedTaskSetManager
import org.apache.spark.storage.StorageLevel
import org.apache.spark.util.Utils
import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite

/** Whether a job's tasks wait for executors near their input while slots that are held for them idle. */
final class LocalityWaitSuite extends AnyFunSuite with BeforeAndAfterAll {
  import LocalityWaitSuite._

  private lazy val context = new SparkContext(new SparkConf()
    .setMaster("spark-sched:local[4]").setAppName("locality").set("spark.ui.enabled", "false")
    .set("spark.sched.planner.enabled", "false").set("spark.sched.copies.enabled", "false")
    .set("spark.sched.reservation.firstGap", "1h").set("spark.sched.reservation.idleShare", "1")
    .set("spark.sched.limits.idleShare", "1").set("spark.locality.wait", "1h"))
  private lazy val scheduler = context.taskScheduler.asInstanceOf[SchedTaskScheduler]

  override def beforeAll(): Unit = {
    // An executor on a host of its own, all of whose slots are taken.
    scheduler.resourceOffers(IndexedSeq(WorkerOffer("far", Far, 0)), isAllFreeResources = false)
  }

  override def afterAll(): Unit = context.stop()

  /** Two tasks, then those of `next`, which prefer the host that has no free slots. */
  private def job(priority: Int)(next: RDD[(Int, Int)] => RDD[_]): Future[Long] = Future {
    context.setLocalProperty("spark.sched.job.priority", priority.toString)
    try next(context.parallelize(0 until 2, 2).map(i => (i, i)).repartition(2)).count()
    finally context.setLocalProperty("spark.sched.job.priority", null)
  }

  private def waits: Boolean = scheduler.synchronized {
    scheduler.rootPool.getSortedTaskSetQueue.exists {
      case m: SchedTaskSetManager => m.place.index == 1 && m.waitingTasks == 2 && scheduler.holdsIdle(m.job, "driver")
      case _ => false
    }
  }

  private def until(what: String)(state: => Boolean): Unit = {
    val end = System.nanoTime() + TimeUnit.MINUTES.toNanos(10)
    while (!state) {
      if (System.nanoTime() > end) fail(what)
      Thread.sleep(5)
    }
  }

  test("tasks that read shuffles alone take the slots that are held for them") {
    val done = job(10)(new Elsewhere(_))
    assert(Await.result(done, 10.minutes) === 2)
    assert(scheduler.counters("holds_total") > 0)
  }

  test("tasks that read what an executor caches, or other input, wait as Spark has them wait") {
    Seq[RDD[(Int, Int)] => RDD[_]](
      shuffled => new Elsewhere(shuffled).persist(StorageLevel.MEMORY_ONLY),
      shuffled => new Elsewhere(shuffled.zipPartitions(context.parallelize(0 until 2, 2))((a, _) => a))
    ).foreach { next =>
      val done = job(10)(next)
      until("the second stage was to wait beside held slots")(waits)
      val offer = WorkerOffer("driver", Utils.localHostName(), 4)
      assert(scheduler.resourceOffers(IndexedSeq(offer), isAllFreeResources = false).flatten === Nil)
      // Nobody is there any more to wait for.
      scheduler.executorLost("far", ExecutorProcessLost("gone"))
      scheduler.backend.reviveOffers()
      assert(Await.result(done, 10.minutes) === 2)
      beforeAll()
    }
  }
}

object LocalityWaitSuite {
  val Far = "far.example"

  /** The same rows; its tasks prefer a host. */
  final class Elsewhere(rows: RDD[(Int, Int)]) extends RDD[(Int, Int)](rows) {
    override def getPartitions: Array[Partition] = rows.partitions
    override def compute(split: Partition, task: TaskContext): Iterator[(Int, Int)] = rows.iterator(split, task)
    override def getPreferredLocations(split: Partition): Seq[String] = Seq(Far)
  }
}
