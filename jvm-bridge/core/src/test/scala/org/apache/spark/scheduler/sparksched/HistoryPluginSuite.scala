package org.apache.spark.scheduler.sparksched

import com.fasterxml.jackson.databind.ObjectMapper
import org.apache.spark.util.kvstore.InMemoryStore
import org.scalatest.funsuite.AnyFunSuite
import schedcore.status.EventLogBook

/** What a history server keeps of an event log that anybody may have written. */
final class HistoryPluginSuite extends AnyFunSuite {
  private val mapper = new ObjectMapper()

  private final class World {
    val store = new InMemoryStore
    private val listener = new HistoryListener(store)
    def logged(kind: String, n: Int, text: String = ""): Unit =
      listener.onOtherEvent(SchedulingEvent(EventLogBook.Schema, kind, n, mapper.createObjectNode().put("name", text)))
    def kept(kind: String): Seq[Long] = new HistoryEntries(store).of(kind).map(_.timeMs)
  }

  test("the latest entries of each known kind are kept, and none of others") {
    val w = new World
    val more = HistoryEntries.Most + 2
    (1 to more).foreach(w.logged("job", _))
    (1 to 3).foreach(n => w.logged(s"kind $n", n))
    w.logged("end", 9)
    w.logged(null, 9)
    assert(w.kept("job") === (3 to more))
    assert(w.kept("end") === Seq(9))
    assert(w.store.count(classOf[HistoryEntry]) === HistoryEntries.Most + 1)
  }

  test("long entries push out older ones of their kind, and one that is too long is left out") {
    val w = new World
    val long = "x" * (HistoryEntries.MostCharsOfOne - 100)
    val fit = (HistoryEntries.MostChars / (long.length + 11)).toInt // with the rest of the JSON
    w.logged("end", 1)
    (1 to fit + 3).foreach(w.logged("job", _, long))
    w.logged("job", 99, long + long)
    assert(w.kept("job") === (4 to fit + 3))
    assert(w.kept("end") === Seq(1))
  }
}
