package org.apache.spark.scheduler.sparksched
package offers

import org.apache.spark.scheduler.{Pool, Schedulable, SchedulingMode, TaskSetManager}
import org.apache.spark.scheduler.SchedulingMode.SchedulingMode
import schedcore.enforce.{OfferRank, QueueStanding}
import schedcore.plan.QueueTurn
import scala.collection.mutable
import scala.collection.mutable.ArrayBuffer
import scala.jdk.CollectionConverters._

/**
 * Spark's own FIFO or FAIR order, stably sorted by rank: equal task sets keep the order that Spark gave them.
 *
 * Where tenants' queues have floors or weights, these come first. Among jobs of equal priority Spark's order of the pools stands, whatever the planner's policy: their weights and
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

  /** The task sets that it would give, in no order: sorting them is a large part of a round. */
  def unsorted: Iterator[TaskSetManager] = {
    val all = RankedPool.leaves(this)
    if (!enforcing()) all else only().fold(all)(all.filter(_))
  }

  private def ranked(stock: ArrayBuffer[TaskSetManager]): ArrayBuffer[TaskSetManager] = {
    val pools = mutable.HashMap.empty[Schedulable, Int]
    stock.foreach(m => pools.getOrElseUpdate(m.parent, pools.size))
    val places = new Array[RankedPool.Place](stock.size)
    var i = 0
    stock.foreach { m =>
      val r = rank(m)
      places(i) = new RankedPool.Place(m, r, pools(m.parent), if (m.parent.schedulingMode == SchedulingMode.FAIR) 0 else r.arrival)
      i += 1
    }
    // Stable, and fast where Spark's order is nearly that of ranks, as it mostly is.
    java.util.Arrays.sort(places, RankedPool.Order)
    val sorted = new ArrayBuffer[TaskSetManager](places.length)
    places.foreach(sorted += _.set)
    sorted
  }
}

private object RankedPool {
  final class Place(val set: TaskSetManager, val rank: OfferRank, val pool: Int, val arrival: Int)

  /** By standing of the tenants' queue, priority, pool, turn of the queue, place in it, and arrival. */
  object Order extends java.util.Comparator[Place] {
    override def compare(a: Place, b: Place): Int = {
      val (x, y) = (a.rank, b.rank)
      val standing = QueueStanding.Order.compare(x.standing, y.standing)
      if (standing != 0) standing
      else if (x.priority != y.priority) Integer.compare(x.priority, y.priority)
      else if (a.pool != b.pool) Integer.compare(a.pool, b.pool)
      else {
        val turn = if (x.turn eq y.turn) 0 else compareTurns(x.turn, y.turn)
        if (turn != 0) turn
        else if (x.place != y.place) Integer.compare(x.place, y.place)
        else Integer.compare(a.arrival, b.arrival)
      }
    }
  }

  /** As [[QueueTurn.ordering]], without a tuple for each comparison. */
  private def compareTurns(a: QueueTurn, b: QueueTurn): Int =
    if (a.load != b.load) java.lang.Double.compare(a.load, b.load)
    else if (a.dueMs != b.dueMs) java.lang.Long.compare(a.dueMs, b.dueMs)
    else Integer.compare(a.queue, b.queue)

  private def leaves(of: Schedulable): Iterator[TaskSetManager] = of match {
    case set: TaskSetManager => Iterator(set)
    case pool: Pool => pool.schedulableQueue.iterator.asScala.flatMap(leaves).filter(_.isSchedulable)
    case _ => Iterator.empty
  }
}
