package schedcore
package events

import java.util.concurrent.atomic.AtomicLong

import org.scalatest.funsuite.AnyFunSuite
import schedcore.marks.JobMark

final class EventQueueSuite extends AnyFunSuite {

  private def event(n: Int): Event = Event.JobEnded(n, s"job-$n", "ended")
  /** As the queue tells it, if it is the first one with this number of those that the queue got. */
  private def told(n: Int): Event = Event.JobEnded(n, s"job-$n", "ended", number = Some(n))

  /** A queue whose whole state is one event that numbers the resets. */
  private final class Fixture(capacity: Int = 16) {
    val resets = new AtomicLong
    private def state(body: Seq[Event] => Batch): Batch = body(Seq(Event.JobEnded(resets.incrementAndGet(), "state", "ended")))
    val queue = new EventQueue(capacity, () => System.nanoTime() / 1000000, state)
    def poll(max: Int = 100): Batch = queue.poll(max, 0)
  }

  test("the first planner hears all that happened before it came, jobs that are over included") {
    val f = new Fixture
    (1 to 5).foreach(n => f.queue.offer(event(n)))
    f.queue.restart() // it is launched, and then introduces itself
    f.queue.restart()
    val first = f.poll(max = 3)
    assert(first.reset)
    assert(first.version === 3)
    assert(first.events === (1 to 3).map(told))
    val second = f.poll()
    assert(!second.reset)
    assert(second.events === (4 to 5).map(told))
    assert(f.queue.droppedCount === 0)
    assert(f.resets.get === 0)
  }

  test("the first planner gets its first batch at once, though nothing has happened") {
    val f = new Fixture
    val batch = f.queue.poll(100, 60000)
    assert(batch.reset)
    assert(batch.events === Nil)
  }

  test("a planner that took part of what the first one would hear leaves the whole state to the next") {
    val f = new Fixture
    (1 to 5).foreach(n => f.queue.offer(event(n)))
    f.poll(max = 2)
    f.queue.restart()
    val batch = f.poll()
    assert(batch.reset)
    assert(batch.events.map(_.timeMs) === Seq(1))
    assert(batch.version === 5)
  }

  test("the batch with the last event says that it is the last one, and a poll that waits comes back for it") {
    val f = new Fixture
    f.poll()
    (1 to 3).foreach(n => f.queue.offer(event(n)))
    f.queue.finish()
    assert(!f.poll(max = 2).stopping)
    assert(f.poll(max = 2).stopping)
    assert(f.queue.poll(100, 60000).stopping)
  }

  test("later batches are what happened since, in order, and their version is that of their last event") {
    val f = new Fixture
    f.poll()
    (1 to 5).foreach(n => f.queue.offer(event(n)))
    val first = f.poll(max = 3)
    assert(!first.reset)
    assert(first.version === 3)
    assert(first.events === (1 to 3).map(told))
    val second = f.poll()
    assert(second.version === 5)
    assert(second.events === (4 to 5).map(told))
    assert(f.poll().events === Nil)
    assert(f.queue.sentCount === 5)
  }

  test("an overflow is counted and the next batch is the whole state again") {
    val f = new Fixture(capacity = 16)
    f.poll()
    (1 to 20).foreach(n => f.queue.offer(event(n)))
    assert(f.queue.droppedCount === 17)
    val batch = f.poll()
    assert(batch.reset)
    assert(batch.dropped === 17)
    assert(batch.version === 20)
    assert(batch.events.map(_.timeMs) === Seq(1))
    f.queue.offer(event(21))
    assert(f.poll().events === Seq(told(21)))
  }

  test("a poll that still waits when its planner died takes nothing from the next planner") {
    val f = new Fixture
    f.poll()
    @volatile var stale: Option[Batch] = None
    val waiting = new Thread(() => stale = Some(f.queue.poll(100, 60000)))
    waiting.start()
    while (waiting.getState != Thread.State.TIMED_WAITING) Thread.sleep(1)
    f.queue.restart()
    waiting.join(600000)
    assert(stale.exists(batch => !batch.reset && batch.events.isEmpty))
    assert(f.poll().reset)
  }

  test("the whole state that the last planner asked for is not the next one's") {
    val restarted, told = new AtomicLong
    var queue: EventQueue = null
    queue = new EventQueue(2, () => 0L, body => {
      if (restarted.getAndIncrement() == 0) queue.restart() // while the first one's state is put together
      body(Nil)
    }, stateSent = () => told.incrementAndGet())
    queue.poll(100, 0) // the first planner needs no state, until its queue overflows
    (1 to 3).foreach(n => queue.offer(event(n)))
    assert(!queue.poll(100, 0).reset)
    // The refused poll has told nobody of the state: what was held since the new planner's state is still to be reported.
    assert(restarted.get === 2 && told.get === 1)
    assert(queue.poll(100, 0).reset)
    assert(told.get === 1)
  }

  test("a new planner starts from the whole state") {
    val f = new Fixture
    f.poll()
    f.queue.offer(event(1))
    f.queue.restart()
    assert(f.poll().reset)
    assert(f.queue.droppedCount === 0)
    assert(f.poll().events === Nil)
  }

