package schedcore

/**
 * When a repeated piece of work may run next, so that it takes at most the given share of the time. The pause between two
 * runs has an upper limit, which takes precedence over the share.
 *
 * Times are `System.nanoTime`. What it takes is the smaller of the last two: code that runs for the first time, or a thread that
 * had to wait for a processor, takes long once. Not safe from several threads.
 */
final class Pace(share: Double, mostPauseNs: Long) {
  private var beganNs = 0L
  private var costNs = 0L
  private var pauseNs = 0L

  def due(nowNs: Long): Boolean = pauseNs == 0 || nowNs - beganNs >= pauseNs

  def done(startNs: Long, endNs: Long): Unit = {
    val taken = math.max(0L, endNs - startNs)
    pauseNs = math.min(mostPauseNs, (math.min(taken, costNs) / share).toLong)
    costNs = taken
    beganNs = startNs
  }
}
