package org.apache.spark.scheduler.sparksched

import scala.annotation.meta.getter
import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.node.ObjectNode
import org.apache.spark.SparkConf
import org.apache.spark.internal.Logging
import org.apache.spark.scheduler.{SparkListener, SparkListenerEvent}
import org.apache.spark.scheduler.sparksched.operators.HistoryTab
import org.apache.spark.status.{AppHistoryServerPlugin, ElementTrackingStore}
import org.apache.spark.ui.SparkUI
import org.apache.spark.util.kvstore.{KVIndex, KVStore}
import schedcore.status.EventLogBook

/** Has Spark's history server show the tab "Scheduling" of applications whose event log tells of it. */
private[spark] final class HistoryPlugin extends AppHistoryServerPlugin with Logging {
  override def createListeners(conf: SparkConf, store: ElementTrackingStore): Seq[SparkListener] = Seq(new HistoryListener(store))

  override def setupUI(ui: SparkUI): Unit =
    try {
      val history = new HistoryEntries(ui.store.store)
      if (history.isThere) ui.attachTab(new HistoryTab(ui, history))
    } catch {
      case thrown @ (NonFatal(_) | _: LinkageError) => logWarning("spark_sched: the tab Scheduling cannot be shown", thrown)
    }

  override def displayOrder: Int = 100
}

/** @param id in the order of the log */
private[sparksched] final class HistoryEntry(@(KVIndex @getter) val id: String, val kind: String, val timeMs: Long, val body: String)

/**
 * Keeps the events of a log in the history server's store: of each known kind the latest ones, bounded in number and in size. Whoever
 * wrote the log may be a stranger, and the server shows the logs of others, too.
 */
private[sparksched] final class HistoryListener(store: KVStore) extends SparkListener {
  import HistoryEntries._

  private final class Kept {
    val entries = mutable.Queue.empty[(String, Int)]
    var chars = 0L
  }
  private var count = 0
  private val kept = Kinds.map(_ -> new Kept).toMap

  override def onOtherEvent(event: SparkListenerEvent): Unit = event match {
    case ours: SchedulingEvent if ours.schema == EventLogBook.Schema && ours.body != null && ours.body.isObject =>
      kept.get(ours.kind).foreach(keep(ours, _))
    case _ =>
  }

  private def keep(event: SchedulingEvent, of: Kept): Unit = {
    val body = event.body.toString
    if (body.length <= MostCharsOfOne) {
      count += 1
      val id = f"$count%010d"
      store.write(new HistoryEntry(id, event.kind, event.timeMs, body))
      of.entries += id -> body.length
      of.chars += body.length
      while (of.entries.size > Most || of.chars > MostChars) {
        val (oldest, length) = of.entries.dequeue()
        of.chars -= length
        store.delete(classOf[HistoryEntry], oldest)
      }
    }
  }
}

/** What the event log of one application contains. */
private[sparksched] final class HistoryEntries(store: KVStore) {
  import HistoryEntries._

  def isThere: Boolean = store.count(classOf[HistoryEntry]) > 0

  def of(kinds: String*): Seq[Entry] = {
    val iterator = store.view(classOf[HistoryEntry]).closeableIterator()
    try iterator.asScala.filter(e => kinds.contains(e.kind)).map(e => Entry(e.kind, e.timeMs, EventLogBook.parsed(e.body))).toList
    finally iterator.close()
  }

  /** The last document that was logged; none where the application ended within seconds. */
  def last: Option[Entry] = of("status", "end").lastOption
}

private[sparksched] object HistoryEntries {
  /** What an entry may tell of. */
  val Kinds: Set[String] = Set("job", "plan", "change", "status", "end")
  /** Entries of a kind. */
  val Most = 5000
  /** Characters of an entry: a document of the largest application that is shown has a tenth of that. */
  val MostCharsOfOne: Int = 4 << 20
  /** Characters of all entries of a kind. */
  val MostChars: Long = 32L << 20

  final case class Entry(kind: String, timeMs: Long, body: ObjectNode)
}
