package schedcore
package marks

import scala.collection.mutable

/** The jobs that SQL sessions have by `SET`, so that a session that drops its mark ends its job, and no other. */
final class SqlMarks {
  private val jobs = mutable.LinkedHashMap.empty[String, Set[String]]

  /** A Spark job of the session belongs to this job because the session's settings say so. */
  def ran(session: String, job: String): Unit = {
    val keys = jobs.remove(session).getOrElse(Set.empty) + job
    jobs(session) = if (keys.size > SqlMarks.MostJobs) Set(job) else keys
    if (jobs.size > SqlMarks.MostSessions) jobs -= jobs.head._1
  }

  /**
   * A statement of the session is over.
   *
   * @param mark key of the job that its settings mark now
   * @return keys of the jobs that its executions had under earlier settings, without those that another session has
   */
  def seen(session: String, mark: Option[String]): Set[String] = jobs.get(session).fold(Set.empty[String]) { keys =>
    val (kept, dropped) = keys.partition(mark.contains)
    if (kept.isEmpty) jobs -= session else jobs(session) = kept
    dropped.filterNot(key => jobs.valuesIterator.exists(_.contains(key)))
  }
}

object SqlMarks {
  /** Sessions that leave say nothing: those that ran nothing for longest are forgotten. */
  val MostSessions = 1000
  /** Jobs of one session between two ends of its statements. */
  val MostJobs = 100
}
