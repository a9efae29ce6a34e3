package schedcore
package enforce

import scala.collection.mutable

import schedcore.ledger.Ledger
import schedcore.plan.{PlanInForce, QueueTurn, Start}

/** A task set, as enforcement sees it. */
trait WaitingSet {
  def job: String
  def jobPriority: Int
  /** Place of its job in the order of arrival. */
  def jobArrival: Int
  /** Resource profile of the executors that it may use. */
  def executorProfile: Int
  def numTasks: Int
  def slotsPerTask: Int
  /** Whether all its tasks wait and must start together. */
  def waitsAsGang: Boolean
  /** Whether only its pilots may start; the others wait behind them. */
  def pilotsFirst: Boolean
  /** Pilots that have not been launched. */
  def idlePilots: IndexedSeq[Int]
  /** Tasks that wait for a slot; while pilots run first, only the pilots. */
  def waitingTasks: Int
  /** Whether its tasks would rather run where their input is than on a fast executor. */
  def prefersPlaces: Boolean = false

  // Its rank, its queue, and the changes of rules and plans as of then.
  private[enforce] var kept: OfferRank = OfferRank.NoJob
  private[enforce] var keptQueue = Option.empty[Int]
  private[enforce] var keptAt = -1L

  /** Slots that its waiting tasks would take. */
  final def waitingSlots: Int = slotsPerTask * waitingTasks
  /** Slots of whole tasks without which none of its tasks starts. */
  final def atOnce: Int = if (waitsAsGang) slotsPerTask * numTasks else slotsPerTask
  /** Slots without which none of its tasks starts. */
  final def slotsAtOnce: Int = if (waitsAsGang) slotsPerTask * numTasks else 1
}

/** What a task set may do with a slot, and why. */
sealed abstract class Verdict(val may: Boolean, val reason: String)

object Verdict {
  case object Open extends Verdict(true, "open")
  case object OwnHold extends Verdict(true, "own hold")
  case object Overrides extends Verdict(true, "override")
  case object Pilot extends Verdict(true, "pilot")
  case object LeftOver extends Verdict(true, "spare")
  case object Held extends Verdict(false, "held for another job")
  case object BehindPilots extends Verdict(false, "pilots first")
  case object NothingSpare extends Verdict(false, "nothing spare")
  case object StartsLater extends Verdict(false, "its start has not come")
  case object WasEvicted extends Verdict(false, "evicted")
  case object NotAdmitted extends Verdict(false, "waits in the admission queue")
  case object AtCeiling extends Verdict(false, "its queue is at its ceiling")
  case object OthersTurn extends Verdict(false, "it is another queue's turn")
}

/** Lower is first: standing of the tenants' queue, priority, turn of the plan's queue, the job's place in that, then its arrival. */
final case class OfferRank(priority: Int, turn: QueueTurn, place: Int, arrival: Int, standing: QueueStanding = QueueStanding.Same)

object OfferRank {
  /** Of task sets that are nobody's. */
  val NoJob: OfferRank = OfferRank(0, QueueTurn.NoQueue, 0, 0)
}

/**
 * Who gets a slot under the plan in force and the ledger, as a state machine without Spark.
 *
 * A round of offers is `begin`, then `decide` for each slot that is offered to a task set, then, where `spareWanted`, the
 * same between `beginSpare` and `endSpare`: what nobody took goes to those that may take nothing else. Where tenants' queues have
 * shares, the first slots are offered between `divide` and `endParts`: each queue takes its part, and then anybody what is left. `rank` is the order
 * in which task sets are offered slots. `spark_sched_lab.enforce.enforcement` is the twin in the simulator, and golden sequences
 * under `protocol/golden/enforcement` bind the two. Used under its owner's lock only.
 *
 * @param queues the tenants' queues, which are asked first; None: there are none now
 */
final class Enforcement(ledger: Ledger, plans: PlanInForce, queues: => Option[QueueUsage] = None) {

  private var nowMs = 0L
  private var sparing = false
  private var wanted = false
  private var turns = IndexedSeq.empty[QueueTurn]
  private var owed: Option[WaitingSet] = None
  private var spareSlots = new SpareSlots
  // Task sets that found no spare slot in this round.
  private val foundNone = mutable.LinkedHashSet.empty[WaitingSet]
  // An operator may change the tree.
  private def shares = queues.flatMap(_.shares)
  // The most slots that tenants' queues may have in this part of the round; the others: any number.
  private var parts = Map.empty[String, Int]
  private var turnedAway = false

  // ---- a round -----------------------------------------------------------------------------------------------

