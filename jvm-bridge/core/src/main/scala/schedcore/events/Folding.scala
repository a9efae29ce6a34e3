package schedcore
package events

import scala.collection.mutable

/**
 * Tells attempts that were launched and succeeded within one batch as columns, one event per stage and executor.
 *
 * Nobody can act on an attempt that is over before its launch is heard of; its duration is all that counts.
 */
object Folding {
  private final class Columns(first: Event.TaskEnded) {
    private val tasks = mutable.ArrayBuffer.empty[Long]
    private val indices = mutable.ArrayBuffer.empty[Int]
    private val durationsMs = mutable.ArrayBuffer.empty[Long]
    private var lastMs = first.timeMs

    def add(end: Event.TaskEnded): Unit = {
      tasks += end.task
      indices += end.index
      durationsMs += end.durationMs
      lastMs = end.timeMs
    }

    def event: Event = Event.ShortTasks(lastMs, first.job, first.stage, first.executor, tasks, indices, durationsMs)
  }

  /** The same story with fewer events: an end moves back only past launches, short attempts' ends and slots. */
  def shortTasks(events: collection.Seq[Event]): Seq[Event] = {
    val launched = mutable.HashSet.empty[Long]
    val short = mutable.HashSet.empty[Long]
    events.foreach {
      case launch: Event.TaskLaunched if !launch.copy => launched += launch.task
      case end: Event.TaskEnded if end.outcome == "success" && launched(end.task) => short += end.task
      case _ =>
    }
    if (short.size < 2) events.toList
    else {
      val folded = Seq.newBuilder[Event]
      val open = mutable.LinkedHashMap.empty[(String, String), Columns]
      def close(): Unit = {
        open.valuesIterator.foreach(columns => folded += columns.event)
        open.clear()
      }
      events.foreach {
        case launch: Event.TaskLaunched => if (!short(launch.task)) folded += launch
        case end: Event.TaskEnded =>
          // The result of one that had succeeded may be lost in the same batch.
          if (end.outcome == "success" && short(end.task)) open.getOrElseUpdate((end.stage, end.executor), new Columns(end)).add(end)
          else {
            close()
            folded += end
          }
        case slot @ (_: Event.SlotHeld | _: Event.SlotFreed) => folded += slot
        case other =>
          close()
          folded += other
      }
      close()
      folded.result()
    }
  }
}
