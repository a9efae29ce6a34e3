package org.apache.spark.scheduler.sparksched

import java.util.concurrent.TimeUnit

import org.scalatest.Assertions

/** Tests that wait for what other threads do. */
private[sparksched] trait Waiting extends Assertions {
  /** After this time it is a hang. */
  protected def mostMinutes: Long = 5L

  /** Waits until the state has come. To ask for it may be an act of its own, such as an offer: it is not done again then. */
  protected final def until(state: => Boolean): Unit = {
    val end = System.nanoTime() + TimeUnit.MINUTES.toNanos(mostMinutes)
    var seen = state
    while (!seen && System.nanoTime() < end) {
      Thread.sleep(5)
      seen = state
    }
    assert(seen)
  }
}