  /** @param queueTurns of the plan's queues at the slots in use; empty where it has none */
  def begin(queueTurns: IndexedSeq[QueueTurn], atMs: Long): Unit = {
    nowMs = atMs
    sparing = false
    wanted = false
    owed = None
    parts = Map.empty
    turnedAway = false
    turns = queueTurns
    foundNone.clear()
  }

  /**
   * From now on each tenants' queue takes no more than its part of the open slots.
   *
   * @param open free slots that nobody holds, with the resource profile of their executor
   * @param waiting in the order in which those of one queue are offered slots
   */
  def divide(open: Iterator[(Int, Int)], waiting: Iterable[WaitingSet]): Unit = shares.foreach { s =>
    val slots = mutable.HashMap.empty[Int, Int].withDefaultValue(0)
    open.foreach { case (profile, n) => slots(profile) += n }
    val wanted = for (set <- waiting; queue <- queueOf(set) if set.waitingTasks > 0 && planned(set).may)
      // What its job holds adds nothing to what its queue has.
      yield Wanted(queue, set.executorProfile, set.atOnce, set.waitingSlots - ledger.heldBy(set.job))
    parts = s.parts(wanted, slots.toMap)
  }

  /** What is left is anybody's. @return whether a task set was refused a slot since its queue had had its part */
  def endParts(): Boolean = {
    parts = Map.empty
    turnedAway
  }

  private def queueOf(set: WaitingSet): Option[String] = queues.flatMap(_.queueOf(set.job))

  private def hadItsPart(set: WaitingSet): Boolean = parts.nonEmpty && queues.exists { q =>
    q.queueOf(set.job).exists(queue => parts.get(queue).exists(q.used(queue) + set.atOnce > _))
  }

  /** Whether a queue of its path has fewer slots than its floor. */
  private def belowFloor(set: WaitingSet): Boolean = shares.exists(s => queueOf(set).exists(s.below))

  /** Whether a task set waits whose queue may take held slots of another one. */
  def lacksHeldSlots(waiting: Iterator[WaitingSet]): Boolean =
    shares.isDefined && ledger.heldSlots > 0 && {
      val queues = waiting.filter(set => set.waitingTasks > 0 && planned(set).may).flatMap(queueOf).toSet
      queues.exists(queue => shares.exists(_.takesHeld(queue)))
    }

  /** Whether some task set may take slots that this round leaves over. */
  def spareWanted: Boolean = wanted

  /** Whether the current offers are of slots that nobody took before. */
  def givesSpare: Boolean = sparing

  /**
   * From now on, spare slots are offered: those that are neither held nor needed by task sets with a start.
   *
   * @param open free slots that nobody holds, with the resource profile of their executor
   */
  def beginSpare(open: Iterator[(Int, Int)], waiting: Iterable[WaitingSet]): Unit = {
    spareSlots = spare(open, waiting)
    sparing = true
  }

  /** Whether a task set may take slots that it was not offered before: no other one can, unless a hold went meanwhile. */
  def takesSpare(set: WaitingSet): Boolean = owed.contains(set) || (start(set.job) match {
    case Start.Now => set.pilotsFirst
    case Start.Spare | Start.Unplanned => true
    case Start.Planned | Start.Evicted => false
  })

  def endSpare(): Unit = {
    sparing = false
    spareSlots = new SpareSlots
  }

  /** FAIR order of pools gives this task set the next slot, although the plan has no start for it. */
  def owe(set: Option[WaitingSet]): Unit = owed = set

  // ---- decisions ---------------------------------------------------------------------------------------------

  def start(job: String): Start = if (plans.starts.active) plans.starts.of(job, nowMs) else Start.Now

  /** The verdict by the job's queue, and by starts and pilots of the plan, without regard to held slots. */
  def planned(set: WaitingSet): Verdict = refusal(set).getOrElse(byPlan(set))

  /** Why the task set may take no slot, as far as its queue decides. */
  private def refusal(set: WaitingSet): Option[Verdict] = queues.flatMap { q =>
    Option.when(q.room(set.job, ledger.isSafe(_, set.job)) < set.atOnce)(if (q.admitted(set.job)) Verdict.AtCeiling else Verdict.NotAdmitted)
  }

  /** Slots that a job's queue leaves it now. */
  def room(job: String): Int = queues.fold(Int.MaxValue)(_.room(job, ledger.isSafe(_, job)))

