package schedcore
package enforce

import org.scalatest.funsuite.AnyFunSuite
import schedcore.ledger.{Ledger, LedgerListener, PoolShare}
import schedcore.settings.{QueueTree, Settings}

final class GangCycleSuite extends AnyFunSuite {
  private object Nobody extends LedgerListener {
    override def slotHeld(job: String, stage: String, executor: String, deadlineMs: Long, nowMs: Long): Unit = ()
    override def slotFreed(job: String, executor: String, reason: String, nowMs: Long): Unit = ()
  }

  private val rule = Settings.from(Map.empty).defaults.copy(priority = 5)

  /** Four slots; each job ran two tasks side by side and holds their slots. Jobs of two FAIR pools refuse each other their slots. */
  private def twoHolders(priorityOfSecond: Int = 5, pools: Boolean = true): Ledger = {
    val ledger = new Ledger(Nobody)
    ledger.executorAdded("e", 4)
    Seq("a" -> 5, "b" -> priorityOfSecond).zipWithIndex.foreach { case ((job, priority), n) =>
      ledger.jobStarted(job, marked = true, rule.copy(priority = priority, pool = Option.when(pools)(PoolShare(job))))
      ledger.stageStarted(job, s"$n.0", 0, 2, None, last = false, barrier = false, 0)
      (0 to 1).foreach(i => ledger.taskLaunched(10L * n + i, s"$n.0", i, "e", copy = false, 0))
      (0 to 1).foreach(i => ledger.taskEnded(10L * n + i, success = true, 100))
    }
    assert(ledger.heldSlots === 4)
    ledger
  }

  private def gangsOf(ledger: Ledger): Seq[WaitingGang] =
    Seq("a" -> 1, "b" -> 2).map { case (job, arrival) => WaitingGang(job, arrival, ledger.heldUpBy(job, 3)) }

  test("of two gangs that hold what the other needs the younger gives way, and the older may start") {
    val ledger = twoHolders()
    assert(gangsOf(ledger).map(_.heldUpBy) === Seq(Set("b"), Set("a")))
    assert(GangCycle.youngest(gangsOf(ledger)) === Some("b"))
    ledger.giveWay("b", 200)
    assert(ledger.heldBy("b") === 0 && ledger.heldBy("a") === 2)
    assert(ledger.heldUpBy("a", 3) === Set.empty && ledger.mayLaunch("a", "e", alreadyTaken = 2))
    assert(ledger.violations() === Nil)
    assert(GangCycle.youngest(gangsOf(ledger)) === None, "who gave way waits, but for nobody that waits for it")
  }

  test("of equal gangs outside of pools the earlier takes held slots: nobody has to give way") {
    val ledger = twoHolders(pools = false)
    assert(gangsOf(ledger).map(_.heldUpBy) === Seq(Set.empty, Set("a")))
    assert(GangCycle.youngest(gangsOf(ledger)) === None)
  }

  test("a gang of higher priority takes held slots: nobody has to give way") {
    val ledger = twoHolders(priorityOfSecond = 6)
    assert(ledger.heldUpBy("b", 3) === Set.empty)
    assert(GangCycle.youngest(gangsOf(ledger)) === None)
  }

  test("a gang that waits for running tasks is not held up") {
    val ledger = twoHolders()
    assert(ledger.heldUpBy("a", 5) === Set.empty)
  }

  test("free slots of an executor that is about to go are nothing to wait for") {
    val ledger = twoHolders()
    ledger.executorAdded("leaving", 4)
    ledger.executorDraining("leaving", 150)
    assert(gangsOf(ledger).map(_.heldUpBy) === Seq(Set("b"), Set("a")))
  }

  test("nor are those of an excluded one, until it is offered again") {
    val ledger = twoHolders()
    ledger.executorAdded("excluded", 4)
    ledger.executorExcluded("excluded", 150)
    assert(gangsOf(ledger).map(_.heldUpBy) === Seq(Set("b"), Set("a")))
    ledger.observeFree("excluded", 4, 200)
    assert(gangsOf(ledger).map(_.heldUpBy) === Seq(Set.empty, Set.empty))
  }

