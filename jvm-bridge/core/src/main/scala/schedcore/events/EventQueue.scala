package schedcore
package events

import java.util.concurrent.TimeUnit

import scala.collection.mutable

/**
 * The bounded queue of events from the scheduler to the planner.
 *
 * `offer` never blocks: it is called under the scheduler's lock. When the planner is away or too slow the queue
 * overflows, its content is dropped and counted, and the next poll starts from the whole state instead. Until a planner's
 * first poll the queue keeps all events since the previous planner died or the application began. They include jobs that have
 * ended by then: the planner learns from these, and the state at its poll would not contain them.
 *
 * The state contains no ended jobs or stages. A new planner, and one whose queue overflowed, gets these from the journal. The
 * journal keeps an ended job until a planner confirms that it stored the job.
 *
 * @param withState runs its argument on the events that rebuild the present state, under the scheduler's lock, so
 *                  that no event slips in between
 * @param teaches whether a planner learns from the events
 * @param stateSent called when a planner is told, or will be, of the state that `withState` gave, before another event comes
 */
final class EventQueue(
    capacity: Int, nowMs: () => Long, withState: (Seq[Event] => Batch) => Batch, teaches: Boolean = true,
    stateSent: () => Unit = () => ()) {
  private val LingerMs = 50L
  private val lock = new Object
  private val events = mutable.Queue.empty[Event]
  private var version = 0L
  private var resetDue = false
  private var whole = true // the events begin with nothing or with a whole state, and no planner has taken or missed any of them
  private var stateSize = 0 // how many of the first events are that state
  private var stopping = false
  private var dropped = 0L
  private var unread = 0L // jobs whose end was dropped, or replaced by a state without them
  private val journal = new JobJournal(EventQueue.JournalSizes * capacity)
  private var givenUp = 0L // jobs that this planner gave up to store; those before it: `givenUpBefore`
  private var givenUpBefore = 0L
  private var sent = 0L
  private var nudged = false
  private var planner = 0L // its number: a dead planner's call may still wait in `poll` and must take no event from the next planner

  def offer(happened: Event): Unit = lock.synchronized {
    version += 1
    val event = happened match {
      case end: Event.JobEnded => end.copy(number = Some(version))
      case other => other
    }
    if (teaches) journal.record(event)
    if (resetDue) { if (endsJob(event)) unread += 1 } // The whole state contains the rest.
    else if (events.size >= capacity) {
      dropped += events.size + 1
      unread += waitingEnds + (if (endsJob(event)) 1 else 0)
      events.clear()
      whole = false
      resetDue = true
      lock.notifyAll()
    } else {
      events.enqueue(event)
      // One wake-up per batch is enough: the poller drains the queue.
      if (events.size == 1) lock.notifyAll()
    }
  }

  /** A new planner gets the present state and all later events. Waiting polls are the old planner's and return no events. */
  def restart(): Unit = {
    val taken = lock.synchronized {
      planner += 1
      lock.notifyAll()
      !whole
    }
    if (taken) withState { state =>
      lock.synchronized {
        stateSent()
        unread += waitingEnds
        events.clear()
        journal.plannerOver()
        givenUpBefore += givenUp
        givenUp = 0
        val rebuilt = journal.withEnded(state)
        resetDue = rebuilt.size >= capacity / 2 // Later events need room, too.
        whole = !resetDue
        stateSize = if (whole) rebuilt.size else 0
        if (whole) events ++= rebuilt
        lock.notifyAll()
        nothing
      }
    }
  }

  /** Lets a waiting poll return at once, since a question is waiting. */
  def nudge(): Unit = lock.synchronized {
    nudged = true
    lock.notifyAll()
  }

  /** No further events follow: the batch with the last one says so. */
  def finish(): Unit = lock.synchronized {
    stopping = true
    lock.notifyAll()
  }

  /** Waits up to `timeoutMs` for events and takes up to `maxEvents` of them, or a whole state. */
  def poll(maxEvents: Int, timeoutMs: Long): Batch = {
    // Not `nowMs`: if the clock is set back, this would wait for longer.
    val startNs = System.nanoTime()
    val (asker, reset) = lock.synchronized {
      val asker = planner
      var left = timeoutMs
      def due = resetDue || whole || nudged || stopping
      while (events.isEmpty && !due && left > 0) {
        lock.wait(left)
        left = timeoutMs - TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - startNs)
      }
      // Few large batches cost the planner far less than many small ones.
      if (!due && left > 0 && events.size < maxEvents / 2) lock.wait(math.min(left, LingerMs))
      if (asker == planner) nudged = false
      (asker, resetDue)
    }
    if (reset) withState { state =>
      lock.synchronized(if (asker != planner) nothing else {
        stateSent()
        events.clear()
        resetDue = false
        val rebuilt = journal.withEnded(state)
        sent += rebuilt.size
        Batch(version, reset = true, dropped, nowMs(), rebuilt, stopping = stopping)
      })
    } else {
      val batch = lock.synchronized(if (asker != planner) nothing else {
        val taken = mutable.ArrayBuffer.empty[Event]
        // The planner would take a part of a state for the whole.
        val most = if (whole) math.max(maxEvents, stateSize) else maxEvents
        while (taken.size < most && events.nonEmpty) taken += events.dequeue()
        sent += taken.size
        val first = whole
        whole = false
        Batch(
          version - events.size, reset = first, dropped, nowMs(), taken.toList, stopping = stopping && events.isEmpty)
      })
      batch.copy(events = Folding.shortTasks(batch.events))
    }
  }

  /**
   * The present planner has stored what it learned from all events up to this one.
   *
   * @param abandoned jobs up to then whose lessons it could not store, since it began
   */
  def stored(upto: Long, abandoned: Long): Unit = lock.synchronized {
    journal.stored(upto)
    givenUp = math.max(givenUp, abandoned)
  }

  /** Jobs that are over and that no planner has stored yet. */
  def unstored: Long = lock.synchronized(journal.waiting)
  /** Jobs that no planner stored and none can store any more, or only without their stages. */
  def unlearned: Long = lock.synchronized(journal.unlearned + givenUpBefore + givenUp)

  /** Ended jobs whose end no planner has received as an event of its own. */
  def endsMissed: Long = lock.synchronized(unread + waitingEnds)

  private def waitingEnds: Int = events.count(endsJob)
  private def endsJob(event: Event): Boolean = event.isInstanceOf[Event.JobEnded]

  /** The answer to the poll of a replaced planner. */
  private def nothing: Batch = Batch(version, reset = false, dropped, nowMs(), Nil)

  def sentCount: Long = lock.synchronized(sent)
  def droppedCount: Long = lock.synchronized(dropped)
  def currentVersion: Long = lock.synchronized(version)
}

private object EventQueue {
  /** Entries of the journal for each event that the queue takes. A task is two events, but one entry. */
  private val JournalSizes = 20
}
