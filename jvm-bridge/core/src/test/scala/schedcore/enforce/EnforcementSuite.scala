package schedcore
package enforce

import org.scalatest.funsuite.AnyFunSuite
import schedcore.ledger.{CopyAge, Ledger, LedgerListener, Rule}
import schedcore.settings.QueueTree
import schedcore.plan.{JobPlan, Plan, PlanInForce, QueueTurn}

/** What the generated sequences seldom reach, each by itself. */
final class EnforcementSuite extends AnyFunSuite {

  private final class Waiting(
      val job: String, var waitingTasks: Int, val jobArrival: Int = 1, val waitsAsGang: Boolean = false,
      val slotsPerTask: Int = 1) extends WaitingSet {
    def jobPriority: Int = 0
    def executorProfile: Int = 0
    def numTasks: Int = waitingTasks
    def pilotsFirst: Boolean = false
    def idlePilots: IndexedSeq[Int] = IndexedSeq.empty
  }

  private object Silent extends LedgerListener {
    def slotHeld(job: String, stage: String, executor: String, deadlineMs: Long, nowMs: Long): Unit = ()
    def slotFreed(job: String, executor: String, reason: String, nowMs: Long): Unit = ()
  }

  /** A plan that has a start for `begun` and none for the others. */
  private def plan(others: String*): Plan = {
    val begun = JobPlan(0, 0, reservation = None)
    Plan(1, 0, 1000000, ordered = true, Map("begun" -> begun) ++ others.map(_ -> begun.copy(deferred = true)))
  }

  private def enforcement(others: String*): (Ledger, Enforcement) = {
    val ledger = new Ledger(Silent)
    ledger.executorAdded("e", 4)
    val plans = new PlanInForce(400)
    plans.put(Some(plan(others: _*)))
    (ledger, new Enforcement(ledger, plans))
  }

  test("a rank is made again only after a rule or the plan changed") {
    val ledger = new Ledger(Silent)
    val plans = new PlanInForce(400)
    val round = new Enforcement(ledger, plans)
    var asked = 0
    val set = new WaitingSet {
      val job = "begun"
      def jobPriority: Int = { asked += 1; ledger.ruleOf(job).fold(0)(_.priority) }
      val jobArrival, executorProfile = 0
      val numTasks, slotsPerTask, waitingTasks = 1
      val waitsAsGang, pilotsFirst = false
      def idlePilots: IndexedSeq[Int] = IndexedSeq.empty
    }
    def rank() = {
      round.begin(IndexedSeq.empty, 0)
      (1 to 10).map(_ => round.rank(set)).distinct match { case Seq(one) => one }
    }
    val rule = Rule(0, 0.0, 0.5, 1.6, 5.0, None, 60000, 1000, copies = false, CopyAge(0, 1.5), wholeJob = false)
    assert(rank() === OfferRank(0, QueueTurn.NoQueue, 0, 0))
    rank()
    assert(asked === 1)
    ledger.jobStarted("begun", marked = true, rule.copy(priority = 3))
    assert(rank().priority === -3)
    ledger.ruleChanged("begun", rule.copy(priority = 7), 1)
    assert(rank().priority === -7)
    plans.put(Some(plan("other").copy(jobs = Map("begun" -> JobPlan(5, 0, reservation = None)))))
    assert(rank().place === 5)
    ledger.jobEnded("begun", 2)
    assert(rank().priority === 0)
    plans.put(None)
    assert(rank().place === 0)
    assert(asked === 6)
  }

  test("a slot that becomes spare after somebody was refused it is offered again") {
    val (_, round) = enforcement("late")
    val late = new Waiting("late", 2)
    round.begin(IndexedSeq.empty, 0)
    assert(round.planned(late) === Verdict.NothingSpare && round.spareWanted)
    round.beginSpare(Iterator(0 -> 0), Seq(late))
    assert(round.planned(late) === Verdict.NothingSpare, "all free slots are held")
    round.endSpare()
    assert(!round.sparesAgain(Iterator(0 -> 0), Seq(late)))
    assert(round.sparesAgain(Iterator(0 -> 1), Seq(late)), "a hold was trimmed within the round")
    assert(!round.sparesAgain(Iterator(0 -> 1), Seq(late, new Waiting("begun", 1))), "a job with a start waits for it")
    late.waitingTasks = 0
    assert(!round.sparesAgain(Iterator(0 -> 1), Seq(late)), "its tasks found slots")
  }

