package org.apache.spark.scheduler.sparksched

import scala.util.control.ControlThrowable

import org.apache.spark.internal.Logging

/**
 * Keeps faults of this scheduler from harming Spark.
 *
 * Spark swallows exceptions in `resourceOffers` and `statusUpdate` and skips what would have followed: cores that are
 * never returned, tasks that count as running and were never sent. In its DAG event loop one exception ends the
 * application. So each call from Spark's code into ours goes through here. The first exception is counted and logged,
 * and from then on Spark's own answer is given everywhere: records that one exception left half-written are worse than
 * none. Safe from any thread.
 *
 * @param injected a seam that throws, for tests
 * @param onFailure called once, after the first exception
 */
private[sparksched] final class FailOpen(injected: Option[String], onFailure: () => Unit) extends Logging {
  @volatile private var failedSeam: Option[String] = None

  /** Whether the application goes on as under Spark's own scheduler. */
  def isOpen: Boolean = failedSeam.isDefined

  /** The answer of `ours`, or Spark's own where ours throws or has thrown before. */
  def apply[A](seam: String, spark: => A)(ours: => A): A =
    if (failedSeam.isDefined) spark
    else
      try {
        if (injected.contains(seam)) throw new IllegalStateException(s"injected at $seam")
        ours
      } catch {
        case thrown: Throwable if FailOpen.survivable(thrown) =>
          open(seam, thrown)
          spark
        case thrown: OutOfMemoryError =>
          // Spark's to deal with, and the records may be half-written.
          open(seam, thrown)
          throw thrown
      }

  private def open(seam: String, thrown: Throwable): Unit = {
    val first = synchronized {
      val first = failedSeam.isEmpty
      if (first) failedSeam = Some(seam)
      first
    }
    if (first) {
      logError(s"spark_sched failed at '$seam'; the application continues under Spark's own scheduling", thrown)
      try onFailure()
      catch { case next: Throwable if FailOpen.survivable(next) => logError("spark_sched could not switch itself off", next) }
    }
  }

  def counters: Map[String, Long] = Map("failed_open" -> (if (isOpen) 1L else 0L))
}

private[sparksched] object FailOpen {
  /** Seams that tests throw at: every call from Spark's code into ours. */
  val Seams: Array[String] = Array(
    "start", "task set", "task set finished", "offers", "offers over", "order", "slot", "launch", "pilots", "copies", "end of task",
    "map output", "task undone", "executor", "jobs", "timer", "plan", "counters")

  /** A missing class included: a driver may lack Spark SQL. */
  private def survivable(thrown: Throwable): Boolean = thrown match {
    case _: ControlThrowable | _: InterruptedException | _: OutOfMemoryError => false
    case _ => true
  }
}
