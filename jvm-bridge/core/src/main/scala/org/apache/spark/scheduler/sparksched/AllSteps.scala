package org.apache.spark.scheduler.sparksched

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging

/** Steps of a shutdown, each of which runs even if others fail. */
private[sparksched] object AllSteps extends Logging {

  /**
   * Runs all of them. The calling thread may be interrupted, for example if a job server gave it up. Then the first step that waits
   * would throw, and planner and executors would stay alive. So the interrupt is cleared, and set again after the last step.
   */
  def apply(steps: (() => Unit)*): Unit = {
    var interrupted = Thread.interrupted()
    steps.foreach { step =>
      try step()
      catch {
        case _: InterruptedException => interrupted = true
        case NonFatal(thrown) => logError("spark_sched could not end everything that it started", thrown)
      }
    }
    if (interrupted) Thread.currentThread.interrupt()
  }
}
