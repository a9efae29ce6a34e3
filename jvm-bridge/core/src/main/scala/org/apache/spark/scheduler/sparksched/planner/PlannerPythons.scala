package org.apache.spark.scheduler.sparksched
package planner

import java.io.{File, IOException}

import org.apache.spark.SparkConf
import schedcore.settings.{PlannerSettings, Settings}

/**
 * Chooses the Python for the planner: the first of some programs that exists and has the planner, or has what the package in the
 * jar needs. The planner's keeper uses it; another thread adds what a program prints, before the program ends.
 *
 * @param packageInJar whether a program that has no package of its own can run the one in the jar
 */
private[sparksched] final class PlannerPythons(programs: Seq[String], packageInJar: Boolean = false) {
  import PlannerPythons._

  private var candidates = programs.toList
  private var passedOver = Vector.empty[String]
  private var ownPackage = true // the program runs the package that is installed for it
  private var found = false
  private var absent = Option.empty[String]
  @volatile private var missingModule = Option.empty[String]

  /** A path is the driver's, and the planner is started elsewhere. */
  def current: String = {
    val program = candidates.head
    if (program.contains(File.separator)) new File(program).getAbsolutePath else program
  }

  /** Whether the program is to run the package in the jar. */
  def runsPackageInJar: Boolean = !ownPackage

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

  /** Skips the program, or has it run the package in the jar. @return whether there is one to run */
  def next(): Boolean =
    if (packageInJar && ownPackage && absent.isEmpty) {
      ownPackage = false
      true
    } else {
      passedOver :+= s"$current: ${lack.getOrElse("no planner")}"
      candidates = candidates.tail
      ownPackage = true
      candidates.nonEmpty
    }

  /** What to do where no program has a planner. */
  def remedy: String = s"To have plans, install ${if (packageInJar) "what is missing" else "spark-sched"} for that Python, or set " +
    s"${Settings.PlannerPython.name} to one that has it"

  /** The programs that were skipped, each with the reason. */
  def reasons: String = passedOver.mkString("; ")
}

private[sparksched] object PlannerPythons {
  private val MissingModule = """No module named \S+?(?=\)?$)|needs Python .*""".r
  private val FailedToImport = 1
  // What Java says where the operating system finds no such program, or none that may be run.
  private val Absent = """error=(?:2|13), (.*)""".r.unanchored

  /** The Python that is given for the planner, else the application's, else the usual one. */
  def of(conf: SparkConf, settings: PlannerSettings): Seq[String] =
    if (conf.contains(Settings.PlannerPython.name)) Seq(settings.python)
    else (conf.getOption("spark.pyspark.python") ++ sys.env.get("PYSPARK_PYTHON") ++ Seq(settings.python)).toList.distinct

  def apply(conf: SparkConf, settings: PlannerSettings): PlannerPythons =
    new PlannerPythons(of(conf, settings), PlannerInJar.isThere)
}
