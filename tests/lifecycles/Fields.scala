package org.apache.spark.scheduler.sparksched.lifecycles

import java.lang.reflect.{Field, Modifier}
import java.util.IdentityHashMap

import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.Try

import org.apache.spark.scheduler.{DAGScheduler, TaskSchedulerImpl}

/**
 * Every collection that can be reached from the scheduler through objects of this project, by the path of fields.
 *
 * Found by reflection, so that a map that is added tomorrow is looked at, too.
 */
object Fields {
  private val Ours = Seq("schedcore.", "org.apache.spark.scheduler.sparksched.")
  private val MaxShown = 12

  /** Collections that are not empty, as (path, size, text). */
  def entries(root: AnyRef): Seq[(String, Int, String)] = {
    val found = mutable.LinkedHashMap.empty[String, (Int, String)]
    val seen = new IdentityHashMap[AnyRef, AnyRef]
    // Functions come last: what they have captured has a path of its own, as a field of its owner.
    val functions = mutable.Queue.empty[(String, AnyRef)]

    def walk(path: String, value: AnyRef): Unit =
      if (value != null && value.getClass.getName.contains("$$Lambda")) functions.enqueue(path -> value) else look(path, value)

    def look(path: String, value: AnyRef): Unit = if (value != null && seen.put(value, value) == null) elements(value) match {
      case Some(all) if value.isInstanceOf[Option[_]] => all.foreach(walk(path, _))
      case Some(all) =>
        if (all.nonEmpty) found(path) = (found.get(path).fold(0)(_._1) + all.size, shown(all))
        all.foreach(element => walk(path + "[]", element))
      case None if isOurs(value) => fields(value.getClass).foreach { f =>
        Try(f.get(value)).foreach(inner => walk(s"$path.${f.getName.split("\\$\\$").last}", inner))
      }
      case None =>
    }
    walk("", root)
    while (functions.nonEmpty) {
      val (path, function) = functions.dequeue()
      look(path, function)
    }
    found.iterator.map { case (path, (size, text)) => (path.stripPrefix("."), size, text) }.toSeq
  }

  private def isOurs(value: AnyRef): Boolean = Ours.exists(value.getClass.getName.startsWith)

  private def elements(value: AnyRef): Option[Seq[AnyRef]] = value match {
    case m: scala.collection.Map[_, _] => Some(m.toSeq.flatMap { case (k, v) => Seq(k, v) }.collect { case a: AnyRef => a })
    case i: scala.collection.Iterable[_] => Some(i.toSeq.collect { case a: AnyRef => a })
    case o: Option[_] => Some(o.toSeq.collect { case a: AnyRef => a })
    case m: java.util.Map[_, _] => Some(m.asScala.toSeq.flatMap { case (k, v) => Seq(k, v) }.collect { case a: AnyRef => a })
    case c: java.util.Collection[_] => Some(c.asScala.toSeq.collect { case a: AnyRef => a })
    case _ => None
  }

  private def shown(all: Seq[AnyRef]): String = {
    val texts = all.take(MaxShown).map(e => if (isOurs(e)) described(e) else String.valueOf(e))
    texts.mkString("", ", ", if (all.size > MaxShown) ", …" else "")
  }

  /** One line about an object of ours: its fields that are no objects of ours themselves. */
  private def described(value: AnyRef): String = value match {
    case product: Product => product.toString
    case _ => fields(value.getClass).flatMap(f => Try(f.get(value)).toOption.map(f.getName.split("\\$\\$").last -> _))
      .collect { case (name, v) if v == null || !isOurs(v) => s"$name=$v" }.mkString(s"${value.getClass.getSimpleName}(", " ", ")")
  }

  private def fields(of: Class[_]): Seq[Field] =
    Iterator.iterate[Class[_]](of)(_.getSuperclass).takeWhile(c => c != null && Ours.exists(c.getName.startsWith))
      .flatMap(_.getDeclaredFields).filterNot(f => Modifier.isStatic(f.getModifiers) || f.getType.isPrimitive)
      .filter(f => Try(f.setAccessible(true)).isSuccess).toSeq

  /** What Spark's own schedulers still know of, as (name, size). */
  def ofSpark(scheduler: TaskSchedulerImpl, dag: DAGScheduler): Seq[(String, Int)] = Seq(
    "taskIdToTaskSetManager" -> scheduler.taskIdToTaskSetManager.size,
    "taskIdToExecutorId" -> scheduler.taskIdToExecutorId.size,
    "running tasks" -> scheduler.runningTasksByExecutors.valuesIterator.sum,
    "task sets" -> scheduler.rootPool.getSortedTaskSetQueue.size,
    "activeJobs" -> dag.activeJobs.size,
    "stageIdToStage" -> dag.stageIdToStage.size,
    "jobIdToStageIds" -> dag.jobIdToStageIds.size).filter(_._2 > 0)
}
