package org.apache.spark.scheduler.sparksched
package jobs

import scala.collection.mutable

import schedcore.PlainText
import schedcore.marks.{JobMark, MarkedBlocks, MarkSources, Origin, SessionUsers, SqlMarks}
import schedcore.settings.Settings

/**
 * How a job that is more than one Spark job ends: with its block, its SQL execution, its session's mark, its micro-batch, its
 * stream, the application, or because nothing more is heard of it. Used under the scheduler's lock only.
 *
 * @param jobs those that are not over, by key
 * @param end ends a job, with its key, the outcome, the time
 * @param users whom servers know the users of sessions to be
 */
private[sparksched] final class JobEnds(
    settings: Settings, users: SessionUsers, jobs: collection.Map[String, RegisteredJob], end: (String, String, Long) => Unit) {

  private val blocks = new MarkedBlocks
  private val sqlMarks = new SqlMarks
  // The newest job of each series.
  private val newest = mutable.HashMap.empty[String, String]

  // ---- what jobs do meanwhile --------------------------------------------------------------------------------

  /** A job begins, which ends the job before it in its series. */
  def began(mark: JobMark, nowMs: Long): Unit = mark.series.foreach { series =>
    seriesEnded(series, nowMs)
    newest(series) = mark.key
  }

  /** @return whether the job's block is over already: Spark may make task sets of it later */
  def stageBegan(mark: JobMark, block: Option[String]): Boolean = {
    mark.session.foreach(sqlMarks.ran(_, mark.key))
    block.foreach(blocks.stageStarted)
    blocks.isOver(mark.key)
  }

  def forgotten(mark: JobMark): Unit = mark.series.filter(newest.get(_).contains(mark.key)).foreach(newest -= _)

  // ---- ends ----------------------------------------------------------------------------------------------------

  def sqlExecutionEnded(id: Long, failed: Boolean, nowMs: Long): Unit = {
    val key = JobMark.keyOfSql(id.toString)
    jobs.get(key).foreach(_.actions.queryFailed = Some(failed))
    end(key, "ended", nowMs)
  }

  /** The owner of a mark says that its block is over. @return whether any stage had it */
  def markEnded(id: String, nowMs: Long): Boolean = {
    val had = blocks.ended(id)
    end(JobMark.keyOf(PlainText.bounded(id)), "ended", nowMs)
    had
  }

  /** Ends the newest job of the series: the series ended, or its next job starts. */
  def seriesEnded(series: String, nowMs: Long): Unit = newest.remove(series).foreach(end(_, "ended", nowMs))

  /** Ends a micro-batch and the jobs that were marked inside it by name. */
  def batchEnded(query: String, batch: String, nowMs: Long): Unit = {
    val key = JobMark.keyOfBatch(query, batch)
    jobs.keysIterator.filter(k => k == key || k.startsWith(s"$key-")).toList.foreach(end(_, "ended", nowMs))
  }

  /** A streaming query is over. */
  def streamEnded(query: String, nowMs: Long): Unit = {
    val series = JobMark.seriesOf(query)
    newest.keysIterator.filter(s => s == series || s.startsWith(s"$series-")).toList.foreach(seriesEnded(_, nowMs))
  }

  /**
   * A statement of a SQL session is over. A mark that was removed from the session's settings ends the job that the session's
   * executions had, not whatever job the settings name.
   *
   * @param setting the session's settings as they are now
   */
  def sqlSessionSeen(session: String, setting: String => Option[String], nowMs: Long): Unit = {
    val held = MarkSources.Keys.flatMap(key => setting(key).map(key -> _)).toMap
    val mark = JobMark.from(held.get, -1, settings.limits, origin = Origin.of(session, held, users.of(session)))
    sqlMarks.seen(session, Some(mark).filter(_.marked).map(_.key)).foreach(end(_, "ended", nowMs))
  }

  /**
   * The application ends, and whoever is done is over. A job of which a stage or a Spark job is still there was cut short,
   * and nothing is said of it.
   *
   * @param active whether a Spark job is not done
   */
  def applicationEnds(active: Int => Boolean, nowMs: Long): Unit =
    endEach("ended", nowMs)(j => j.stages.isEmpty && !j.actions.sparkJobs.exists(active))

  /** Jobs that nobody ends by name and that have been idle for the gap are over. */
  def endIdle(nowMs: Long): Unit =
    endEach("idle", nowMs)(j => j.idle && !j.mark.endsByCall && nowMs - j.lastActiveMs > settings.defaults.gapMs)

  private def endEach(outcome: String, nowMs: Long)(over: RegisteredJob => Boolean): Unit =
    jobs.iterator.collect { case (key, job) if over(job) => key }.toList.foreach(end(_, outcome, nowMs))
}