  test("whoever was offered what is left over asks for no other round, whatever came of it") {
    val (_, round) = enforcement("late")
    val late = new Waiting("late", 2)
    round.begin(IndexedSeq.empty, 0)
    round.planned(late)
    round.beginSpare(Iterator(0 -> 1), Seq(late))
    assert(round.planned(late) === Verdict.LeftOver)
    round.endSpare()
    assert(!round.sparesAgain(Iterator(0 -> 1), Seq(late)), "Spark did not want the slot: offering it again would never end")
  }

  test("a gang of large tasks takes spare slots once there are enough for all of them") {
    val (_, round) = enforcement("gang")
    val gang = new Waiting("gang", 2, waitsAsGang = true, slotsPerTask = 2)
    round.begin(IndexedSeq.empty, 0)
    round.beginSpare(Iterator(0 -> 3), Seq(gang))
    assert(round.planned(gang) === Verdict.NothingSpare)
    round.beginSpare(Iterator(0 -> 4), Seq(gang))
    assert(round.planned(gang) === Verdict.LeftOver)
  }

  test("a tenants' queue takes its part of the open slots, then anybody what is left, and a floor needs no start") {
    val ledger = new Ledger(Silent)
    ledger.executorAdded("e", 4)
    val queues = new QueueUsage(QueueTree.parse(
      """{"default":"rest","queues":[{"queue":"team","floor":2},{"queue":"rest"}],"rules":[]}"""))
    queues.capacity(4)
    Seq("late" -> "team", "begun" -> "rest").zipWithIndex.foreach { case ((job, queue), i) => queues.entered(job, queue, 0, i, 0) }
    val plans = new PlanInForce(400)
    plans.put(Some(plan("late")))
    val round = new Enforcement(ledger, plans, Some(queues))
    val (late, begun) = (new Waiting("late", 9, 2), new Waiting("begun", 9, 1))
    def take(set: WaitingSet): Verdict = {
      val verdict = round.decide(set, "e")
      if (verdict.may) queues.launched(set.job, 1)
      verdict
    }
    round.begin(IndexedSeq.empty, 0)
    assert(Seq(begun, late).sortBy(round.rank(_).standing) === Seq(late, begun))
    round.divide(Iterator(0 -> 4), Seq(late, begun))
    // The plan has no start for its job, so that its queue gets what it is promised and no more.
    assert(Seq.fill(3)(take(late)) === Seq(Verdict.Open, Verdict.Open, Verdict.NothingSpare))
    assert(Seq.fill(3)(take(begun)) === Seq(Verdict.Open, Verdict.Open, Verdict.OthersTurn))
    assert(round.endParts())
    assert(take(begun) === Verdict.Open, "nobody else took what is left")
  }

  test("what is left over goes by arrival, after those that may take any slot") {
    val (_, round) = enforcement("late", "later")
    val (late, later, begun) = (new Waiting("late", 1, 1), new Waiting("later", 1, 2), new Waiting("begun", 1, 3))
    round.begin(IndexedSeq.empty, 0)
    round.beginSpare(Iterator(0 -> 4), Seq(late, later, begun))
    val order = Seq(later, begun, late).sortBy { set => val r = round.rank(set); (r.priority, r.turn, r.place, r.arrival) }
    assert(order === Seq(begun, late, later))
  }

  test("a job that no plan knows takes idle slots before jobs without a start, and none that others wait for") {
    val ledger = new Ledger(Silent)
    ledger.executorAdded("e", 4)
    val plans = new PlanInForce(400)
    plans.put(Some(plan("late").copy(newJobsWait = true)))
    val round = new Enforcement(ledger, plans)
    val (late, fresh, begun) = (new Waiting("late", 2, 1), new Waiting("fresh", 2, 2), new Waiting("begun", 1, 3))
    val all = Seq(late, fresh, begun)
    round.begin(IndexedSeq.empty, 0)
    assert(round.planned(fresh) === Verdict.StartsLater && round.spareWanted)
    round.beginSpare(Iterator(0 -> 4), all)
    assert(all.sortBy { set => val r = round.rank(set); (r.priority, r.turn, r.place, r.arrival) } === Seq(fresh, begun, late))
    // One of four slots is wanted by the job that has begun, two by the new one.
    assert(round.planned(fresh) === Verdict.LeftOver && round.planned(late) === Verdict.LeftOver)
    round.launched(late)
    assert(round.planned(late) === Verdict.NothingSpare && round.planned(fresh) === Verdict.LeftOver)
    round.launched(fresh)
    round.launched(fresh)
    assert(round.planned(fresh) === Verdict.StartsLater)
    round.endSpare()
    assert(!round.sparesAgain(Iterator(0 -> 1), Seq(fresh, begun)), "a job with a start waits for it")
    assert(round.sparesAgain(Iterator(0 -> 2), Seq(fresh, begun)))
  }

