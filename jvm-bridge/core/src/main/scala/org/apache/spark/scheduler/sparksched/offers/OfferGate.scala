package org.apache.spark.scheduler.sparksched
package offers

import org.apache.spark.scheduler._
import org.apache.spark.util.Clock

/** Stands before each offer of a slot to a task set. */
private[sparksched] abstract class OfferGate(
    scheduler: TaskSchedulerImpl, taskSet: TaskSet, maxTaskFailures: Int, health: Option[HealthTracker], clock: Clock)
    extends LineTaskSetManager(scheduler, taskSet, maxTaskFailures, health, clock) {

  /** Whether this task set may take a slot of the executor now. */
  protected def mayTake(executor: String): Boolean

  /** Makes the offer of a slot that it may take. */
  protected def offered[A](executor: String)(offer: => A): A

  override def resourceOffer(
      execId: String,
      host: String,
      maxLocality: TaskLocality.TaskLocality,
      taskCpus: SparkLine.Cores,
      taskResourceAssignments: Map[String, SparkLine.Assigned]): (Option[TaskDescription], Boolean, Int) =
    if (mayTake(execId)) offered(execId)(super.resourceOffer(execId, host, maxLocality, taskCpus, taskResourceAssignments))
    // Not a delay-scheduling reject: the slot is somebody else's.
    else (None, false, -1)
}
