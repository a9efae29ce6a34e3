package schedcore

import java.util.concurrent.TimeUnit

/**
 * The time of day as a clock that never goes back and is never set.
 *
 * Between two readings it goes forward as `nanos` does, so that a hold, a plan or a task that was measured while somebody
 * set the machine's clock took as long as it took. What it differs from the machine's clock after that is made up slowly:
 * while a second passes it goes forward by 0.9 to 1.1 seconds. Safe from any thread.
 *
 * @param wallMs the machine's clock, in milliseconds since 1970
 * @param nanos a clock that only goes forward, of any origin
 */
final class SteadyClock(
    wallMs: () => Long = () => System.currentTimeMillis(), nanos: () => Long = () => System.nanoTime()) {
  private var readNs = nanos()
  private var atNs = TimeUnit.MILLISECONDS.toNanos(wallMs()) // as of that reading; enough until the year 2262

  def nowMs: Long = synchronized {
    val ns = nanos()
    val passedNs = math.max(0L, ns - readNs)
    readNs = ns
    val most = passedNs / SteadyClock.Share
    val offNs = TimeUnit.MILLISECONDS.toNanos(wallMs()) - (atNs + passedNs)
    atNs += passedNs + math.max(-most, math.min(most, offNs))
    TimeUnit.NANOSECONDS.toMillis(atNs)
  }

  /** How far it is ahead of the machine's clock; 0 unless that was set. A moment by that clock is one by this so much later. */
  def aheadMs: Long = {
    val ms = nowMs - wallMs()
    if (math.abs(ms) < SteadyClock.SetMs) 0L else ms
  }
}

object SteadyClock {
  /** Of the time that passes, one part in so many makes up for a difference. */
  private val Share = 10
  /** A clock that differs by this much was set. */
  private val SetMs = 1000L
}
