package org.apache.spark.scheduler.sparksched

import org.apache.spark.scheduler.{Pool, TaskSetManager}
import org.apache.spark.scheduler.SchedulingMode.SchedulingMode
import scala.collection.mutable.ArrayBuffer

/** Spark's own FIFO or FAIR order, stably sorted by `before`: equal task sets keep the order that Spark gave them. */
private[sparksched] final class RankedPool(mode: SchedulingMode, rank: TaskSetManager => RankedPool.Rank)
    extends Pool("", mode, 0, 0) {

  override def getSortedTaskSetQueue: ArrayBuffer[TaskSetManager] = {
    val stock = super.getSortedTaskSetQueue
    if (stock.size < 2) stock else stock.sortBy(rank)
  }
}

private[sparksched] object RankedPool {
  /** Lower is first: priority, then how loaded the job's queue is and which it is, then the job's place in it. */
  type Rank = (Int, Double, Int, Int)
}
