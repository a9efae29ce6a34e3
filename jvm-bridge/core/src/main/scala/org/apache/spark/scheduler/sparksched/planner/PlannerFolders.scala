package org.apache.spark.scheduler.sparksched
package planner

import java.io.File

import org.apache.spark.util.Utils

/** The directories that a driver makes for its planners. They are deleted with the JVM at the latest. */
private[sparksched] final class PlannerFolders {
  @volatile private var directory = Option.empty[File]
  @volatile private var unpacked = Option.empty[File]

  def create(): Unit = directory = Some(Utils.createTempDir(namePrefix = "spark-sched-planner"))

  /** Where planners start. It is made again where something has cleaned the temporary files. */
  def empty: File = {
    if (!directory.exists(_.isDirectory)) create()
    directory.get
  }

  /** The Python package in the jar, for a Python that has none. It is unpacked once, and again if its files have gone. */
  def packageOfJar(): String = {
    if (!unpacked.exists(PlannerInJar.isWhole)) {
      unpacked.foreach(Utils.deleteRecursively(_))
      unpacked = Some(PlannerInJar.unpack())
    }
    PlannerInJar.packageIn(unpacked.get)
  }

  def delete(): Unit = (directory ++ unpacked).foreach(Utils.deleteRecursively(_))
}
