package schedcore
package enforce

import scala.collection.mutable

import schedcore.ledger.Ledger

/**
 * Groups of pipelined stages (Spark 4.3): all stages of a Spark job whose tasks run at the same time, since each reads what another one
 * writes meanwhile. A group of which some tasks run and others wait occupies slots for nothing.
 *
 * A group is admitted if its job may take as many free slots as it has tasks, and refused if not. Until all tasks of an admitted one have
 * been launched, others get only slots that it leaves, and where slots were held for others since then it takes these
 * (`docs/adr/0056-groups-start-or-are-refused.md`). Spark runs groups on executors of one resource profile, its default one, so that each task
 * takes one slot. Used under its owner's lock only.
 *
 * @param executors of a resource profile
 */
final class PipelinedGroups(ledger: Ledger, executors: Int => Iterator[String]) {
  import PipelinedGroups._

  private val groups = mutable.LinkedHashMap.empty[Int, Group]
  private val ofSet = mutable.HashMap.empty[WaitingSet, Group]
  // Slots that groups leave to others in this round, by resource profile; none where no group needs any.
  private val left = mutable.HashMap.empty[Int, Int]
  private var kept = false // whether a slot was kept from somebody

  def isEmpty: Boolean = groups.isEmpty

  /** A task set of the Spark job comes. @param tasks of all stages of the group */
  def arrived(sparkJob: Int, set: WaitingSet, tasks: Int): Unit = {
    val group = groups.getOrElseUpdate(sparkJob, new Group(sparkJob, set.job, set.executorProfile, tasks))
    group.sets += set
    ofSet(set) = group
  }

  def setOver(set: WaitingSet): Unit = ofSet.remove(set).foreach(_.sets -= set)

  /** Forgets the groups of Spark jobs that are over. @return whether slots were kept for one */
  def keepOnly(active: Int => Boolean): Boolean = groups.nonEmpty && {
    groups.keysIterator.filterNot(active).toList.foreach(over)
    released()
  }

  def over(sparkJob: Int): Unit = groups.remove(sparkJob).foreach(group => ofSet --= group.sets)

  /** Whether some group is to be decided upon, or has tasks that wait for slots: held slots may be theirs. */
  def wantSlots: Boolean = groups.nonEmpty && groups.valuesIterator.exists(g => g.state == Waiting || g.needs > 0)

  /** Whether the job has a group that waits or runs. */
  def has(job: String): Boolean = groups.nonEmpty && groups.valuesIterator.exists(g => g.job == job && g.state != TurnedAway)

  /**
   * A round of offers begins.
   *
   * @param ready whether a group's job may start now, but for free slots; until then none of its tasks starts
   * @return the groups that are refused now
   */
  def begin(ready: (String, Int) => Boolean): Seq[Refused] = if (groups.isEmpty) Nil else {
    left.clear()
    val refused = groups.valuesIterator.filter(g => g.state == Waiting && ready(g.job, g.tasks)).flatMap(admit(_)).toList
    groups.valuesIterator.filter(_.needs > 0).toList.groupBy(_.profile).foreach { case (profile, needing) => reserve(profile, needing) }
    refused
  }

  private def admit(group: Group): Option[Refused] = {
    val slots = slotsFor(group)
    // Groups that were admitted before and have not launched all of their tasks come first.
    val others = groups.valuesIterator.filter(g => (g ne group) && g.profile == group.profile).map(_.needs).sum
    if (slots.takeable - others >= group.tasks) {
      group.state = Admitted
      None
    } else {
      group.state = TurnedAway
      Some(Refused(group.sparkJob, group.job, group.tasks, slots.free, slots.free - slots.takeable, others, holdersAgainst(group)))
    }
  }

  private def reserve(profile: Int, needing: List[Group]): Unit = {
    var before = 0
    var leaves = Int.MaxValue
    val needs = needing.map(_.needs).sum
    needing.foreach { g =>
      val slots = slotsFor(g)
      val need = g.needs
      val open = math.max(0, slots.takeable - before)
      g.overrides = math.max(0, math.min(need, slots.free - before) - open)
      before += need
      // With too few slots it waits for others to end, or for executors, whatever is kept for it.
      if (slots.free >= needs) leaves = math.min(leaves, math.max(0, slots.takeable - needs))
    }
    if (leaves != Int.MaxValue) left(profile) = leaves
  }

  private def slotsFor(group: Group): Slots = {
    var (free, refused) = (0, 0)
    executors(group.profile).filter(ledger.isOpen).foreach { e =>
      free += math.max(0, ledger.freeOn(e))
      refused += ledger.refusedOn(e, group.job)
    }
    Slots(free, free - refused)
  }

