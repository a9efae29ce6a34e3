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
 * @param ranksAt a number that stays the same while no rank changes; None: ranks change with each launch
 * @param only the task sets to give at all; None: all
 */
private[sparksched] final class RankedPool(
    mode: SchedulingMode, failOpen: FailOpen, enforcing: () => Boolean, rank: TaskSetManager => OfferRank, ranksAt: () => Option[Long],
    only: () => Option[TaskSetManager => Boolean])
    extends Pool("", mode, 0, 0) {
  import RankedPool._

  // In FIFO mode, all task sets by rank; None: one came or went since. Spark asks for the order with every slot that becomes free.
  private var kept = Option.empty[Array[Place]]
  private var keptAt = Option.empty[Long]

  override def addSchedulable(schedulable: Schedulable): Unit = {
    super.addSchedulable(schedulable)
    kept = None
  }

  override def removeSchedulable(schedulable: Schedulable): Unit = {
    super.removeSchedulable(schedulable)
    kept = None
  }

  override def getSortedTaskSetQueue: ArrayBuffer[TaskSetManager] =
    if (!enforcing()) super.getSortedTaskSetQueue
    else failOpen("order", super.getSortedTaskSetQueue) {
      if (mode == SchedulingMode.FIFO) allInOrder
      else {
        val stock = super.getSortedTaskSetQueue
        val given = only().fold(stock)(stock.filter(_))
        if (given.size < 2) given else ranked(given)
      }
    }

  private def allInOrder: ArrayBuffer[TaskSetManager] = {
    val places = fifo
    val given = only()
    val all = new ArrayBuffer[TaskSetManager](places.length)
    var i = 0
    while (i < places.length) {
      val set = places(i).set
      if (set.isSchedulable && (given.isEmpty || given.get(set))) all += set
      i += 1
    }
    all
  }

  /** In FIFO mode, all task sets in order, also those that have nothing to start. To find the first ones costs less than to ask for a queue. */
  def inOrder: Iterator[TaskSetManager] = fifo.iterator.map(_.set)

  /** The task sets that it would give, in no order: sorting them is a large part of a round. */
  def unsorted: Iterator[TaskSetManager] = {
    val all = leaves(this)
    if (!enforcing()) all else only().fold(all)(all.filter(_))
  }

  private def fifo: Array[Place] = {
    val now = ranksAt()
    // In the order in which they came: Spark keeps that among equals.
    val places = kept.getOrElse(schedulableQueue.iterator.asScala.collect { case set: TaskSetManager => new Place(set) }.toArray)
    if (kept.isEmpty || now.isEmpty || now != keptAt) {
      places.foreach { p =>
        p.rank = rank(p.set)
        p.arrival = p.rank.arrival
      }
      // Stable, and fast where the order is nearly what it was, as it mostly is.
      java.util.Arrays.sort(places, Fifo)
      kept = Some(places)
      keptAt = now
    }
    places
  }

  private def ranked(stock: ArrayBuffer[TaskSetManager]): ArrayBuffer[TaskSetManager] = {
    val pools = mutable.HashMap.empty[Schedulable, Int]
    stock.foreach(m => pools.getOrElseUpdate(m.parent, pools.size))
    val places = stock.iterator.map { m =>
      val p = new Place(m)
      p.rank = rank(m)
      p.pool = pools(m.parent)
      p.arrival = if (m.parent.schedulingMode == SchedulingMode.FAIR) 0 else p.rank.arrival
      p
    }.toArray
    // Stable, and fast where Spark's order is nearly that of ranks, as it mostly is.
    java.util.Arrays.sort(places, Order)
    val sorted = new ArrayBuffer[TaskSetManager](places.length)
    places.foreach(sorted += _.set)
    sorted
  }
}

private object RankedPool {
  final class Place(val set: TaskSetManager) {
    var rank: OfferRank = OfferRank.NoJob
    var pool = 0
    var arrival = 0
  }

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

  /** The same, and among equals Spark's own: by Spark job, then by stage. */
  object Fifo extends java.util.Comparator[Place] {
    override def compare(a: Place, b: Place): Int = {
      val byRank = Order.compare(a, b)
      if (byRank != 0) byRank
      else if (a.set.priority != b.set.priority) Integer.compare(a.set.priority, b.set.priority)
      else Integer.compare(a.set.stageId, b.set.stageId)
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
