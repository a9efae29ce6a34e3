package schedcore
package enforce

import org.scalatest.funsuite.AnyFunSuite
import schedcore.ledger.{Ledger, LedgerListener}
import schedcore.settings.Settings

/** What a real scheduler seldom reaches: see `GroupsSuite` for the rest. */
final class PipelinedGroupsSuite extends AnyFunSuite {
  import PipelinedGroups.{Goes, Usual, Waits}

  private object Silent extends LedgerListener {
    override def slotHeld(job: String, stage: String, executor: String, deadlineMs: Long, nowMs: Long): Unit = ()
    override def slotFreed(job: String, executor: String, reason: String, nowMs: Long): Unit = ()
  }

  private final class Waiting(val job: String, var waitingTasks: Int, val waitsAsGang: Boolean = false) extends WaitingSet {
    def jobPriority: Int = 0
    def jobArrival: Int = 1
    def executorProfile: Int = 0
    val numTasks: Int = waitingTasks
    def slotsPerTask: Int = 1
    def pilotsFirst: Boolean = false
    def idlePilots: IndexedSeq[Int] = IndexedSeq.empty
  }

  /** Executors e and f of four slots each; a group of two stages of two tasks each, of a job of low priority, in Spark job 7. */
  private final class Fixture {
    private val rule = Settings.from(Map.empty).defaults
    val ledger = new Ledger(Silent)
    Seq("e", "f").foreach(ledger.executorAdded(_, 4))
    val groups = new PipelinedGroups(ledger, _ => Iterator("e", "f"))
    val writes = new Waiting("group", 2)
    val reads = new Waiting("group", 2)
    private var tasks = 0L
    begins("group", 0)
    ledger.stageStarted("group", "group", 0, 4, None, last = false, barrier = false, 0)

    def begins(job: String, priority: Int): Unit = ledger.jobStarted(job, marked = true, rule.copy(priority = priority, isolation = if (priority > 0) 1.0 else 0.0))

    /** A job of high priority runs so many tasks on the executor and holds their slots. */
    def hold(job: String, slots: Int, on: String): Unit = {
      begins(job, 9)
      ledger.stageStarted(job, job, 0, slots + 1, None, last = false, barrier = false, 0)
      val ran = (0 until slots).map { i => tasks += 1; ledger.taskLaunched(tasks, job, i, on, copy = false, 0); tasks }
      ran.foreach(ledger.taskEnded(_, success = true, 100))
      assert(ledger.heldOn(on, job) === slots)
    }

    def begin(): Seq[PipelinedGroups.Refused] = groups.begin((_, _) => true)

    def launch(set: Waiting, index: Int, on: String): Unit = {
      groups.launched(set, index, on)
      tasks += 1
      ledger.taskLaunched(tasks, "group", if (set eq writes) index else 2 + index, on, copy = false, 200)
      set.waitingTasks -= 1
    }

    /** What the group's next task is told, as `OfferRound` puts it together. */
    def goes(set: Waiting, on: String): Boolean = groups.decide(set, on, 0) match {
      case Goes => true
      case Waits => false
      case Usual => ledger.mayLaunch("group", on)
    }
  }

  test("a group waits whole until it is decided upon, then takes only slots that are not held") {
    val f = new Fixture
    f.hold("holder", 4, "e")
    f.groups.arrived(7, f.writes, 4)
    assert(f.groups.begin((_, _) => false) === Nil && f.groups.wantSlots && !f.goes(f.writes, "f"))
    assert(f.begin() === Nil)
    assert(f.goes(f.writes, "f") && !f.goes(f.writes, "e"))
  }

  test("what is held for others since a group was admitted does not keep its tasks from slots, and no more is taken than they need") {
    val f = new Fixture
    f.groups.arrived(7, f.writes, 4)
    f.groups.arrived(7, f.reads, 4)
    assert(f.begin() === Nil)
    f.hold("first", 4, "e")
    f.hold("second", 3, "f")
    assert(f.begin() === Nil)
    assert(f.goes(f.writes, "f") && f.goes(f.writes, "e"))
    Seq(f.writes -> 0, f.writes -> 1, f.reads -> 0).foreach { case (set, index) => f.launch(set, index, "e") }
    f.launch(f.reads, 1, "f")
    assert(f.ledger.heldSlots === 4 && !f.groups.wantSlots, "three held slots of four tasks, since one slot was open")
  }

