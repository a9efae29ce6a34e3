package schedcore
package marks

import scala.collection.mutable

/** The blocks that owners mark by an id and report as over: which are, and which ids any stage had. */
final class MarkedBlocks {
  // A thread that a block started may still submit work under its mark.
  private val over = mutable.LinkedHashSet.empty[String]
  // A micro-batch has its stream's id, and another key.
  private val used = mutable.LinkedHashSet.empty[String]

  /** A stage has this id as its mark. The latest are kept: nobody ends marks that SQL sets. */
  def stageStarted(id: String): Unit = {
    val given = PlainText.bounded(id)
    if (!isOver(JobMark.keyOf(given))) MarkedBlocks.add(used, given)
  }

  /** The block is over. @return whether any stage had its id */
  def ended(id: String): Boolean = {
    MarkedBlocks.add(over, JobMark.keyOf(PlainText.bounded(id)))
    used.remove(PlainText.bounded(id))
  }

  /** Whether the block of the job with this key is over. */
  def isOver(key: String): Boolean = over(key)
}

private object MarkedBlocks {
  /** Far more than blocks end while a thread that one of them started can still be about to submit work. */
  private val Most = 10000

  private def add(ids: mutable.LinkedHashSet[String], id: String): Unit = {
    ids -= id
    ids += id
    if (ids.size > Most) ids -= ids.head
  }
}