  private def byPlan(set: WaitingSet): Verdict = start(set.job) match {
    case Start.Spare | Start.Planned | Start.Unplanned if owed.contains(set) => Verdict.Open
    case Start.Now if !set.pilotsFirst => Verdict.Open
    case Start.Now if sparing => Verdict.LeftOver
    case Start.Now =>
      wanted = true
      if (set.idlePilots.nonEmpty) Verdict.Pilot else Verdict.BehindPilots
    // A plan divides what its queue gets, and may not keep it below its floor.
    case Start.Spare | Start.Planned | Start.Unplanned if belowFloor(set) => Verdict.Open
    case start @ (Start.Spare | Start.Unplanned) =>
      wanted = true
      if (sparing && spareSlots.suffice(set, start)) {
        foundNone -= set
        Verdict.LeftOver
      } else {
        foundNone += set
        if (start == Start.Spare) Verdict.NothingSpare else Verdict.StartsLater
      }
    case Start.Planned => Verdict.StartsLater
    case Start.Evicted => Verdict.WasEvicted
  }

  /** May a task of the task set take its slots of the executor, beside `pending` ones that only its owner knows of? */
  def decide(set: WaitingSet, executor: String, pending: => Int = 0): Verdict = {
    val verdict = planned(set)
    if (!verdict.may) verdict
    // Of a gang, `pending` looks at all of its tasks.
    else if (!ledger.mayLaunch(set.job, executor, if (ledger.heldOn(executor) == 0) 0 else pending, set.slotsPerTask)) Verdict.Held
    else if (hadItsPart(set) && ledger.heldOn(executor, set.job) == 0 && opens(executor)) {
      turnedAway = true
      Verdict.OthersTurn
    } else if (verdict ne Verdict.Open) verdict
    else if (ledger.heldOn(executor, set.job) > 0) Verdict.OwnHold
    else if (opens(executor)) Verdict.Open
    else Verdict.Overrides
  }

  private def opens(executor: String): Boolean = ledger.idleOn(executor) > 0 || ledger.heldOn(executor) == 0

  /** Slots of an executor that a gang may have, of this number of free ones. */
  def openTo(gang: WaitingSet, executor: String, free: Int): Int =
    if (planned(gang).may) free - ledger.refusedOn(executor, gang.job) else 0

  /** Whether the task set takes slots of the fastest executors first (thesis §8.1.2). A gang needs all its slots at once. */
  def choosesFast(set: WaitingSet): Boolean = plans.isPowerful(set.job) && !set.waitsAsGang && !set.prefersPlaces

  /** Whether a task of the task set may take a slot now, those behind pilots among them where slots are left over. */
  def wantsSlots(set: WaitingSet): Boolean = set.waitingTasks > 0 || (sparing && set.pilotsFirst)

  /**
   * The offers to task sets that choose fast executors, one after the other: the slots that are held for their jobs, which ran
   * there, then the executors by speed. Executors of equal speed are in one offer.
   *
   * @param executors in an order that each offer keeps
   * @return by offer, its executors with how many of their slots it has at most; None: all
   */
  def fastestFirst(sets: Iterable[WaitingSet], executors: Seq[String]): Seq[Seq[(String, Option[Int])]] = {
    val jobs = sets.iterator.map(_.job).toSet
    val own = executors.map(e => e -> jobs.iterator.map(ledger.heldOn(e, _)).sum).collect { case (e, n) if n > 0 => e -> Some(n) }
    val bySpeed = executors.groupBy(plans.slowness).toList.sortBy(_._1).map(_._2.map(_ -> None))
    if (own.isEmpty) bySpeed else own +: bySpeed
  }

  /** A task of the task set took its slots. */
  def launched(set: WaitingSet): Unit =
    if (sparing) spareSlots.taken(set, start(set.job))

  def rank(set: WaitingSet): OfferRank =
    // Task sets that may only take spare slots come last, by arrival.
    if (sparing) OfferRank(-set.jobPriority, QueueTurn(if (comesLast(set)) 1.0 else 0.0, 0, 0), set.jobArrival, set.jobArrival, standing(set))
    else {
      val now = changes
      if (set.keptAt != now) {
        set.kept = OfferRank(-set.jobPriority, QueueTurn.NoQueue, plans.rank(set.job), set.jobArrival)
        set.keptQueue = plans.queue(set.job)
        set.keptAt = now
      }
      // Turns are of this round.
      val ranked = set.keptQueue.filter(_ < turns.size).fold(set.kept)(queue => set.kept.copy(turn = turns(queue)))
      if (shares.isEmpty) ranked else ranked.copy(standing = standing(set))
    }

  // Both rise, so that their sum is another one after either changed.
  private def changes: Long = ledger.ruleChanges + plans.changes

  /** A number that stays the same while no rank changes; None: ranks change with each launch. */
  def ranksAt: Option[Long] = Option.when(!sparing && turns.isEmpty && shares.isEmpty)(changes)

