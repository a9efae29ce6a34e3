package schedcore
package events

import java.util.concurrent.{CompletableFuture, TimeUnit, TimeoutException}

import scala.collection.mutable

/**
 * Users' questions to the planner, and its answers, as text that only the planner interprets.
 *
 * @param wake tells the planner's poll that somebody asks
 */
final class Questions(wake: () => Unit) {
  private val lock = new Object
  private var last = 0L
  private val waiting = mutable.LinkedHashMap.empty[Long, (String, CompletableFuture[String])]
  private val sent = mutable.HashSet.empty[Long]

  /** Waits for the answer; None where the planner gave none in time. */
  def ask(text: String, timeoutMs: Long): Option[String] = {
    val answer = new CompletableFuture[String]
    val number = lock.synchronized {
      last += 1
      waiting(last) = text -> answer
      last
    }
    wake()
    try Some(answer.get(timeoutMs, TimeUnit.MILLISECONDS))
    catch { case _: TimeoutException => None }
    finally lock.synchronized {
      waiting -= number
      sent -= number
    }
  }

  def any: Boolean = lock.synchronized(waiting.keysIterator.exists(!sent(_)))

  /** Questions that the planner has not taken yet, by number. */
  def take(): Seq[(Long, String)] = lock.synchronized {
    val fresh = waiting.iterator.collect { case (number, (text, _)) if !sent(number) => number -> text }.toList
    sent ++= fresh.map(_._1)
    fresh
  }

  /** An answer that nobody waits for any more is dropped. */
  def answer(number: Long, text: String): Unit =
    lock.synchronized(waiting.get(number)).foreach { case (_, answer) => answer.complete(text) }

  /** Open questions go to the new planner. */
  def plannerStarted(): Unit = lock.synchronized(sent.clear())
}
