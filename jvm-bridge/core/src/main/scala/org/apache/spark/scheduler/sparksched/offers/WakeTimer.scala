package org.apache.spark.scheduler.sparksched
package offers

import java.util.concurrent.{RejectedExecutionException, TimeUnit}

import org.apache.spark.util.{ThreadUtils, Utils}

/**
 * The thread for periodic work, each second, and for the earliest wake-up that was asked for.
 *
 * `arm`, `fired` and `look` are called under the scheduler's lock.
 *
 * @param wake called at the time of the earliest wake-up, with that
 */
private[sparksched] final class WakeTimer(wake: Long => Unit) {
  private val thread = ThreadUtils.newDaemonSingleThreadScheduledExecutor("spark-sched-timer")
  private var armedMs = Long.MaxValue // when the earliest pending wake-up comes

  def everySecond(body: => Unit): Unit = thread.scheduleWithFixedDelay(() => body, 1, 1, TimeUnit.SECONDS)

  /** Deadlines mostly move later, and an early wake-up is cheaper than moving the timer each time. */
  def arm(atMs: Long, nowMs: Long): Unit = if (atMs < armedMs) {
    // After `stop` no wake-up is needed.
    try {
      thread.schedule((() => wake(atMs)): Runnable, math.max(0L, atMs - nowMs), TimeUnit.MILLISECONDS)
      armedMs = atMs
    } catch { case _: RejectedExecutionException => }
  }

  /** The wake-up of this time has come. */
  def fired(atMs: Long): Unit = if (armedMs == atMs) armedMs = Long.MaxValue

  /** Drops a wake-up that is overdue, so that it does not prevent a later one. */
  def look(nowMs: Long): Unit = if (armedMs < nowMs) armedMs = Long.MaxValue

  def stop(): Unit = Utils.tryLogNonFatalError(thread.shutdownNow())

  /** Waits for work that is running when the timer is stopped. */
  def join(): Unit = Utils.tryLogNonFatalError(thread.awaitTermination(5, TimeUnit.SECONDS))
}
