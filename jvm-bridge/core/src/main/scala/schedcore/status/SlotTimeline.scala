package schedcore
package status

import scala.collection.mutable

/** Use of an executor's slots during an interval, as sampled. */
final case class SlotSpan(fromMs: Long, untilMs: Long, facts: ExecutorFacts)

/**
 * Use of the executors' slots in the last minutes: the executors of the status document, sampled every few seconds.
 *
 * Uses that begin and end between two samples are missing. A bounded number of samples of each executor is kept, and equal ones
 * that follow each other are one. Safe from any thread.
 */
final class SlotTimeline(val keepMs: Long = SlotTimeline.KeepMs, everyMs: Long = SlotTimeline.EveryMs) {
  private val samples = mutable.HashMap.empty[String, mutable.Queue[(Long, ExecutorFacts)]]
  private var lastMs = Long.MinValue / 2

  /** Whether it is time for the next sample, or the clock was set back. */
  def due(nowMs: Long): Boolean = synchronized(nowMs - lastMs >= everyMs || nowMs < lastMs)

  /** No further samples come: the last ones must not seem to last until now. */
  def clear(): Unit = synchronized(samples.clear())

  /** @param executors all of them; others are forgotten */
  def sample(executors: Seq[ExecutorFacts], nowMs: Long): Unit = synchronized {
    lastMs = nowMs
    val there = executors.iterator.map(_.executor).toSet
    samples.filterInPlace((executor, _) => there(executor))
    executors.foreach { facts =>
      val of = samples.getOrElseUpdate(facts.executor, mutable.Queue.empty)
      if (!of.lastOption.exists(_._2 == facts)) of += nowMs -> facts
      // The last one before the time that is kept says how that time begins.
      while (of.sizeIs > 1 && of(1)._1 <= nowMs - keepMs) of.dequeue()
    }
  }

  /** Of one executor, the oldest first, without a gap until now; empty before its first sample. */
  def spans(executor: String, nowMs: Long): Seq[SlotSpan] = synchronized {
    val of = samples.get(executor).fold(Seq.empty[(Long, ExecutorFacts)])(_.toList)
    of.zip(of.map(_._1).drop(1) :+ math.max(nowMs, of.lastOption.fold(nowMs)(_._1)))
      .map { case ((fromMs, facts), untilMs) => SlotSpan(math.max(fromMs, nowMs - keepMs), untilMs, facts) }
      .filter(span => span.untilMs > span.fromMs)
  }
}

object SlotTimeline {
  val KeepMs: Long = 5 * 60 * 1000L
  val EveryMs: Long = 5 * 1000L
}
