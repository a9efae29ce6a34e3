package schedcore
package ledger

import org.scalatest.funsuite.AnyFunSuite

/** What a task's end costs, in jobs that the ledger looks at: it does not grow with the jobs that wait or hold slots. */
final class LedgerLooksSuite extends AnyFunSuite {
  private val plain = Rule(
    priority = 0, isolation = 0.0, preReserveThreshold = 0.5, shape = 1.6, shapeWeight = 5.0, scaleMs = None, maxHoldMs = 60000,
    gapMs = 1000, copies = true, copyAge = CopyAge(1000000, 1.5), wholeJob = false)
  private val holds = plain.copy(priority = 5, isolation = 1.0)
  private val Ends = 200

  private object Nobody extends LedgerListener {
    override def slotHeld(job: String, stage: String, executor: String, deadlineMs: Long, nowMs: Long): Unit = ()
    override def slotFreed(job: String, executor: String, reason: String, nowMs: Long): Unit = ()
  }

  /** A ledger on which every job runs on slots of its own, and the holding ones hold two for the rest of their stage. */
  private final class Cluster(waiting: Int, holding: Int) {
    val ledger = new Ledger(Nobody)
    private var tasks = 0L

    (0 until holding).foreach { n =>
      start(s"h$n", holds, tasks = 4)
      (0 until 4).foreach(launch(s"h$n", _))
      (0 until 2).foreach(i => ledger.taskEnded(tasks - 3 + i, success = true, 100))
    }
    (0 until waiting).foreach { n => start(s"w$n", plain, tasks = Ends + 1); launch(s"w$n", 0) }
    assert(ledger.heldSlots === 2 * holding)
    assert(ledger.violations() === Nil)

    private def start(job: String, rule: Rule, tasks: Int): Unit = {
      ledger.executorAdded(job, 4)
      ledger.jobStarted(job, marked = true, rule)
      ledger.stageStarted(job, job, 0, tasks, Some(tasks), last = false, barrier = false, nowMs = 0)
    }

    private def launch(job: String, index: Int): Unit = {
      tasks += 1
      ledger.taskLaunched(tasks, job, index, job, copy = false, 0)
    }

    /** Jobs looked at while tasks of the first waiting job end, each followed by what the scheduler asks then, and the next launch. */
    def looks: Long = {
      val before = ledger.looks
      (1 to Ends).foreach { index =>
        val nowMs = 200L + index
        ledger.taskEnded(tasks, success = true, nowMs)
        assert(!ledger.anyCopiesDue(nowMs))
        assert(ledger.nextWakeMs(nowMs).isDefined === ledger.heldSlots > 0)
        ledger.expire(nowMs)
        launch("w0", index)
      }
      assert(ledger.violations() === Nil)
      ledger.looks - before
    }
  }

  // The tasks of w0 run on its own executor.
  private def looks(waiting: Int, holding: Int): Long = {
    val cluster = new Cluster(1, holding)
    (1 until waiting).foreach { n =>
      cluster.ledger.jobStarted(s"more$n", marked = true, plain)
      cluster.ledger.stageStarted(s"more$n", s"more$n", 0, 5, None, last = false, barrier = false, nowMs = 0)
    }
    cluster.looks
  }

  test("jobs that may hold nothing are not looked at") {
    assert(looks(waiting = 1000, holding = 0) === 0)
    assert(looks(waiting = 1000, holding = 3) === looks(waiting = 10, holding = 3))
  }

  test("each job that holds slots is looked at once, and again only after it changed") {
    // Once for the slot that is free, once for the next time at which something happens.
    assert(looks(waiting = 10, holding = 3) <= 2 * 3)
    assert(looks(waiting = 10, holding = 100) <= 2 * 100)
  }

  test("nobody can take a slot that was refused before a hold goes") {
    val cluster = new Cluster(1, 2)
    val before = cluster.ledger.yields
    cluster.looks // launches and ends of jobs without holds
    assert(cluster.ledger.yields === before)
    assert(!cluster.ledger.mayLaunch("w0", "h0"))
    cluster.ledger.ruleChanged("h0", plain, 1000)
    assert(cluster.ledger.yields !== before)
    assert(cluster.ledger.mayLaunch("w0", "h0"))
    // In pools each launch may turn an answer.
    cluster.ledger.jobStarted("pooled", marked = true, holds.copy(pool = Some(PoolShare("p"))))
    assert(cluster.ledger.yields === None)
  }

  test("the next time at which holds end is that of the jobs that still hold slots") {
    val cluster = new Cluster(1, 2)
    cluster.looks
    assert(cluster.ledger.nextWakeMs(500) === Some(60000))
    cluster.ledger.ruleChanged("h0", holds.copy(maxHoldMs = 30000), 500)
    assert(cluster.ledger.nextWakeMs(500) === Some(30000))
    assert(!cluster.ledger.expire(29999))
    assert(cluster.ledger.expire(30000))
    assert(cluster.ledger.heldSlots === 2)
    assert(cluster.ledger.nextWakeMs(30000) === Some(60000))
    cluster.ledger.jobEnded("h1", 30001)
    assert(cluster.ledger.nextWakeMs(30001) === None)
    assert(cluster.ledger.violations() === Nil)
  }
}
