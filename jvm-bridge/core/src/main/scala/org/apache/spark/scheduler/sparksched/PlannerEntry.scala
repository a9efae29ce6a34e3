package org.apache.spark.scheduler.sparksched

import com.fasterxml.jackson.databind.ObjectMapper
import schedcore.Batch

/** All that the planner process may call, over py4j. Strings in, strings out. */
final class PlannerEntry private[sparksched] (scheduler: SchedTaskScheduler) {
  @volatile private[sparksched] var lastHeardMs = 0L

  /** Every `spark.sched.*` setting as one JSON object. */
  def config(): String = {
    val node = new ObjectMapper().createObjectNode()
    scheduler.conf.getAllWithPrefix("spark.sched.").foreach { case (k, v) => node.put("spark.sched." + k, v) }
    heard(node.toString)
  }

  def poll(maxEvents: Int, timeoutMs: Long): String = heard {
    lastHeardMs = System.currentTimeMillis()
    Batch.toJson(scheduler.events.poll(maxEvents, timeoutMs))
  }

  def submitPlan(json: String): String = heard(scheduler.planOffered(json))

  private def heard(answer: String): String = {
    lastHeardMs = System.currentTimeMillis()
    answer
  }
}
