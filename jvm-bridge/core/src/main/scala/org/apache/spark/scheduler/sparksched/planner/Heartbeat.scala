package org.apache.spark.scheduler.sparksched
package planner

import java.util.concurrent.TimeUnit

/**
 * Time since the last sign of life. Does not depend on the machine's clock being set. Safe from any thread.
 *
 * @param nanos a clock that only goes forward
 */
private[sparksched] final class Heartbeat(nanos: () => Long = () => System.nanoTime()) {
  @volatile private var last: Option[Long] = None

  def beat(): Unit = last = Some(nanos())
  def forget(): Unit = last = None

  /** Milliseconds since the last beat; None: there was none. */
  def silentMs: Option[Long] = last.map(at => TimeUnit.NANOSECONDS.toMillis(nanos() - at))
}
