package org.apache.spark.scheduler.sparksched

import org.apache.spark.SparkEnv
import org.apache.spark.internal.config
import org.apache.spark.scheduler._
import org.apache.spark.scheduler.sparksched.offers.SchedTaskSetManager
import org.apache.spark.util.Clock

/** Asked on each line of the log, and by the constructors of the classes below it, so nothing is stored here. */
private[sparksched] trait StreamingIdsInLog extends StructuredStreamingIdAwareSchedulerLogging { this: TaskSetManager =>
  private def conf = SparkEnv.get.conf
  override def properties: java.util.Properties = taskSet.properties
  override protected def streamingIdAwareLoggingEnabled: Boolean =
    conf.get(config.STREAMING_ID_AWARE_SCHEDULER_LOGGING_ENABLED)
  override protected def streamingQueryIdLength: Int =
    conf.get(config.STREAMING_ID_AWARE_SCHEDULER_LOGGING_QUERY_ID_LENGTH)
}

private[sparksched] trait StreamingIds {
  /** Logs of streaming queries' task sets name query and batch, as with Spark's own task sets. */
  def taskSetManager(
      scheduler: SchedTaskScheduler, taskSet: TaskSet, maxTaskFailures: Int, health: Option[HealthTracker], clock: Clock): SchedTaskSetManager =
    if (Option(taskSet.properties).exists(_.getProperty(StructuredStreamingIdAwareSchedulerLogging.QUERY_ID_KEY) != null))
      new SchedTaskSetManager(scheduler, taskSet, maxTaskFailures, health, clock) with StreamingIdsInLog
    else new SchedTaskSetManager(scheduler, taskSet, maxTaskFailures, health, clock)
}
