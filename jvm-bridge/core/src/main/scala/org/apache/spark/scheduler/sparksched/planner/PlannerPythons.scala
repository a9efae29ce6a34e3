package org.apache.spark.scheduler.sparksched
package planner

import java.io.{File, IOException}

import org.apache.spark.SparkConf
import schedcore.settings.{PlannerSettings, Settings}

/**
 * Which Python runs the planner: of some programs the first that is there and has it. Used by the planner's keeper; what a
 * program says is heard by another thread, before the program is over.
 */
private[sparksched] final class PlannerPythons(programs: Seq[String]) {
  import PlannerPythons._

  private var candidates = programs.toList
  private var passedOver = Vector.empty[String]
  private var found = false
  private var absent = Option.empty[String]
  @volatile private var missingModule = Option.empty[String]

  /** A path is the driver's, and the planner is started elsewhere. */
  def current: String = {
    val program = candidates.head
    if (program.contains(File.separator)) new File(program).getAbsolutePath else program
  }

  def starts(): Unit = {
    absent = None
    missingModule = None
  }

  /** It could not be started. */
  def failed(e: IOException): Unit = absent = e.getMessage match {
    case Absent(why) => Some(why)
    case _ => None
  }

  def said(line: String): Unit = MissingModule.findFirstIn(line).foreach(found => missingModule = Some(found))

  /** @param heard whether it called: then it has a planner, whatever happens to it later */
  def ended(heard: Boolean, status: Int): Unit = {
    found ||= heard
    if (status != FailedToImport) missingModule = None
  }

  /** Why the program has no planner, where that is certain. */
  def lack: Option[String] = if (found) None else absent.orElse(missingModule)

  /** Passes over the program. @return whether there is another one */
  def next(): Boolean = {
    passedOver :+= s"$current: ${lack.getOrElse("no planner")}"
    candidates = candidates.tail
    candidates.nonEmpty
  }

  /** Each that was passed over, and why. */
  def reasons: String = passedOver.mkString("; ")
}

private[sparksched] object PlannerPythons {
  private val MissingModule = """No module named \S+?(?=\)?$)""".r
  private val FailedToImport = 1
  // What Java says where the operating system finds no such program, or none that may be run.
  private val Absent = """error=(?:2|13), (.*)""".r.unanchored

  /** The Python that is given for the planner, else the application's, else the usual one. */
  def of(conf: SparkConf, settings: PlannerSettings): Seq[String] =
    if (conf.contains(Settings.PlannerPython.name)) Seq(settings.python)
    else (conf.getOption("spark.pyspark.python") ++ sys.env.get("PYSPARK_PYTHON") ++ Seq(settings.python)).toList.distinct

  def apply(conf: SparkConf, settings: PlannerSettings): PlannerPythons = new PlannerPythons(of(conf, settings))
}
