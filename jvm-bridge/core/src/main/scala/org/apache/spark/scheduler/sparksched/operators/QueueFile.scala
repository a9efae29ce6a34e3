package org.apache.spark.scheduler.sparksched
package operators

import java.io.File
import java.nio.file.Files
import java.nio.file.attribute.BasicFileAttributes

import scala.util.Try
import scala.util.control.NonFatal

import org.apache.spark.internal.Logging

/**
 * Watches the file of the tenants' queues in a thread of its own: each second it asks for the file's time and size, no more. The file is
 * read when both have been the same for two looks, since an editor may still write. A file that is not there is not a change: in cluster
 * mode the driver may have none, and editors replace files.
 *
 * @param read what is wrong with the file, or the setting that it becomes
 * @param took called with that after each change, and once at the start
 */
private[sparksched] final class QueueFile(file: File, read: File => Either[String, String], took: Either[String, String] => Unit)
    extends Logging {
  import QueueFile._

  private var seen = Option.empty[Stamp]
  private var known = Option.empty[Stamp]
  private val thread = new Thread(() => watch(), "spark-sched-queue-file")
  thread.setDaemon(true)

  def start(): Unit = thread.start()
  /** Does not wait for a file that is being read. */
  def stop(): Unit = thread.interrupt()

  private def watch(): Unit = try {
    while (!Thread.interrupted()) {
      try look() catch { case NonFatal(thrown) => logWarning(s"spark_sched: $file could not be read", thrown) }
      Thread.sleep(EveryMs)
    }
  } catch { case _: InterruptedException => }

  /** One look at the file. */
  private[operators] def look(): Unit = {
    val now = stamp(file)
    if (now.isDefined && now == seen && now != known) {
      known = now
      took(read(file))
    }
    seen = now
  }
}

private object QueueFile {
  val EveryMs = 1000L

  /** What changes with the file's content. */
  final case class Stamp(modified: java.nio.file.attribute.FileTime, size: Long, key: String)

  def stamp(file: File): Option[Stamp] = Try(Files.readAttributes(file.toPath, classOf[BasicFileAttributes])).toOption
    .map(a => Stamp(a.lastModifiedTime, a.size, String.valueOf(a.fileKey)))
}
