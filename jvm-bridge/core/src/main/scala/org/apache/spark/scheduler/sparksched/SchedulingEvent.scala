package org.apache.spark.scheduler.sparksched

import com.fasterxml.jackson.databind.JsonNode
import org.apache.spark.scheduler.SparkListenerEvent

/**
 * An entry of Spark's event log about scheduling: `protocol/README.md` says what kinds there are and what their bodies have. Readers of
 * the log that do not have this class skip it.
 */
final case class SchedulingEvent(schema: Int, kind: String, timeMs: Long, body: JsonNode) extends SparkListenerEvent
