package org.apache.spark.scheduler.sparksched
package jobs

import scala.collection.mutable

import org.apache.spark.internal.Logging
import schedcore.PlainText
import schedcore.marks.JobMark

/** Marks that do not count as given: counted for each job, each sentence logged once. Used under the scheduler's lock only. */
private[sparksched] final class MarkWarnings extends Logging {
  private var ofIgnored = 0L
  private var ofLimited = 0L
  private val logged = mutable.LinkedHashSet.empty[String]

  def ignored: Long = ofIgnored
  def limited: Long = ofLimited

  def count(mark: JobMark): Unit = mark.warnings.foreach(w => if (w.limited) ofLimited += 1 else ofIgnored += 1)

  def log(mark: JobMark): Unit = mark.warnings.foreach { w =>
    if (logged.add(w.sentence)) {
      // What people typed must not look like further lines.
      logWarning(PlainText.of(s"spark_sched: ${w.sentence}"))
      if (logged.size > MarkWarnings.MostLogged) logged -= logged.head
    }
  }
}

private object MarkWarnings {
  /** Sentences that are not repeated. */
  private val MostLogged = 1000
}