  test("a task of a started group that failed does not wait for held slots either") {
    val f = new Fixture
    Seq(f.writes, f.reads).foreach(f.groups.arrived(7, _, 4))
    assert(f.begin() === Nil)
    for (set <- Seq(f.writes, f.reads); index <- 0 to 1) f.launch(set, index, "e")
    f.hold("holder", 4, "f")
    assert(f.begin() === Nil && !f.goes(f.reads, "f"), "it needs none")
    f.reads.waitingTasks = 1
    assert(f.begin() === Nil && f.goes(f.reads, "f"))
  }

  test("slots that an admitted group needs are kept from others, but for their own held ones, until it has them") {
    val f = new Fixture
    f.hold("holder", 3, "e")
    f.groups.arrived(7, f.writes, 4)
    assert(f.begin() === Nil)
    val (other, own, gang) = (new Waiting("other", 1), new Waiting("holder", 1), new Waiting("gang", 2, waitsAsGang = true))
    f.begins("other", 9)
    f.begins("gang", 9)
    // 1. One of the five open slots is left.
    assert(f.groups.decide(other, "f", 0) === Usual && f.groups.decide(other, "f", 1) === Waits)
    assert(!f.groups.leave(gang) && f.groups.decide(gang, "f", 0) === Waits)
    f.groups.launched(other, 0, "f")
    assert(f.groups.decide(other, "f", 0) === Waits && f.groups.decide(own, "e", 0) === Usual)
    assert(!f.groups.released())
    // 2. All of the group's tasks run.
    f.groups.arrived(7, f.reads, 4)
    for (set <- Seq(f.writes, f.reads); index <- 0 to 1) f.launch(set, index, "f")
    assert(f.groups.released() && !f.groups.released())
    f.begin()
    assert(f.groups.decide(other, "e", 0) === Usual && f.groups.leave(gang))
  }

  test("a group for which too few slots are left after a loss of executors keeps none from others") {
    val f = new Fixture
    f.groups.arrived(7, f.writes, 4)
    f.hold("holder", 1, "e")
    assert(f.begin() === Nil)
    f.launch(f.writes, 0, "f")
    f.ledger.executorRemoved("f", 300)
    f.ledger.executorRemoved("e", 300)
    f.ledger.executorAdded("g", 1)
    f.begin()
    assert(f.groups.decide(new Waiting("other", 1), "g", 0) === Usual)
  }

  test("two groups do not count the same slots, and a Spark job that is over gives up what was kept for it") {
    val f = new Fixture
    f.groups.arrived(7, f.writes, 5)
    assert(f.begin() === Nil)
    f.groups.arrived(8, new Waiting("later", 2), 4)
    val Seq(refused) = f.begin()
    assert(refused.sentence(identity) ===
      "its group of pipelined stages needs 4 slots at once, and of 8 free ones 5 are for other groups that start")
    assert(f.groups.decide(new Waiting("other", 4, waitsAsGang = true), "f", 0) === Waits)
    assert(f.groups.keepOnly(_ == 8) && f.groups.keepOnly(_ => false) === false && f.groups.isEmpty)
  }

  test("a refusal says how many slots are needed, free and held, and for whom") {
    val f = new Fixture
    (1 to 4).foreach(n => f.hold(s"j$n", 1, "e"))
    f.groups.arrived(7, f.writes, 5)
    val Seq(refused) = f.begin()
    assert(refused.sentence(_.toUpperCase) ===
      "its group of pipelined stages needs 5 slots at once, and of 8 free ones 4 are held for jobs J1, J2, J3 and 1 more")
    assert(!f.goes(f.writes, "f") && f.begin() === Nil && !f.groups.wantSlots, "it is refused once")
    assert(f.groups.decide(new Waiting("other", 1), "f", 0) === Usual)
  }
}
