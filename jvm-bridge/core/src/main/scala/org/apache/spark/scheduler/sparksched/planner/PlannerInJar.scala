package org.apache.spark.scheduler.sparksched
package planner

import java.io.File
import java.nio.file.Files
import java.util.zip.ZipInputStream

import org.apache.spark.api.python.PythonUtils
import org.apache.spark.util.{ShutdownHookManager, Utils}

/**
 * The Python package that a published jar has as a wheel, for a Python that has what the planner needs but not the package. A
 * jar that was compiled where the package is installed has none.
 */
private[sparksched] object PlannerInJar {
  private val Wheel = "/spark-sched-planner.whl"
  private val Package = "spark_sched/"
  // The bridge's sources, which no planner needs.
  private val Sources = "spark_sched/_jvm/"

  def isThere: Boolean = getClass.getResource(Wheel) != null

  /** A new directory with the package, which only this user can read. */
  def unpack(): File = {
    val root = Files.createTempDirectory("spark-sched-package-")
    ShutdownHookManager.registerShutdownDeleteDir(root.toFile)
    try eachFile { (name, content) =>
      val file = root.resolve(name)
      Files.createDirectories(file.getParent)
      Files.copy(content, file)
    } catch {
      case failed: Throwable =>
        Utils.deleteRecursively(root.toFile) // The next try makes another one.
        throw failed
    }
    root.toFile
  }

  /** Whether the directory still has each file of the package. */
  def isWhole(directory: File): Boolean = {
    var whole = true
    eachFile((name, _) => whole &&= new File(directory, name).isFile)
    whole
  }

  private def eachFile(use: (String, ZipInputStream) => Unit): Unit =
    Utils.tryWithResource(new ZipInputStream(getClass.getResourceAsStream(Wheel))) { wheel =>
      Iterator.continually(wheel.getNextEntry).takeWhile(_ != null).map(_.getName)
        .filter(name => name.startsWith(Package) && !name.startsWith(Sources) && !name.endsWith("/")).foreach(use(_, wheel))
    }

  /** The package's folder in such a directory. */
  def packageIn(directory: File): String = new File(directory, Package).getPath

  /** Where Python looks for modules: as this driver's environment says, then Spark's own py4j. */
  def pythonPath: String = (sys.env.get("PYTHONPATH").toList :+ PythonUtils.sparkPythonPath).filter(_.nonEmpty).mkString(File.pathSeparator)
}