  private def standing(set: WaitingSet): QueueStanding =
    (for (s <- shares; queue <- queueOf(set)) yield s.standing(queue)).getOrElse(QueueStanding.Same)

  /** Whether a task set found no spare slot in this round. */
  def lacksSpare: Boolean = foundNone.exists(_.waitingTasks > 0)

  private def comesLast(set: WaitingSet): Boolean = start(set.job) == Start.Spare || set.pilotsFirst

  /**
   * Whether a task set that found no spare slot in this round would find one now: a launch ends holds that its job has too
   * many of, and nothing else offers the slot again.
   */
  def sparesAgain(open: Iterator[(Int, Int)], waiting: Iterable[WaitingSet]): Boolean =
    foundNone.exists(_.waitingTasks > 0) && {
      val now = spare(open, waiting)
      foundNone.exists(set => set.waitingTasks > 0 && now.suffice(set, start(set.job)) && refusal(set).isEmpty)
    }

  private def spare(open: Iterator[(Int, Int)], waiting: Iterable[WaitingSet]): SpareSlots = {
    val found = new SpareSlots
    open.foreach { case (profile, slots) => found.add(profile, slots) }
    val claimed = mutable.HashMap.empty[String, Int]
    waiting.foreach { set =>
      // A job waits for no more slots than its queue leaves it.
      def slots = queues.fold(set.waitingSlots)(_.claim(set.job, set.waitingSlots, claimed, ledger.isSafe(_, set.job)))
      found.want(set, start(set.job), slots)
    }
    found
  }
}

/** Slots that nobody with a start waits for, by the resource profile of their executors, and those that new jobs want of them. */
private final class SpareSlots {
  private val left = mutable.HashMap.empty[Int, Int]
  private val forNew = mutable.HashMap.empty[Int, Int]

  def add(profile: Int, slots: Int): Unit = left(profile) = left.getOrElse(profile, 0) + slots

  def want(set: WaitingSet, start: Start, slots: => Int): Unit = start match {
    case Start.Now | Start.Planned => add(set.executorProfile, -slots)
    case Start.Unplanned => forNew(set.executorProfile) = forNew.getOrElse(set.executorProfile, 0) + slots
    case Start.Spare | Start.Evicted =>
  }

  /** Whether a task of the task set may have its slots: of a job without any start, if new jobs leave them. */
  def suffice(set: WaitingSet, start: Start): Boolean = {
    val slots = left.getOrElse(set.executorProfile, 0)
    start match {
      case Start.Unplanned => slots >= set.slotsAtOnce
      case Start.Spare => slots - forNew.getOrElse(set.executorProfile, 0) >= set.slotsAtOnce
      case _ => false
    }
  }

  def taken(set: WaitingSet, start: Start): Unit = if (start == Start.Spare || start == Start.Unplanned) {
    add(set.executorProfile, -set.slotsPerTask)
    if (start == Start.Unplanned) forNew(set.executorProfile) = forNew.getOrElse(set.executorProfile, 0) - set.slotsPerTask
  }
}

/** A running attempt that a plan names as a victim, as enforcement sees it. */
final case class RunningAttempt(priority: Int, restartable: Boolean, slots: Int, executorProfile: Int)

object Enforcement {
  /**
   * Of the attempts that a plan names as victims for a job, those to kill now.
   *
   * @param named attempts in the order in which they go
   * @param priority of the job in force; only attempts of lower priority go
   * @param waiting slots that its tasks wait for, by executors' resource profile; not one more is taken than they need
   * @param running finds an attempt; None: it does not run any more
   * @param gives whether the job would keep the slots of an attempt after those of others that go: its queue may have to give them back
   */
  def preempted(
      named: Seq[Long], priority: Int, waiting: Map[Int, Int], running: Long => Option[RunningAttempt],
      gives: (Long, List[Long]) => Boolean = (_, _) => true): Seq[Long] = {
    val left = mutable.HashMap.from(waiting)
    val going = mutable.LinkedHashSet.empty[Long]
    named.foreach { task =>
      running(task).filterNot(_ => going(task)).foreach { a =>
        if (a.restartable && a.priority < priority && left.getOrElse(a.executorProfile, 0) > 0 && gives(task, going.toList)) {
          left(a.executorProfile) -= a.slots
          going += task
        }
      }
    }
    going.toList
  }

  /** The running tasks of an evicted job that are killed: those that are restartable. */
  def victims(running: Seq[(Long, Boolean)]): Seq[Long] = running.collect { case (task, true) => task }
}