  test("a pool that the plan gives no start gets its slot") {
    val (_, round) = enforcement("late")
    val late = new Waiting("late", 1)
    round.begin(IndexedSeq.empty, 0)
    round.owe(Some(late))
    assert(round.decide(late, "e") === Verdict.Open)
  }

  test("only tasks that may run again are evicted") {
    assert(Enforcement.victims(Seq(1L -> true, 2L -> false, 3L -> true)) === Seq(1L, 3L))
  }

  // ---- victims by number ----

  private def attempt(priority: Int, restartable: Boolean = true, slots: Int = 1, profile: Int = 0) =
    RunningAttempt(priority, restartable, slots, profile)

  private val running = Map(
    1L -> attempt(0), 2L -> attempt(0, restartable = false), 3L -> attempt(5), 4L -> attempt(0, slots = 2),
    5L -> attempt(4), 6L -> attempt(0, profile = 1))

  private def preempted(waiting: Map[Int, Int], named: Long*): Seq[Long] = Enforcement.preempted(named, 5, waiting, running.get)

  test("victims go in the order given as long as slots are wanted") {
    assert(preempted(Map(0 -> 2), 5, 1) === Seq(5L, 1L))
    assert(preempted(Map(0 -> 1), 5, 1) === Seq(5L))
    assert(preempted(Map(0 -> 1), 4, 1) === Seq(4L), "a wide one makes room for a narrow one")
    assert(preempted(Map(0 -> 0), 1) === Nil)
    assert(preempted(Map(0 -> 2), 1, 1, 5) === Seq(1L, 5L), "each once")
  }

  test("whoever is gone, may not run again or has no lower priority is no victim") {
    assert(preempted(Map(0 -> 4), 2, 3, 9, 1) === Seq(1L))
  }

  test("whether a victim's slots would stay is asked with all victims before it") {
    // As callers do, who look at other things of these victims: two of them may be alike.
    def gives(most: Int)(task: Long, going: Iterable[Long]) = going.map(_ => "a task of one stage").size < most
    def victims(most: Int) = Enforcement.preempted(Seq(1L, 4L, 5L), 5, Map(0 -> 9), running.get, gives(most))
    assert((0 to 3).map(victims(_).size) === Seq(0, 1, 2, 3))
  }

  test("slots of executors that the waiting tasks cannot use are nobody's gain") {
    assert(preempted(Map(0 -> 1), 6, 1) === Seq(1L))
    assert(preempted(Map(1 -> 1), 6, 1) === Seq(6L))
  }

  test("who chooses fast executors is offered its own held slots, then executors by speed") {
    val (ledger, round, plans) = {
      val ledger = new Ledger(Silent)
      Seq("a", "b", "c", "d").foreach(ledger.executorAdded(_, 2))
      val plans = new PlanInForce(400)
      (ledger, new Enforcement(ledger, plans), plans)
    }
    val fast = plan().jobs("begun").copy(powerful = true)
    plans.put(Some(plan().copy(jobs = Map("begun" -> fast, "other" -> fast.copy(powerful = false)), slowness = Map("b" -> 0.5, "d" -> 2.0))))
    assert(round.choosesFast(new Waiting("begun", 1)))
    assert(!round.choosesFast(new Waiting("other", 1)))
    assert(!round.choosesFast(new Waiting("begun", 3, waitsAsGang = true)), "its tasks start together")
    val all = Seq("a", "b", "c", "d")
    val bySpeed = Seq(Seq("b" -> None), Seq("a" -> None, "c" -> None), Seq("d" -> None))
    assert(round.fastestFirst(Seq(new Waiting("begun", 1)), all) === bySpeed)
    // A task of a stage of one ends on the slowest executor: its slot stays held for the next stage.
    ledger.jobStarted("begun", marked = false, EnforcementRounds.Base)
    ledger.stageStarted("begun", "1.0", 0, 2, Some(2), last = false, barrier = false, 0, 1, restartable = true)
    ledger.taskLaunched(1, "1.0", 0, "d", copy = false, 0)
    ledger.taskEnded(1, success = true, 100)
    assert(ledger.heldOn("d", "begun") === 1)
    assert(round.fastestFirst(Seq(new Waiting("begun", 1)), all) === Seq("d" -> Some(1)) +: bySpeed)
    assert(round.fastestFirst(Seq(new Waiting("other", 1)), all) === bySpeed, "held for another job")
  }
}
