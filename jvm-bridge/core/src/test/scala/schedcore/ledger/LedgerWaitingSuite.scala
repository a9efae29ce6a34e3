package schedcore
package ledger

import org.scalatest.funsuite.AnyFunSuite
import scala.collection.mutable
import scala.util.Random

/** What slots that are held between actions cost while tasks of other jobs wait: its bound, and who is looked at. */
final class LedgerWaitingSuite extends AnyFunSuite {
  private val Limits = IdleLimits(jobShare = 0.1, share = 0.15, burstMs = 400, waitingCost = 2.5)
  private val plain = Rule(
    priority = 0, isolation = 0.0, preReserveThreshold = 0.5, shape = 1.6, shapeWeight = 5.0, scaleMs = None, maxHoldMs = 60000,
    gapMs = 9000, copies = false, copyAge = CopyAge(100, 1.5), wholeJob = true, firstGapMs = Some(6000))
  private val rules = Seq(plain, plain.copy(priority = 10, isolation = 1.0), plain.copy(priority = 10, isolation = 0.9))

  private object Nobody extends LedgerListener {
    override def slotHeld(job: String, stage: String, executor: String, deadlineMs: Long, nowMs: Long): Unit = ()
    override def slotFreed(job: String, executor: String, reason: String, nowMs: Long): Unit = ()
  }

  /** How far what was held exceeded a share, at the end of any interval, at most. */
  private final class Spending(share: Double) {
    private var costMs = 0L
    private var aheadMs = 0.0
    private var waitedMs = 0.0 // of intervals in which others waited all the time, at a part of the share
    var mostMs = 0.0
    var mostWaitedMs = 0.0

    def add(costNowMs: Long, capacityMs: Long, waited: Boolean): Unit = {
      val spentMs = costNowMs - costMs
      costMs = costNowMs
      aheadMs = math.max(0.0, aheadMs + (if (waited) Limits.waitingCost * spentMs else spentMs.toDouble) - share * capacityMs)
      waitedMs = if (waited) math.max(0.0, waitedMs + spentMs - share * capacityMs / Limits.waitingCost) else 0.0
      mostMs = math.max(mostMs, aheadMs)
      mostWaitedMs = math.max(mostWaitedMs, waitedMs)
    }
  }

  /** Jobs of stages on one executor, whose steps are drawn. */
  private final class Cluster(seed: Long) {
    private val random = new Random(seed)
    private val slots = 2 + random.nextInt(7)
    val ledger = new Ledger(Nobody, Limits)
    private val spent = mutable.LinkedHashMap.from((0 until 4).map(n => s"j$n" -> new Spending(Limits.jobShare)))
    private val all = new Spending(Limits.share)
    private val stages = mutable.LinkedHashMap.empty[String, Stage]
    private val running = mutable.LinkedHashMap.empty[Long, (Stage, Int)]
    private var nowMs = 0L
    private var numbers = 0

    private final class Stage(val key: String, val job: String, val tasks: Int) {
      val pending: mutable.Queue[Int] = mutable.Queue.from(0 until tasks)
      var done = 0
    }

    ledger.executorAdded("e", slots)
    spent.keysIterator.foreach(job => ledger.jobStarted(job, marked = true, rules(random.nextInt(rules.size))))

    def step(): Unit = {
      wakeUntil(nowMs + Seq(0, 1, 50, 300, 1000, 4000)(random.nextInt(6)))
      random.nextInt(3) match {
        case 0 => start(drawn(spent.keys))
        case 1 => launchAll()
        case _ if running.nonEmpty =>
          val of = running(drawn(running.keys))._1
          running.toList.filter(_._2._1 eq of).foreach { case (task, _) => end(task) }
        case _ =>
      }
      assert(ledger.violations() === Nil)
    }

    private def drawn[A](from: Iterable[A]): A = from.toIndexedSeq(random.nextInt(from.size))

    /** Holds expire when they should; the capacity and who waits are the same all the time. */
    private def wakeUntil(endMs: Long): Unit = {
      val capacityMs = slots * (endMs - nowMs)
      val waited = stages.valuesIterator.exists(_.pending.nonEmpty)
      while (ledger.nextWakeMs(nowMs).exists(_ <= endMs)) {
        nowMs = math.max(nowMs, ledger.nextWakeMs(nowMs).get)
        ledger.expire(nowMs)
      }
      nowMs = endMs
      spent.foreach { case (job, of) => of.add(ledger.idleCostMs(job, nowMs), capacityMs, waited) }
      all.add(ledger.idleCostMs(nowMs), capacityMs, waited)
    }

