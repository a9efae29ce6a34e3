package org.apache.spark.scheduler.sparksched
package sql

import org.apache.spark.scheduler.MapStatus
import scala.collection.mutable

/**
 * How much the tasks of a stage have written for each partition of its shuffle, of which adaptive execution decides who
 * reads how much. Safe from any thread.
 *
 * @param stage key of the stage
 * @param execution the SQL execution that it is part of
 * @param slotsPerTask slots that each task takes: those that read the shuffle are of the same resource profile
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

  /** Bytes by partition that all tasks will have written, if those to come are like the others; None of a minority. */
  def expected: Option[Array[Long]] = synchronized {
    Option.when(isKnown)(bytes.map(b => math.round(b.toDouble * tasks / count)))
  }

  private def isKnown = isKnownOf(count)
  private def isKnownOf(n: Int) = 2 * n > tasks
  private def eighths(n: Int) = n * 8L / tasks
}
