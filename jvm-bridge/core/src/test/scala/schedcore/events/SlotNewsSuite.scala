package schedcore
package events

import org.scalatest.funsuite.AnyFunSuite

class SlotNewsSuite extends AnyFunSuite {
  private def queue(): EventQueue = {
    val events = new EventQueue(100, () => 0L, body => body(Nil))
    events.poll(100, 0L) // takes the whole state, so that events queue up from here on
    events
  }

  private def told(events: EventQueue): Seq[String] = events.poll(100, 0L).events.map {
    case held: Event.SlotHeld => s"held ${held.job} ${held.executor}"
    case freed: Event.SlotFreed => s"freed ${freed.job} ${freed.executor} ${freed.reason}"
    case other => other.kind
  }

  test("a hold is told after the next offers") {
    val events = queue()
    val news = new SlotNews(events)
    news.slotHeld("j", "1.0", "e1", 9L, 1L)
    assert(told(events) === Nil)
    news.tell()
    assert(told(events) === Seq("held j e1"))
  }

  test("a hold that is over by then is not told at all") {
    val events = queue()
    val news = new SlotNews(events)
    news.slotHeld("j", "1.0", "e1", 9L, 1L)
    news.slotFreed("j", "e1", "used", 2L)
    news.tell()
    assert(told(events) === Nil)
  }

  test("the end of a hold that was told is told at once") {
    val events = queue()
    val news = new SlotNews(events)
    news.slotHeld("j", "1.0", "e1", 9L, 1L)
    news.tell()
    news.slotFreed("j", "e1", "expired", 9L)
    assert(told(events) === Seq("held j e1", "freed j e1 expired"))
  }

  test("the end of one hold leaves those of other jobs and executors to be told") {
    val events = queue()
    val news = new SlotNews(events)
    news.slotHeld("j", "1.0", "e1", 9L, 1L)
    news.slotHeld("j", "1.0", "e2", 9L, 1L)
    news.slotHeld("k", "2.0", "e1", 9L, 1L)
    news.slotFreed("j", "e1", "used", 2L)
    news.tell()
    assert(told(events) === Seq("held j e2", "held k e1"))
  }

  test("what the whole state says is not told again") {
    val events = queue()
    val news = new SlotNews(events)
    news.slotHeld("j", "1.0", "e1", 9L, 1L)
    news.forget()
    news.tell()
    assert(told(events) === Nil)
  }
}
