package schedcore

import scala.collection.mutable

/** The marks that SQL sessions have by `SET`, so that a session that drops its mark ends the job. */
final class SqlMarks {
  private val keys = mutable.LinkedHashMap.empty[String, String]

  /**
   * A statement of the session is over.
   *
   * @param mark key of the job that its settings mark now
   * @return key of the job that they marked before, if no other session marks it
   */
  def seen(session: String, mark: Option[String]): Option[String] = {
    val before = keys.remove(session)
    mark.foreach(keys(session) = _)
    if (keys.size > SqlMarks.MostSessions) keys -= keys.head._1
    before.filterNot(key => keys.valuesIterator.contains(key))
  }
}

object SqlMarks {
  /** Sessions that leave say nothing: those unused for longest are forgotten. */
  val MostSessions = 1000
}