    private def start(job: String): Unit = {
      numbers += 1
      val stage = new Stage(s"$numbers", job, 1 + random.nextInt(6))
      stages(stage.key) = stage
      ledger.stageStarted(job, stage.key, numbers, stage.tasks, None, last = false, barrier = false, nowMs)
    }

    private def launchAll(): Unit = random.shuffle(stages.values.toList).foreach { stage =>
      while (stage.pending.nonEmpty && running.size < slots && ledger.mayLaunch(stage.job, "e")) {
        numbers += 1
        val index = stage.pending.dequeue()
        running(numbers.toLong) = stage -> index
        ledger.taskLaunched(numbers.toLong, stage.key, index, "e", copy = false, nowMs)
      }
    }

    private def end(task: Long): Unit = running.remove(task).foreach { case (stage, index) =>
      val success = random.nextInt(10) > 0
      if (success) stage.done += 1 else stage.pending += index
      if (stage.done == stage.tasks) stages -= stage.key
      ledger.taskEnded(task, success, nowMs)
    }

    def check(): Unit = {
      val burstMs = Limits.burstMs * slots + 1e-6
      (spent.values ++ Seq(all)).foreach { of =>
        assert(of.mostMs <= burstMs, s"seed $seed")
        assert(of.mostWaitedMs <= burstMs / Limits.waitingCost, s"seed $seed")
      }
    }
    def costMs: Long = ledger.idleCostMs(nowMs)
    def againstWaitingMs: Long = ledger.idleCostAgainstWaitingMs(nowMs)
    def overBudget: Long = ledger.counters.holdsOverBudget
  }

  test("in any interval it is at most the share and the burst, and while others wait a part of both") {
    val clusters = (0 until 200).map { seed =>
      val cluster = new Cluster(seed)
      (0 until 300).foreach(_ => cluster.step())
      cluster.check()
      cluster
    }
    // The walks do what the bound is about.
    assert(clusters.count(_.overBudget > 0) > 30)
    assert(clusters.count(c => 0 < c.againstWaitingMs && c.againstWaitingMs < c.costMs) > 30)
  }

  test("jobs that hold slots are looked at when the first task waits and when the last one has started, and at no other time") {
    val ledger = new Ledger(Nobody, Limits.copy(jobShare = 1.0, share = 1.0))
    (0 until 50).foreach { n =>
      ledger.executorAdded(s"h$n", 1)
      ledger.jobStarted(s"h$n", marked = true, plain.copy(isolation = 1.0))
      ledger.stageStarted(s"h$n", s"h$n", 0, 1, None, last = false, barrier = false, nowMs = 0)
      ledger.taskLaunched(n, s"h$n", 0, s"h$n", copy = false, 0)
      ledger.taskEnded(n, success = true, 1)
    }
    assert(ledger.heldSlots === 50)
    ledger.executorAdded("e", 1)
    ledger.jobStarted("w", marked = false, plain)
    def looksOf(act: => Unit): Long = { val before = ledger.looks; act; ledger.looks - before }
    def start(stage: String, tasks: Int): Unit = ledger.stageStarted("w", stage, 0, tasks, None, last = true, barrier = false, nowMs = 2)
    def launch(stage: String, index: Int): Unit = ledger.taskLaunched(1000 + index, stage, index, "e", copy = false, 3)

    assert(looksOf(start("first", 100)) === 50)
    assert(looksOf(start("second", 1)) === 0)
    launch("first", 0)
    ledger.taskEnded(1000, success = true, 4) // Each of the others is asked once whether it wants the slot.
    (1 until 99).foreach { index =>
      assert(looksOf(launch("first", index)) === 0)
      assert(looksOf(ledger.taskEnded(1000 + index, success = true, 4)) === 0)
    }
    assert(looksOf(launch("first", 99)) === 0)
    assert(looksOf(ledger.stageEnded("second", 5)) === 50)
    assert(ledger.violations() === Nil)
  }
}
