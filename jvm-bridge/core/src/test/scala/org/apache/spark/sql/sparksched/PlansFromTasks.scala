package org.apache.spark.sql.sparksched

import java.util.concurrent.{ConcurrentHashMap, TimeUnit}

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.spark.{MapOutputTrackerMaster, SparkEnv, TaskContext}
import org.apache.spark.scheduler.{SparkListener, SparkListenerStageSubmitted}
import org.apache.spark.sql.{DataFrame, SparkSession}
import org.apache.spark.sql.execution.SQLExecution
import org.apache.spark.sql.execution.adaptive.ShuffleQueryStageExec
import org.scalatest.{BeforeAndAfterAll, Suite}

/**
 * SQL queries whose tasks look at the plan of their own query: they run in the driver's process, and the plan stays as it
 * is while they run. A task looks where a statement says `seen('place', value)`, which is the value.
 */
trait PlansFromTasks extends BeforeAndAfterAll { this: Suite =>
  protected lazy val spark: SparkSession = {
    val session = SparkSession.builder().master("local[2]").appName("plans").config("spark.ui.enabled", "false")
      .config("spark.sql.shuffle.partitions", "5").getOrCreate()
    session.udf.register("seen", PlansFromTasks.seen)
    session
  }

  override def afterAll(): Unit = spark.stop()

  /** What the tasks found at each place. */
  protected def looks[A](settings: (String, String)*)(statement: String)(look: Long => A): Map[String, Set[A]] =
    withSettings(settings) {
      PlansFromTasks.found.clear()
      PlansFromTasks.look = look
      spark.sql(statement).collect()
      PlansFromTasks.found.asScala.toSeq.groupMap(_._1._1)(_._2.asInstanceOf[A]).view.mapValues(_.toSet).toMap
    }

  /**
   * The tasks that read the shuffles which are written while a task looks, as the plan tells from these sizes.
   *
   * @param begun number of shuffles of the same stage that have begun by then
   */
  protected def widths(settings: (String, String)*)(statement: String, begun: Int = 1)(
      sizes: Int => Option[Array[Long]]): Map[String, Set[Option[Int]]] =
    looks(settings: _*)(statement)(reader(_, begun, sizes)(_.tasks))

  /** What is looked for in the reader of this number of shuffles that have begun. */
  protected def reader[A](execution: Long, begun: Int, sizes: Int => Option[Array[Long]])(
      look: AdaptivePlans.Reader => Option[A]): Option[A] =
    // The plan learns the number of a shuffle right after its first tasks were submitted.
    soon((0 until 300).iterator.flatMap(AdaptivePlans.readerOf(execution, _, sizes)).find(_.shuffles.size >= begun).flatMap(look))

  private def soon[A](look: => Option[A]): Option[A] = {
    val end = System.nanoTime() + TimeUnit.SECONDS.toNanos(5)
    var found = look
    while (found.isEmpty && System.nanoTime() < end) {
      Thread.sleep(10)
      found = look
    }
    found
  }

  /** The bytes by partition of a statement's shuffles, by the number of tasks that wrote them, and the tasks of its last stage. */
  private def ran(settings: (String, String)*)(statement: String): (Map[Int, Array[Long]], Int) = withSettings(settings) {
    val tasks = mutable.ArrayBuffer.empty[Int]
    val listener = new SparkListener {
      override def onStageSubmitted(submitted: SparkListenerStageSubmitted): Unit = tasks += submitted.stageInfo.numTasks
    }
    spark.sparkContext.addSparkListener(listener)
    val rows: DataFrame = spark.sql(statement)
    try {
      rows.collect()
      spark.sparkContext.listenerBus.waitUntilEmpty()
    } finally spark.sparkContext.removeSparkListener(listener)
    val shuffles = WholePlan.collectWithSubqueries(rows.queryExecution.executedPlan) { case s: ShuffleQueryStageExec => s }
    shuffles.map(s => s.shuffle.numMappers -> s.mapStats.get.bytesByPartitionId).toMap -> tasks.last
  }

  /** The same statement twice: the tasks that its last stage has, and those that the plan tells while its shuffles are written. */
  protected def checked(settings: (String, String)*)(statement: String): (Int, Set[Option[Int]]) = {
    val (bytes, tasks) = ran(settings: _*)(statement)
    val tracker = SparkEnv.get.mapOutputTracker.asInstanceOf[MapOutputTrackerMaster]
    val told = widths(settings: _*)(statement, begun = bytes.size) { id =>
      // One that was submitted may not have been registered yet.
      soon(tracker.shuffleStatuses.get(id)).map(written => bytes(written.mapStatuses.length))
    }
    tasks -> told.values.flatten.toSet
  }

  private def withSettings[A](settings: Seq[(String, String)])(body: => A): A = {
    settings.foreach { case (key, value) => spark.conf.set(key, value) }
    try body
    finally {
      PlansFromTasks.look = _ => ()
      settings.foreach { case (key, _) => spark.conf.unset(key) }
    }
  }
}

object PlansFromTasks {
  /** By place and task. */
  val found = new ConcurrentHashMap[(String, Long), Any]
  @volatile var look: Long => Any = (_: Long) => ()

  val seen: (String, Long) => Long = (place, value) => {
    val task = TaskContext.get()
    val execution = Option(task.getLocalProperty(SQLExecution.EXECUTION_ID_KEY)).map(_.toLong)
    execution.foreach(e => found.computeIfAbsent(place -> task.taskAttemptId(), _ => look(e)))
    value
  }
}