  test("a circle of three is found beside a gang that waits outside it") {
    val gangs = Seq(
      WaitingGang("a", 1, Set("b")), WaitingGang("b", 2, Set("c")), WaitingGang("c", 3, Set("a")),
      WaitingGang("outside", 9, Set("a")), WaitingGang("free", 10, Set.empty))
    assert(GangCycle.youngest(gangs) === Some("c"))
    assert(GangCycle.youngest(gangs.filterNot(_.job == "b")) === None)
  }

  /** Two jobs hold two slots each of the four that their queues may have together, while others of the application are free. */
  private def inQueues(tree: String, queueOfSecond: String): (Ledger, QueueUsage, () => Seq[WaitingGang]) = {
    val usage = new QueueUsage(QueueTree.parse(tree))
    val ledger = new Ledger(new HoldsOfQueues(Nobody, usage))
    ledger.executorAdded("e", 8)
    usage.capacity(8)
    ledger.limitHolds(usage.mayHold, usage.shares.map(_ => usage))
    Seq("a" -> "team.a", "b" -> queueOfSecond).zipWithIndex.foreach { case ((job, queue), n) =>
      ledger.jobStarted(job, marked = true, rule)
      usage.entered(job, queue, 5, n, 0)
      ledger.jobRanked(job, 0, n)
      ledger.stageStarted(job, s"$n.0", 0, 2, None, last = false, barrier = false, 0)
      (0 to 1).foreach(i => ledger.taskLaunched(10L * n + i, s"$n.0", i, "e", copy = false, 0))
      (0 to 1).foreach(i => ledger.taskEnded(10L * n + i, success = true, 100))
    }
    assert(ledger.heldBy("a") === 2 && ledger.heldBy("b") === 2 && usage.used("team") === 4)
    val gangs = () => Seq("a" -> 1, "b" -> 2).map { case (job, arrival) =>
      WaitingGang(job, arrival, ledger.heldUpBy(job, 3) ++ usage.heldUpBy(job, 3, ledger.isSafe(_, job)))
    }
    (ledger, usage, gangs)
  }

  private val below = """{"queue":"team","ceiling":4},{"queue":"team.a","floor":2},{"queue":"team.b","floor":2}"""

  test("gangs of two queues whose floors fill the ceiling above them do not wait for each other for ever") {
    val (ledger, usage, gangs) = inQueues(s"""{"default":"team.a","queues":[$below],"rules":[]}""", "team.b")
    assert(Seq("a", "b").map(job => usage.room(job, ledger.isSafe(_, job))) === Seq(2, 2), "neither has room for three")
    assert(gangs().map(_.heldUpBy) === Seq(Set("b"), Set("a")))
    assert(GangCycle.youngest(gangs()) === Some("b"))
    ledger.giveWay("b", 200)
    assert(usage.room("a", ledger.isSafe(_, "a")) === 4 && GangCycle.youngest(gangs()).isEmpty)
    assert(usage.violations() === Nil)
  }

  test("in one queue the earlier gang takes what the later one holds, so that nobody waits in a circle") {
    val (ledger, usage, gangs) = inQueues(s"""{"default":"team.a","queues":[$below],"rules":[]}""", "team.a")
    assert(Seq("a", "b").map(job => usage.room(job, ledger.isSafe(_, job))) === Seq(4, 2))
    assert(gangs().map(_.heldUpBy) === Seq(Set.empty, Set("a")) && GangCycle.youngest(gangs()).isEmpty)
  }

  test("where tasks that run keep a gang waiting, too, no held slots are given up for it") {
    val (ledger, usage, _) = inQueues(s"""{"default":"team.a","queues":[$below],"rules":[]}""", "team.b")
    usage.entered("c", "team.a", 0, 3, 0)
    usage.launched("c", 2)
    assert(usage.heldUpBy("a", 3, ledger.isSafe(_, "a")).isEmpty)
  }
}
