package org.apache.spark.scheduler.sparksched

import java.util.concurrent.{CountDownLatch, TimeUnit}
import java.util.concurrent.atomic.AtomicInteger

import scala.concurrent.{Await, Future}
import scala.concurrent.ExecutionContext.Implicits.global
import scala.concurrent.duration._
import scala.jdk.CollectionConverters._

import org.apache.spark.{SparkConf, SparkContext}
import org.apache.spark.scheduler.sparksched.offers.SchedTaskSetManager
import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite

/** Which tasks the driver runs again for its own ends, in an application of its own. */
final class RestartableSuite extends AnyFunSuite with BeforeAndAfterAll {
  private lazy val context = new SparkContext(new SparkConf()
    .setMaster("spark-sched:local[4]").setAppName("restartable").set("spark.ui.enabled", "false")
    .set("spark.sched.planner.enabled", "false")
    .set("spark.speculation", "true").set("spark.speculation.multiplier", "0.01").set("spark.speculation.quantile", "0.5")
    .set("spark.speculation.efficiency.enabled", "false"))
  private lazy val scheduler = context.taskScheduler.asInstanceOf[SchedTaskScheduler]
  private var plans = 0

  override def afterAll(): Unit = context.stop()

  /** A job of four tasks: two end at once, two when they are let go; runs `body` with its stage while the two run. */
  private def halfway(marks: (String, String)*)(body: SchedTaskSetManager => Unit): Int = {
    RestartableSuite.reset()
    val done = Future {
      marks.foreach { case (key, value) => context.setLocalProperty(key, value) }
      try context.parallelize(0 until 4, 4).foreach(RestartableSuite.task)
      finally marks.foreach { case (key, _) => context.setLocalProperty(key, null) }
    }
    try body(until("two of four tasks were to run") {
      scheduler.rootPool.schedulableQueue.asScala.collectFirst {
        case m: SchedTaskSetManager
            if m.tasksSuccessful == 2 && m.runningTasks == 2 && RestartableSuite.starts.get == 4 => m
      }
    })
    finally RestartableSuite.letGo.countDown()
    Await.result(done, 10.minutes)
    RestartableSuite.starts.get
  }

  private def until[A](what: String)(found: => Option[A]): A = {
    val end = System.nanoTime() + TimeUnit.MINUTES.toNanos(10)
    var seen = found
    while (seen.isEmpty && System.nanoTime() < end) {
      Thread.sleep(5)
      seen = found
    }
    seen.getOrElse(fail(what))
  }

  private def plan(jobs: String): Unit = {
    plans += 1
    val now = System.currentTimeMillis()
    val answer = scheduler.planOffered(
      s"""{"schema": 1, "plan": $plans, "snapshot": ${scheduler.books.events.currentVersion}, "made_at_ms": $now,
         |"valid_for_ms": 600000, "policy": "test", "ordered": true, "jobs": [$jobs]}""".stripMargin)
    assert(answer === "accepted")
  }

  /** By one plan; under the next one what was evicted may run again. */
  private def evict(job: String): Unit = {
    plan(s"""{"job": "$job", "rank": 0, "priority": 0, "reservation": null, "reason": "a test", "evict": true}""")
    plan("")
  }

  /** The same, and what ran of the job has stopped. */
  private def evictWhole(job: String): Unit = {
    evict(job)
    until("two tasks were to be killed")(Option.when(RestartableSuite.stopped.get == 2)(()))
  }

  private def evictions: Long = scheduler.counters("evictions")

  test("tasks of an ordinary job are evicted and run again") {
    val before = evictions
    assert(halfway()(m => evictWhole(m.job)) === 6)
    assert(evictions === before + 2)
  }

  test("no task of a job that forbids it runs twice") {
    val before = evictions
    assert(halfway("spark.sched.job.name" -> "once", "spark.sched.job.copies" -> "never")(m => evict(m.job)) === 4)
    assert(evictions === before)
  }

  test("a stream's tasks are evicted only where the job asks for it") {
    val stream = "sql.streaming.queryId" -> "4c1f"
    val before = evictions
    assert(halfway(stream)(m => evict(m.job)) === 4)
    assert(evictions === before)
    assert(halfway(stream, "spark.sched.job.copies" -> "auto")(m => evictWhole(m.job)) === 6)
    assert(evictions === before + 2)
  }

  test("Spark's own speculation leaves alone the jobs that forbid it, and no others") {
    val speculates = (m: SchedTaskSetManager) => scheduler.synchronized(m.checkSpeculatableTasks(0))
    halfway()(m => assert(speculates(m)))
    halfway("sql.streaming.queryId" -> "4c1f")(m => assert(speculates(m)))
    halfway("spark.sched.job.copies" -> "never")(m => assert(!speculates(m)))
  }
}

/** Tasks run in this very process. */
object RestartableSuite {
  val starts = new AtomicInteger
  val stopped = new AtomicInteger
  @volatile var letGo = new CountDownLatch(1)

  def reset(): Unit = {
    starts.set(0)
    stopped.set(0)
    letGo = new CountDownLatch(1)
  }

  val task: Int => Unit = n => {
    // Those that were evicted run again, and end then.
    val first = starts.incrementAndGet() <= 4
    if (n < 2) Thread.sleep(50)
    else if (first) try letGo.await() catch {
      case killed: InterruptedException =>
        stopped.incrementAndGet()
        throw killed
    }
  }
}
