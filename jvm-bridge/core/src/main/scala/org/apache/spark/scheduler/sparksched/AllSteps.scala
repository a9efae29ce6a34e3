package org.apache.spark.scheduler.sparksched

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging

/** Steps of a shutdown, each of which runs even if others fail. */
private[sparksched] object AllSteps extends Logging {

  /**
   * Runs all of them. The thread may be interrupted: whoever stops an application may be a thread that a job server gave up.
   * The first wait of a step would end the whole by an exception, and planner and executors would stay. The interrupt counts after them.
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
