package org.apache.spark.scheduler.sparksched

import org.apache.spark.{SparkConf, SparkContext}
import org.apache.spark.scheduler._
import org.apache.spark.util.Clock

/** What Spark 4.0 and later have in common; see `SparkLine`. */
private[sparksched] trait Spark4 {
  /** The parts of one resource that a task has, by address. */
  type Assigned = Map[String, Long]

  /** Free parts of the executor's other resources, by name and address. */
  def freeResources(offer: WorkerOffer, context: SparkContext): Map[String, Map[String, Double]] =
    offer.resources.availableResources

  /** Slots that a task takes of one resource, from what the task needs of it and what a slot is. */
  def slotsTaken(task: Double, slot: Double): Double = task / slot

  /** The offer without any resource. */
  def nothingOf(offer: WorkerOffer): WorkerOffer = offer.copy(cores = 0, resources = ExecutorResourcesAmounts.empty)

  /** Spark finds the extension of SQL sessions by its service file. */
  def loadSessionExtension(conf: SparkConf): Unit = ()
}

private[sparksched] abstract class LineTaskSetManager(
    scheduler: TaskSchedulerImpl, taskSet: TaskSet, maxTaskFailures: Int, health: Option[HealthTracker], clock: Clock)
    extends TaskSetManager(scheduler, taskSet, maxTaskFailures, health, clock)
