package schedcore
package status

import org.scalatest.funsuite.AnyFunSuite
import schedcore.events.Event

/** What executors' slots were for in the last minutes, and now. */
final class SlotTimelineSuite extends AnyFunSuite {
  private def executor(id: String, running: Int, held: Int = 0) =
    ExecutorFacts(id, "node", 4, running, if (held > 0) Seq(HeldFor("a", "report", held)) else Nil)

  private def spans(of: SlotTimeline, id: String, nowMs: Long) =
    of.spans(id, nowMs).map(s => (s.fromMs, s.untilMs, s.facts.runningSlots, s.facts.heldSlots))

  test("equal samples are one span, and the last one lasts until now") {
    val timeline = new SlotTimeline(keepMs = 1000, everyMs = 100)
    assert(timeline.due(0))
    timeline.sample(Seq(executor("1", 4), executor("2", 0)), 0)
    assert(!timeline.due(99) && timeline.due(100))
    timeline.sample(Seq(executor("1", 4), executor("2", 0)), 100)
    timeline.sample(Seq(executor("1", 1, held = 3), executor("2", 0)), 200)
    assert(spans(timeline, "1", 250) === Seq((0, 200, 4, 0), (200, 250, 1, 3)))
    assert(spans(timeline, "2", 250) === Seq((0, 250, 0, 0)))
    assert(spans(timeline, "3", 250).isEmpty)
    assert(spans(timeline, "1", 200) === Seq((0, 200, 4, 0)), "a span without length is none")
  }

  test("a clock that was set back stops no samples, and nothing lasts until now once no more come") {
    val timeline = new SlotTimeline(keepMs = 1000, everyMs = 100)
    timeline.sample(Seq(executor("1", 4)), 5000)
    assert(timeline.due(4000) && !timeline.due(5050))
    timeline.clear()
    assert(spans(timeline, "1", 5100).isEmpty)
  }

  test("spans begin with the time that is kept, and executors that are gone are forgotten") {
    val timeline = new SlotTimeline(keepMs = 1000, everyMs = 100)
    (0 to 50).foreach(i => timeline.sample(Seq(executor("1", i % 2), executor("2", 3)), i * 100L))
    val of = spans(timeline, "1", 5000)
    assert(of.head._1 === 4000 && of.size === 10)
    assert(spans(timeline, "2", 5000) === Seq((4000, 5000, 3, 0)))
    timeline.sample(Seq(executor("1", 4)), 5100)
    assert(spans(timeline, "2", 5200).isEmpty)
  }

  test("an executor's slots are told by what is on them") {
    def task(id: Long, index: Int, executor: String, copy: Boolean = false, slots: Int = 1) =
      Event.TaskLaunched(0, "a", "1.0", id, index, executor, copy, slots)
    val added = Seq(Event.ExecutorAdded(0, "1", "node-1", 8, 0), Event.ExecutorAdded(0, "2", "node-2", 4, 0))
    val running = Seq(task(1, 0, "1"), task(2, 1, "1", slots = 2), task(3, 1, "1", copy = true), task(4, 0, "lost"))
    val held = Seq(("b", "1", 2, 0L), ("gone", "1", 1, 0L))
    assert(ExecutorBooks(added, running, held, Map("b" -> "report"), Map("1.0" -> Set(1))).facts === Seq(
      ExecutorFacts("1", "node-1", 8, 4, Seq(HeldFor("b", "report", 2), HeldFor("gone", "gone", 1)), copiedSlots = 1, pilotSlots = 2),
      ExecutorFacts("2", "node-2", 4, 0, Nil)))
  }
}
