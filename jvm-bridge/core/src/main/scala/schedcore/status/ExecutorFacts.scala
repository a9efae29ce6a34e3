package schedcore
package status

import scala.collection.mutable

import schedcore.events.Event

/** Slots of an executor that are held for a job. */
final case class HeldFor(job: String, name: String, slots: Int)

/**
 * The slots of one executor: all of them, those that run attempts, those that are held idle.
 *
 * @param runningSlots copies and pilots included
 * @param pilotSlots of pilots whose stage waits for them
 */
final case class ExecutorFacts(
    executor: String, host: String, slots: Int, runningSlots: Int, held: Seq[HeldFor], copiedSlots: Int = 0, pilotSlots: Int = 0) {
  def heldSlots: Int = held.map(_.slots).sum
}

/**
 * Raw facts about executors at one moment: copied under the scheduler's lock, so that they can be added up outside.
 *
 * @param running attempts that run now
 * @param holds job, executor, slots and deadline of each hold
 * @param names of the jobs that hold something, by key
 * @param pilots indices of the pilots that run, by stage that waits for them
 */
final case class ExecutorBooks(
    executors: Seq[Event.ExecutorAdded], running: Seq[Event.TaskLaunched], holds: Seq[(String, String, Int, Long)],
    names: Map[String, String], pilots: Map[String, Set[Int]]) {
  import ExecutorBooks._

  /** In the order of `executors`; one pass over what runs. */
  def facts: Seq[ExecutorFacts] = {
    val sums = mutable.HashMap.from(executors.iterator.map(_.executor -> new Sums))
    running.foreach(task => sums.get(task.executor).foreach(_.add(task, isPilot(task))))
    val held = holds.groupMap(_._2) { case (job, _, slots, _) => HeldFor(job, names.getOrElse(job, job), slots) }
    executors.map { e =>
      val of = sums(e.executor)
      ExecutorFacts(e.executor, e.host, e.slots, of.running, held.getOrElse(e.executor, Nil), of.copied, of.pilot)
    }
  }

  private def isPilot(task: Event.TaskLaunched): Boolean =
    pilots.nonEmpty && !task.copy && pilots.get(task.stage).exists(_(task.index))
}

object ExecutorBooks {
  val Empty: ExecutorBooks = ExecutorBooks(Nil, Nil, Nil, Map.empty, Map.empty)

  /** @param nameOf the name of a job by its key, where that is known */
  def copied(
      executors: Iterator[Event.ExecutorAdded], running: Iterator[Event.TaskLaunched], holds: Seq[(String, String, Int, Long)],
      nameOf: String => Option[String], pilots: Map[String, Set[Int]]): ExecutorBooks = ExecutorBooks(
    executors.toList, running.toList, holds, holds.iterator.map(_._1).flatMap(key => nameOf(key).map(key -> _)).toMap, pilots)

  /** Slots of one executor. */
  private final class Sums {
    var running = 0
    var copied = 0
    var pilot = 0

    def add(task: Event.TaskLaunched, isPilot: Boolean): Unit = {
      running += task.slots
      if (task.copy) copied += task.slots
      if (isPilot) pilot += task.slots
    }
  }
}
