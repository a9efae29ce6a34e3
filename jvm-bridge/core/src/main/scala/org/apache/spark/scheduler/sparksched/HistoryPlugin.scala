package org.apache.spark.scheduler.sparksched

import scala.annotation.meta.getter
import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.node.ObjectNode
import org.apache.spark.SparkConf
import org.apache.spark.internal.Logging
import org.apache.spark.scheduler.{SparkListener, SparkListenerEvent}
import org.apache.spark.status.{AppHistoryServerPlugin, ElementTrackingStore}
import org.apache.spark.ui.SparkUI
import org.apache.spark.util.kvstore.{KVIndex, KVStore}
import schedcore.EventLogBook

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

/** Keeps the events of a log in the history server's store, a bounded number of the latest of each kind. */
private final class HistoryListener(store: ElementTrackingStore) extends SparkListener {
  private var count = 0
  private val kept = collection.mutable.HashMap.empty[String, collection.mutable.Queue[String]]

  override def onOtherEvent(event: SparkListenerEvent): Unit = event match {
    case ours: SchedulingEvent if ours.schema == EventLogBook.Schema && ours.body != null && ours.body.isObject =>
      count += 1
      val id = f"$count%010d"
      store.write(new HistoryEntry(id, ours.kind, ours.timeMs, ours.body.toString))
      val ids = kept.getOrElseUpdate(ours.kind, collection.mutable.Queue.empty)
      ids += id
      if (ids.size > HistoryEntries.Most) store.delete(classOf[HistoryEntry], ids.dequeue())
    case _ =>
  }
}

/** What the event log of one application contains. */
private[sparksched] final class HistoryEntries(store: KVStore) {
  import HistoryEntries._

  def isThere: Boolean = store.count(classOf[HistoryEntry]) > 0

  def of(kinds: String*): Seq[Entry] = {
    val iterator = store.view(classOf[HistoryEntry]).closeableIterator()
    try iterator.asScala.filter(e => kinds.contains(e.kind)).map(e => Entry(e.kind, e.timeMs, EventLogBook.parsed(e.body))).toSeq
    finally iterator.close()
  }

  /** The last document that was logged; none where the application ended within seconds. */
  def last: Option[Entry] = of("status", "end").lastOption
}

private[sparksched] object HistoryEntries {
  /** Entries of a kind. */
  val Most = 5000

  final case class Entry(kind: String, timeMs: Long, body: ObjectNode)
}
