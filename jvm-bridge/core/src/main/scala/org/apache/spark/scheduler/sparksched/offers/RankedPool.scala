package org.apache.spark.scheduler.sparksched
package offers

import org.apache.spark.scheduler.{Pool, Schedulable, SchedulingMode, TaskSetManager}
import org.apache.spark.scheduler.SchedulingMode.SchedulingMode
import schedcore.enforce.OfferRank
import scala.collection.mutable
import scala.collection.mutable.ArrayBuffer

/**
 * Spark's own FIFO or FAIR order, stably sorted by rank: equal task sets keep the order that Spark gave them.
 *
 * Among jobs of equal priority Spark's order of the pools stands, whatever the planner's policy: their weights and
 * minimum shares are the administrator's. A plan orders the jobs of one pool. Where it does not, the first job in a FIFO pool is the
 * one that arrived first, not the one with the oldest Spark job: with Spark's order, jobs of several actions would take turns, and
 * all would end late (`docs/adr/0038-order-among-equals.md`).
 *
 * @param enforcing whether anything but Spark's own order applies
 * @param only the task sets to give at all; None: all
 */
private[sparksched] final class RankedPool(
    mode: SchedulingMode, failOpen: FailOpen, enforcing: () => Boolean, rank: TaskSetManager => OfferRank,
    only: () => Option[TaskSetManager => Boolean])
    extends Pool("", mode, 0, 0) {

  override def getSortedTaskSetQueue: ArrayBuffer[TaskSetManager] = {
    val stock = super.getSortedTaskSetQueue
    if (stock.isEmpty || !enforcing()) stock
    else failOpen("order", stock) {
      val given = only().fold(stock)(stock.filter(_))
      if (given.size < 2) given else ranked(given)
    }
  }

  private def ranked(stock: ArrayBuffer[TaskSetManager]): ArrayBuffer[TaskSetManager] = {
    val pools = mutable.HashMap.empty[Schedulable, Int]
    stock.foreach(m => pools.getOrElseUpdate(m.parent, pools.size))
    val ranks = stock.map { m =>
      val r = rank(m)
      m -> (r.priority, pools(m.parent), r.turn, r.place, if (m.parent.schedulingMode == SchedulingMode.FAIR) 0 else r.arrival)
    }
    ranks.sortBy(_._2).map(_._1)
  }
}
