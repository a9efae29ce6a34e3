package org.apache.spark.scheduler.sparksched

import org.apache.spark.scheduler.SchedulerBackend

/**
 * Asks the backend to offer all free slots: once, until it does. Such a round looks at every executor, and what asks for one
 * may happen at the end of every task. What is asked for has changed before.
 *
 * @param backend null before the scheduler is initialized: there is nothing to offer
 */
private[sparksched] final class Revival(backend: () => SchedulerBackend) {
  @volatile private var asked = false
  @volatile private var running = false
  @volatile private var over = false

  /** The backend has started. A planner may be quicker. */
  def start(): Unit = running = true
  def started: Boolean = running

  def ask(): Unit = if (backend() != null && !asked && !over) {
    asked = true
    backend().reviveOffers()
  }

  /** The backend offers slots, of `all` executors or of one. */
  def offered(all: Boolean): Unit = if (all) asked = false

  /** Called each second: what was asked and did not come is asked again when it is wanted. */
  def look(): Unit = asked = false

  /** The backend is about to stop, and takes nothing more. */
  def stop(): Unit = over = true
}