  test("a new planner learns of what ends between the death of the one before and its own first poll") {
    val f = new Fixture
    f.poll()
    f.queue.offer(event(1)) // The one before has not polled it, and the state has what came of it.
    f.queue.restart()
    (2 to 4).foreach(n => f.queue.offer(event(n)))
    f.queue.restart() // it introduces itself
    val batch = f.poll(max = 3)
    assert(batch.reset && f.resets.get === 1)
    assert(batch.events.map(_.timeMs) === Seq(1, 2, 3) && batch.version === 3)
    assert(f.poll().events === Seq(told(4)))
  }

  test("the jobs are counted whose end no planner has taken: those that wait, were dropped, or that a whole state does not have") {
    val f = new Fixture(capacity = 16)
    f.queue.offer(event(1))
    assert(f.queue.endsMissed === 1)
    f.queue.restart() // the first planner gets what waits
    f.poll()
    assert(f.queue.endsMissed === 0)
    (1 to 3).foreach(n => f.queue.offer(event(n)))
    f.poll(max = 1)
    f.queue.restart()
    f.poll() // the state has nothing of jobs that are over
    assert(f.queue.endsMissed === 2)
    (1 to 20).foreach(n => f.queue.offer(event(n)))
    assert(f.queue.endsMissed === 22)
    f.poll()
    assert(f.queue.endsMissed === 22)
  }

  test("a whole state is one batch however large it is, and what overflows behind it is the state of then") {
    val state = (1 to 7).map(event)
    val queue = new EventQueue(16, () => 0L, body => body(state))
    queue.poll(100, 0)
    queue.restart()
    val batch = queue.poll(3, 0)
    assert(batch.reset && batch.events === state)
    queue.restart()
    (1 to 20).foreach(n => queue.offer(event(n)))
    val late = queue.poll(3, 0)
    assert(late.reset && late.events === state && late.version === 20 && late.dropped > 0)
  }

  test("a poll waits as long as it was asked to though the clock is set back") {
    val clock = new AtomicLong(1L << 40)
    val queue = new EventQueue(16, () => clock.addAndGet(-3600000), body => body(Nil))
    queue.poll(100, 0)
    @volatile var got: Option[Batch] = None
    val waiting = new Thread(() => got = Some(queue.poll(100, 20)))
    waiting.start()
    waiting.join(60000)
    queue.nudge()
    assert(got.map(_.events) === Some(Nil))
  }

  test("a waiting poll is answered by an event") {
    val f = new Fixture
    f.poll()
    @volatile var got: Option[Batch] = None
    val waiting = new Thread(() => got = Some(f.queue.poll(100, 60000)))
    waiting.start()
    while (waiting.getState != Thread.State.TIMED_WAITING && waiting.isAlive) Thread.sleep(1)
    f.queue.offer(event(1))
    waiting.join(600000)
    assert(got.map(_.events) === Some(Seq(told(1))))
  }

  private def started(job: String): Event = Event.JobStarted(0, mark(job))
  private def mark(job: String): JobMark = JobMark.from(Map("spark.sched.job.id" -> job).get(_), 1)
  private def run(queue: EventQueue, job: String): Unit = {
    val key = mark(job).key
    queue.offer(started(job))
    queue.offer(Event.JobEnded(1, key, "ended"))
  }
  private def endsIn(batch: Batch): Seq[String] = batch.events.collect { case Event.Past(end: Event.JobEnded) => end.job }

  test("a job that is over is told to each new planner until one has stored what it taught") {
    val queue = new EventQueue(100, () => 0L, body => body(Nil))
    queue.poll(100, 0)
    Seq("a", "b", "c").foreach(run(queue, _))
    val keys = Seq("a", "b", "c").map(mark(_).key)
    assert(queue.poll(2, 0).events.size === 2) // It has taken the first one, the others it has not.
    queue.restart()
    queue.restart()
    val second = queue.poll(100, 0)
    assert(second.reset && endsIn(second) === keys)
    assert(queue.unstored === 3)
    queue.stored(4, 0) // the first two
    assert(queue.unstored === 1)
    queue.restart()
    assert(endsIn(queue.poll(100, 0)) === keys.drop(2))
    queue.stored(queue.currentVersion, 0)
    queue.restart()
    assert(endsIn(queue.poll(100, 0)) === Nil)
    assert(queue.unstored === 0 && queue.unlearned === 0)
  }

  test("a planner whose queue overflowed is told of the jobs that are over, too") {
    val queue = new EventQueue(16, () => 0L, body => body(Nil))
    queue.poll(100, 0)
    (1 to 20).foreach(n => run(queue, s"j$n"))
    val batch = queue.poll(100, 0)
    assert(batch.reset && batch.dropped > 0)
    assert(endsIn(batch) === (1 to 20).map(n => mark(s"j$n").key))
  }

  test("jobs that a planner gave up count as not learned, also after it") {
    val queue = new EventQueue(16, () => 0L, body => body(Nil))
    queue.poll(100, 0)
    Seq("a", "b").foreach(run(queue, _))
    queue.stored(queue.currentVersion, 2)
    assert(queue.unlearned === 2 && queue.unstored === 0)
    queue.restart()
    queue.stored(queue.currentVersion, 1)
    assert(queue.unlearned === 3)
  }
}