  private def holdersAgainst(group: Group): Seq[String] = {
    val on = executors(group.profile).toSet
    ledger.holds.collect { case (job, executor, _, _) if on(executor) && ledger.isSafe(job, group.job) => job }.distinct
  }

  /** What groups say to a task of the task set on a slot of the executor, beside `pending` slots that only its owner knows of. */
  def decide(set: WaitingSet, executor: String, pending: => Int): Answer =
    ofSet.get(set) match {
      case Some(group) if group.state != Admitted => Waits
      case Some(group) => if (group.overrides > 0 || ledger.mayLaunch(group.job, executor)) Goes else Usual
      case None =>
        val free = left.getOrElse(set.executorProfile, Int.MaxValue)
        if (free == Int.MaxValue || keepsOwn(set, executor) || free >= (if (set.waitsAsGang) set.atOnce else pending + set.slotsPerTask)) Usual
        else {
          kept = true
          Waits
        }
    }

  /** Whether groups leave a gang all the slots that it needs at once. */
  def leave(gang: WaitingSet): Boolean = groups.isEmpty || {
    val all = left.getOrElse(gang.executorProfile, Int.MaxValue) >= gang.atOnce
    if (!all) kept = true
    all
  }

  /** Slots that the job of a task set holds from all groups with a need: these have not counted them. */
  private def keepsOwn(set: WaitingSet, executor: String): Boolean =
    ledger.heldOn(executor, set.job) > 0 && groups.valuesIterator.forall(g => g.needs == 0 || ledger.isSafe(set.job, g.job))

  /** A task of the task set is about to take its slots of the executor; the ledger does not know yet. */
  def launched(set: WaitingSet, index: Int, executor: String): Unit = if (groups.nonEmpty) ofSet.get(set) match {
    case Some(group) =>
      // Where this scheduler did not enforce, Spark has started it.
      if (group.state == Waiting) group.state = Admitted
      if (group.overrides > 0 && !ledger.mayLaunch(group.job, executor)) group.overrides -= 1
      group.begun(set, index)
    case None =>
      left.get(set.executorProfile).filterNot(_ => keepsOwn(set, executor)).foreach(n => left(set.executorProfile) = math.max(0, n - set.slotsPerTask))
  }

  /** Whether slots were kept from somebody, and are not any more. */
  def released(): Boolean = kept && !groups.valuesIterator.exists(_.needs > 0) && {
    kept = false
    true
  }
}

object PipelinedGroups {
  /** What a group says to the launch of a task. */
  sealed trait Answer
  /** Nothing: whatever else decides. */
  case object Usual extends Answer
  /** It starts, whatever else would decide. */
  case object Goes extends Answer
  case object Waits extends Answer

  /**
   * Why a group does not start.
   *
   * @param held slots that are held against its job
   * @param promised slots that other groups are about to take
   * @param holders the jobs that hold them
   */
  final case class Refused(sparkJob: Int, job: String, tasks: Int, free: Int, held: Int, promised: Int, holders: Seq[String]) {
    /** @param name of a job */
    def sentence(name: String => String): String = {
      val shown = holders.map(name).distinct
      val whose = shown.take(ShownHolders).mkString(", ") + (if (shown.size > ShownHolders) s" and ${shown.size - ShownHolders} more" else "")
      val kept = Seq(
        Option.when(held > 0)(s"$held are held for ${if (shown.sizeIs == 1) "job" else "jobs"} $whose"),
        Option.when(promised > 0)(s"$promised are for other groups that start")).flatten
      s"its group of pipelined stages needs $tasks slots at once, and of $free free ones ${if (kept.isEmpty) "none is held" else kept.mkString(" and ")}"
    }
  }

  private val ShownHolders = 3

  private sealed trait State
  private case object Waiting extends State
  private case object Admitted extends State
  private case object TurnedAway extends State

  private final case class Slots(free: Int, takeable: Int)

  private final class Group(val sparkJob: Int, val job: String, val profile: Int, val tasks: Int) {
    val sets = mutable.LinkedHashSet.empty[WaitingSet]
    var state: State = Waiting
    var overrides = 0 // slots held for others that it may take in this round
    private val tasksBegun = mutable.HashSet.empty[(WaitingSet, Int)] // forgotten when all have
    private var all = false

    def begun(set: WaitingSet, index: Int): Unit = if (!all) {
      tasksBegun += set -> index
      all = tasksBegun.size >= tasks
      if (all) tasksBegun.clear()
    }

    /** Slots that an admitted group still needs: for tasks that never ran, some of which may be of stages to come, or for those that failed. */
    def needs: Int =
      if (state != Admitted) 0
      else math.max(if (all) 0 else tasks - tasksBegun.size, sets.iterator.map(_.waitingTasks).sum)
  }
}
