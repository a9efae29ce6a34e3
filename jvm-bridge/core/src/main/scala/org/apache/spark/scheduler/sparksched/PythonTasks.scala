package org.apache.spark.scheduler.sparksched

import org.apache.spark.NarrowDependency
import org.apache.spark.rdd.RDD
import scala.collection.mutable

/**
 * Tasks that run Python, whose kills take long: a thread of the executor looks every two seconds whether its task was
 * killed, then waits for `spark.python.task.killTimeout`, and then ends the Python worker. Until then the task has its slot.
 */
private[sparksched] object PythonTasks {
  private val PollMs = 2000L // fixed in PythonRunner's MonitorThread

  /** How long a killed task that computes the RDD keeps its slot at most, where it runs Python; 0 where it does not. */
  def killMs(rdd: RDD[_]): Long =
    if (compute(rdd)) PollMs + rdd.sparkContext.conf.getTimeAsMs("spark.python.task.killTimeout", "2s") else 0L

  private def compute(rdd: RDD[_]): Boolean = {
    val seen = mutable.HashSet.empty[Int]
    val waiting = mutable.Queue[RDD[_]](rdd)
    var found = false
    while (!found && waiting.nonEmpty) {
      val r = waiting.dequeue()
      if (seen.add(r.id)) {
        // SQL's operators are plain RDDs that bear the operator's name.
        found = r.getClass.getName.contains("Python") || r.scope.exists(s => Operators.exists(s.name.contains(_)))
        r.dependencies.foreach { case d: NarrowDependency[_] => waiting += d.rdd; case _ => }
      }
    }
    found
  }

  private val Operators = Seq("Python", "Pandas", "Arrow")
}
