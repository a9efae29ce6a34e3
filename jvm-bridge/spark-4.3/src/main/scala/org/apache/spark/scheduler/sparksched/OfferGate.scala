package org.apache.spark.scheduler.sparksched

import org.apache.spark.scheduler._
import org.apache.spark.util.Clock

/** Spark 4.3 counts cores as BigDecimal; this file is all that differs from the other Spark lines. */
private[sparksched] abstract class OfferGate(
    scheduler: TaskSchedulerImpl, taskSet: TaskSet, maxTaskFailures: Int, health: Option[HealthTracker], clock: Clock)
    extends TaskSetManager(scheduler, taskSet, maxTaskFailures, health, clock) {

  /** Whether this task set may take a slot of the executor now. */
  protected def mayTake(executor: String): Boolean

  /** Makes the offer of a slot that it may take. */
  protected def offered[A](executor: String)(offer: => A): A

  override def resourceOffer(
      execId: String,
      host: String,
      maxLocality: TaskLocality.TaskLocality,
      taskCpus: BigDecimal,
      taskResourceAssignments: Map[String, Map[String, Long]]): (Option[TaskDescription], Boolean, Int) =
    if (mayTake(execId)) offered(execId)(super.resourceOffer(execId, host, maxLocality, taskCpus, taskResourceAssignments))
    // Not a delay-scheduling reject: the slot is somebody else's.
    else (None, false, -1)
}

private[sparksched] object SparkLine {
  /** Whether its output goes to another stage while it runs: no task of it can be run again by itself. */
  def isPipelined(taskSet: TaskSet): Boolean = taskSet.isPipelined

  /** What is left of an offer once it runs these tasks; Spark takes other resources from it as it places them. */
  def less(offer: WorkerOffer, tasks: Seq[TaskDescription]): WorkerOffer =
    offer.copy(cores = offer.cores - tasks.map(_.cpus).sum)

  /** The offer, cut to this number of cores. */
  def atMost(offer: WorkerOffer, cores: Double): WorkerOffer = offer.copy(cores = offer.cores.min(BigDecimal(cores)))
}
