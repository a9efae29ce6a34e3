package schedcore
package enforce

import scala.collection.mutable

/**
 * The pilots of one stage: a few of its tasks that run before the others, so that their times tell of these (SLearn,
 * section 3). The gate is closed while a pilot has neither ended in any way nor been lost.
 *
 * Only first attempts count: a pilot that fails or is killed opens the gate like one that succeeds, so no failure keeps
 * the stage waiting. Used under its owner's lock only.
 *
 * @param tasks of the stage
 */
final class PilotGate(tasks: Int) {
  private val over = new mutable.BitSet(tasks)
  private var pilots: IndexedSeq[Int] = IndexedSeq.empty
  private var open = 0 // pilots that are not over

  /** The pilots that the plan in force wants; numbers that the stage does not have are left out. */
  def put(wanted: IndexedSeq[Int]): Unit = if (wanted ne pilots) {
    pilots = wanted
    open = waiting.size
  }

  def closed: Boolean = open > 0

  /** The pilots that are not over, in the plan's order. */
  def waiting: IndexedSeq[Int] = pilots.filter(i => i < tasks && !over(i))

  /** An attempt of a task ended, or was lost. @return whether that opened the gate */
  def ended(task: Int): Boolean = {
    val first = over.add(task)
    val opens = first && open == 1 && pilots.contains(task)
    if (first && open > 0 && pilots.contains(task)) open -= 1
    opens
  }
}
