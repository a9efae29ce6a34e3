package schedcore
package enforce

import scala.collection.mutable

/**
 * The slot time that a tenants' queue had in the last 24 hours, in parts of a quarter of an hour: each part counts until 24 hours after
 * its begin.
 *
 * `spark_sched_lab.enforce.day_use` is the twin in the simulator, and `protocol/golden/queues/tree*` bind the two.
 */
final class DayUse {
  import DayUse._

  private val parts = mutable.ArrayBuffer.empty[(Long, Long)] // number of the part, its slot time
  private var atMs = Option.empty[Long]
  private var sum = 0L

  /** Of the last 24 hours. */
  def slotMs: Long = sum

  /** The queue has had so many slots since the last call, or none before the first one. */
  def advance(slots: Int, nowMs: Long): Unit = {
    var at = atMs.getOrElse(nowMs)
    while (slots > 0 && at < nowMs) {
      val part = at / PartMs
      val until = math.min(nowMs, (part + 1) * PartMs)
      add(part, slots * (until - at))
      at = until
    }
    at = math.max(nowMs, at)
    atMs = Some(at)
    val over = parts.takeWhile(_._1 <= at / PartMs - Parts)
    sum -= over.map(_._2).sum
    parts.remove(0, over.size)
  }

  private def add(part: Long, slotMs: Long): Unit = {
    sum += slotMs
    if (parts.lastOption.exists(_._1 == part)) parts(parts.size - 1) = (part, parts.last._2 + slotMs)
    else parts += part -> slotMs
  }

  /** When the slot time falls below this if the queue gets no more; None: it is below it. */
  def belowMs(mostMs: Long): Option[Long] = {
    var (left, i) = (sum, 0)
    while (left >= mostMs && i < parts.size) {
      left -= parts(i)._2
      i += 1
    }
    Option.when(i > 0)((parts(i - 1)._1 + Parts) * PartMs)
  }
}

private object DayUse {
  val PartMs: Long = 15 * 60 * 1000L
  /** In 24 hours. The present one, which is not over, is one of them. */
  val Parts = 96
}
