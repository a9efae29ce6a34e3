package org.apache.spark.scheduler.sparksched.lifecycles

import scala.util.Random

import org.apache.spark.SparkContext
import org.apache.spark.scheduler.sparksched.SparkSched
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd
import schedcore.marks.JobMark

/**
 * How a tenant says which job its Spark jobs belong to.
 *
 * @param properties local properties
 * @param ends what tells that the job is over
 * @param key the job's; None: each Spark job is its own job
 */
final class Mark(val properties: Map[String, String], ends: SparkContext => Unit, key: Option[String] = None) {
  def keyOf(sparkJob: Int): String = key.getOrElse(s"spark-$sparkJob")

  /** The same, from now on with other tags; some of these are no marks. A name makes one job of what had none. */
  def retagged(random: Random): Mark = {
    val name = if (key.isEmpty && random.nextInt(3) == 0) Some(s"tagged-${random.nextInt(3)}") else None
    val tags = name.map("sched:name=" + _) ++ Seq.fill(random.nextInt(4))(Mark.Tags(random.nextInt(Mark.Tags.size)))
    val others = properties - "spark.job.tags"
    val all = if (tags.isEmpty) others else others + ("spark.job.tags" -> tags.mkString(","))
    new Mark(all, ends, key.orElse(name.map("mark-name-" + _)))
  }

  /** The block's end; a second one does no harm. */
  def end(context: SparkContext): Unit = ends(context)
}

object Mark {
  private val Job = "spark.sched.job."

  private val Tags = IndexedSeq(
    "sched:priority=0", "sched:priority=3", "sched:isolation=0", "sched:isolation=1", "sched:copies=never", "sched:class=class-1",
    "sched:user=user-1", "sched:deadline=200 ms", "team-7", "sched:", "sched:priority=high", "sched:unknown=1")

  /** @param id unique */
  def draw(random: Random, id: String): Mark = random.nextInt(8) match {
    case 0 => new Mark(Map.empty, _ => ())
    case 1 => new Mark(Map("spark.jobGroup.id" -> s"group-$id") ++ wishes(random), _ => (), Some(s"group-group-$id"))
    case 2 => new Mark(Map("spark.job.tags" -> s"sched:priority=${random.nextInt(4)}"), _ => ())
    case 3 => // An execution's end reaches the scheduler by the listener bus alone.
      val execution = id.hashCode.toLong & 0xffffffffL
      val over = SparkListenerSQLExecutionEnd(execution, System.currentTimeMillis())
      val key = JobMark.keyOfSql(execution.toString)
      new Mark(Map("spark.sql.execution.id" -> execution.toString) ++ wishes(random), _.listenerBus.post(over), Some(key))
    case 4 => new Mark(Map(Job + "name" -> s"named-$id") ++ wishes(random), _ => (), Some(s"mark-name-named-$id"))
    case _ =>
      val name = if (random.nextBoolean()) s"nightly-${random.nextInt(5)}" else s"once-$id"
      new Mark(Map(Job + "id" -> id, Job + "name" -> name) ++ wishes(random), SparkSched.endJob(_, id), Some(JobMark.keyOf(id)))
  }

  private def wishes(random: Random): Map[String, String] = Seq(
    Option.when(random.nextInt(3) > 0)("priority" -> random.nextInt(4).toString),
    Option.when(random.nextInt(3) == 0)("isolation" -> Seq("0", "0.5", "1")(random.nextInt(3))),
    Option.when(random.nextInt(4) == 0)(
      "deadline" -> (System.currentTimeMillis() + Seq(5, 200, 5000)(random.nextInt(3))).toString),
    Option.when(random.nextInt(4) == 0)("copies" -> "never"),
    Option.when(random.nextInt(4) == 0)("class" -> s"class-${random.nextInt(3)}"),
    Option.when(random.nextInt(3) == 0)("user" -> s"user-${random.nextInt(3)}")
  ).flatten.map { case (field, value) => (Job + field) -> value }.toMap
}
