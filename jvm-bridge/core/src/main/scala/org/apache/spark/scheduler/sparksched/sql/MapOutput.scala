package org.apache.spark.scheduler.sparksched
package sql

import org.apache.spark.scheduler.MapStatus
import scala.collection.mutable

/**
 * The bytes that a stage's tasks have written for each partition of its shuffle. Adaptive execution assigns partitions to
 * reading tasks by these sizes. Thread-safe.
 *
 * @param stage key of the stage
 * @param execution the SQL execution that it is part of
 * @param slotsPerTask slots that each task takes; the tasks that read the shuffle have the same resource profile
 */
private[sparksched] final class MapOutput(
    val stage: String, val execution: Long, val shuffle: Int, tasks: Int, partitions: Int, val slotsPerTask: Int) {
  private val bytes = new Array[Long](partitions)
  private val counted = mutable.BitSet.empty
  private var count = 0

  /** A task's output; returns whether to estimate the whole again: at its half and each eighth more. */
  def add(index: Int, status: MapStatus): Boolean = synchronized {
    counted.add(index) && {
      var p = 0
      while (p < partitions) {
        bytes(p) += status.getSizeForBlock(p)
        p += 1
      }
      count += 1
      isKnown && (!isKnownOf(count - 1) || eighths(count) > eighths(count - 1))
    }
  }

  /** Bytes by partition when all tasks have ended, scaled up from those that have; None until more than half have ended. */
  def expected: Option[Array[Long]] = synchronized {
    Option.when(isKnown)(bytes.map(b => math.round(b.toDouble * tasks / count)))
  }

  private def isKnown = isKnownOf(count)
  private def isKnownOf(n: Int) = 2 * n > tasks
  private def eighths(n: Int) = n * 8L / tasks
}
