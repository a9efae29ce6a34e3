package schedcore
package enforce

import org.scalatest.funsuite.AnyFunSuite
import schedcore.ledger.{Ledger, LedgerListener, PoolShare}
import schedcore.settings.Settings

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
}
