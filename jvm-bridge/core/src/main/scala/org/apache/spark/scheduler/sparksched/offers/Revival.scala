package org.apache.spark.scheduler.sparksched
package offers

import org.apache.spark.scheduler.SchedulerBackend

/**
 * Asks the backend to offer all free slots, at most once until it does: such a round visits every executor, and each end of
 * a task may ask for one. Callers change the books before they ask.
 *
 * @param backend null before the scheduler is initialized: there is nothing to offer
 */
private[sparksched] final class Revival(backend: () => SchedulerBackend) {
  @volatile private var asked = false
  @volatile private var running = false
  @volatile private var over = false

  /** The backend has started. The planner may send a plan before that. */
  def start(): Unit = running = true
  def started: Boolean = running

  def ask(): Unit = if (backend() != null && !asked && !over) {
    asked = true
    backend().reviveOffers()
  }

  /** The backend offers slots, of `all` executors or of one. */
  def offered(all: Boolean): Unit = if (all) asked = false

  /** Called each second: a round that was asked for and did not come can be asked for again. */
  def look(): Unit = asked = false

  /** The backend is about to stop: no further rounds are asked for. */
  def stop(): Unit = over = true
}
