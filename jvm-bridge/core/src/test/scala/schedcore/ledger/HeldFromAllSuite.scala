package schedcore
package ledger

import org.scalatest.funsuite.AnyFunSuite

import scala.util.Random

/** Slots that the ledger says no wanting job may take are refused to each of them, and are all that is refused to each. */
final class HeldFromAllSuite extends AnyFunSuite {
  private object Nobody extends LedgerListener {
    override def slotHeld(job: String, stage: String, executor: String, deadlineMs: Long, nowMs: Long): Unit = ()
    override def slotFreed(job: String, executor: String, reason: String, nowMs: Long): Unit = ()
  }

  private val executors = (0 until 6).map(n => s"e$n")

  /** A ledger after a random run of jobs of few priorities, some of which hold slots; its jobs. */
  private def grown(random: Random, pools: Boolean): (Ledger, Seq[String]) = {
    val ledger = new Ledger(Nobody)
    executors.foreach(ledger.executorAdded(_, 4))
    val jobs = (0 until 8).map(n => s"j$n")
    var task = 0L
    jobs.foreach { job =>
      ledger.jobStarted(job, marked = true, Rule(
        priority = random.nextInt(3), isolation = if (random.nextInt(3) > 0) 1.0 else 0.0, preReserveThreshold = 0.5, shape = 1.6,
        shapeWeight = 5.0, scaleMs = None, maxHoldMs = 60000, gapMs = 1000, copies = true, copyAge = CopyAge(1000000, 1.5), wholeJob = false,
        pool = if (pools) Some(PoolShare(s"p${random.nextInt(2)}")) else None))
      ledger.jobRanked(job, random.nextInt(3), random.nextInt(100))
      val tasks = 1 + random.nextInt(6)
      ledger.stageStarted(job, job, 0, tasks, Some(1 + random.nextInt(6)), last = false, barrier = false, nowMs = 10)
      val launched = (0 until tasks).flatMap { index =>
        executors.drop(random.nextInt(executors.size)).find(e => ledger.mayLaunch(job, e) && ledger.freeOn(e) > 0).map { e =>
          task += 1
          ledger.taskLaunched(task, job, index, e, copy = false, nowMs = 10)
          task
        }
      }
      launched.filter(_ => random.nextBoolean()).foreach(ledger.taskEnded(_, success = true, 20))
    }
    assert(ledger.violations() === Nil)
    (ledger, jobs)
  }

  /** Each of many random ledgers: itself, its jobs, those that want slots, the first of these. */
  private def eachOf(pools: Boolean)(check: (Ledger, Seq[String], Set[String], String, Int) => Unit): Unit = for (seed <- 0 until 500) {
    val random = new Random(seed)
    val (ledger, jobs) = grown(random, pools)
    val wanting = random.shuffle(jobs).take(1 + random.nextInt(jobs.size)).toSet
    check(ledger, jobs, wanting, ledger.firstOf(wanting.iterator).get, seed)
  }

  test("it is what each wanting job is refused, less what others may take") {
    var some = 0
    eachOf(pools = false) { (ledger, _, wanting, first, seed) =>
      executors.foreach { e =>
        val kept = ledger.heldFromAll(e, first, wanting)
        val refused = wanting.map(ledger.refusedOn(e, _)).min
        assert(kept <= refused, s"seed $seed: $e")
        if (!wanting.exists(ledger.heldOn(e, _) > 0)) assert(kept === refused, s"seed $seed: $e")
        some += kept
      }
    }
    assert(some > 100)
  }

  test("among equals in pools it is nothing: who comes first changes with each launch") {
    var (some, among) = (0, 0)
    eachOf(pools = true) { (ledger, jobs, wanting, first, seed) =>
      executors.foreach { e =>
        val kept = ledger.heldFromAll(e, first, wanting)
        assert(kept <= wanting.map(ledger.refusedOn(e, _)).min, s"seed $seed: $e")
        some += kept
      }
      val equal = jobs.filter(job => ledger.ruleOf(job).map(_.priority) == ledger.ruleOf(first).map(_.priority)).toSet
      if (jobs.forall(job => equal(job) || ledger.heldBy(job) == 0)) {
        among += ledger.heldSlots
        assert(executors.map(ledger.heldFromAll(_, first, _ => false)).sum === 0, s"seed $seed")
      }
    }
    assert(some > 50 && among > 0)
  }
}
