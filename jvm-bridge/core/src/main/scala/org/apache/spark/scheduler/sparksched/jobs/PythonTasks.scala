package org.apache.spark.scheduler.sparksched
package jobs

import org.apache.spark.rdd.RDD

/**
 * Tasks that run Python, whose kills take long: a thread of the executor looks every two seconds whether its task was
 * killed, then waits for `spark.python.task.killTimeout`, and then ends the Python worker. Until then the task has its slot.
 */
private[sparksched] object PythonTasks {
  private val PollMs = 2000L // fixed in PythonRunner's MonitorThread

  /** How long a killed task that computes the RDD keeps its slot at most, where it runs Python; 0 where it does not. */
  def killMs(rdd: RDD[_]): Long =
    if (compute(rdd)) PollMs + rdd.sparkContext.conf.getTimeAsMs("spark.python.task.killTimeout", "2s") else 0L

  // SQL's operators are plain RDDs that bear the operator's name.
  private def compute(rdd: RDD[_]): Boolean = StageLineage.of(rdd).exists { r =>
    r.getClass.getName.contains("Python") || r.scope.exists(s => Operators.exists(s.name.contains(_)))
  }

  private val Operators = Seq("Python", "Pandas", "Arrow")
}
