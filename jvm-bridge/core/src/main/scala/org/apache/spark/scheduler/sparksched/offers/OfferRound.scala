package org.apache.spark.scheduler.sparksched
package offers

import org.apache.spark.internal.config.{DYN_ALLOCATION_EXECUTOR_IDLE_TIMEOUT, DYN_ALLOCATION_SCHEDULER_BACKLOG_TIMEOUT}
import org.apache.spark.scheduler.{SchedulingMode, TaskDescription, TaskInfo, TaskSetManager, WorkerOffer}
import org.apache.spark.scheduler.sparksched.backend.SlotDemand
import schedcore.PlainText
import schedcore.enforce.{Backlog, Enforcement, GangCycle, OfferRank, Packing, PipelinedGroups, Verdict, WaitingGang}
import schedcore.plan.Start
import scala.collection.mutable

/**
 * One round of offers to Spark's task sets. [[schedcore.enforce.Enforcement]] decides which task sets may start under the plan in force,
 * in which order, and which may take spare slots; this class translates Spark's offers and task sets for it.
 *
 * A round may offer twice: first to task sets with a start, then the remaining slots to those that may only take spare ones.
 * Barrier stages get an offer of their own, in their place in the order, of just the slots that they may have: Spark
 * counts the slots of an offer to see whether all their tasks fit. Task sets that choose fast executors get an offer of each
 * level of speed: Spark gives each offered executor one task in turn. Used under the scheduler's lock only.
 *
 * @param queue the task sets in the order in which they are offered slots
 * @param inOrder in FIFO mode all task sets in that order, also those that have nothing to start
 * @param sets the same in no order
 * @param idleSlots checks what a round left over, in tests; with it the ledger is checked, too
 */
private[sparksched] final class OfferRound(
    scheduler: SchedTaskScheduler, records: SchedRecords, queue: () => Iterable[TaskSetManager],
    inOrder: () => Iterator[TaskSetManager], sets: () => Iterator[TaskSetManager], idleSlots: Option[IdleSlotCheck]) {
  import OfferRound._
  import records.{ledger, plans, registry}

  private val enforcement = new Enforcement(ledger, plans, records.queues)
  private val cuts = new OfferCuts(scheduler, ledger)
  /** The groups of pipelined stages. */
  val groups: PipelinedGroups = new PipelinedGroups(ledger, registry.executors.withProfile(_).map(_.executor))
  // Tasks of a gang are launched one after the other: its claims stay as they are until one has ended.
  records.countAtOnce(job => gangs.exists(gang => gang.job == job && !gang.isZombie && gang.tasksSuccessful == 0) || groups.has(job))
  private var nowMs = 0L
  private var running = false
  private var offered: Option[TaskSetManager => Boolean] = None
  // Task sets that were refused held slots in this round, with the executor: some of them more than once. There may be many.
  private val refused = mutable.ArrayBuffer.empty[SchedTaskSetManager]
  private val refusedOn = mutable.ArrayBuffer.empty[String]
  private var yieldsBefore = Option.empty[Long]
  // For the check of the idle slots: task sets that the plan kept from a slot, with the executor.
  private val refusedByPlan = mutable.LinkedHashSet.empty[(SchedTaskSetManager, String)]
  private val ofStage = mutable.HashMap.empty[String, SchedTaskSetManager]
  private val gangs = mutable.LinkedHashSet.empty[SchedTaskSetManager]
  // Queues that were at their ceilings, each by the name of its topmost ancestor, since all executors were last offered.
  private val atCeilings = mutable.HashSet.empty[String]
  private var askedInVain = false // the last round started nothing and wanted another one
  // Spark's entries are in seconds. They are read only if packing is on.
  private lazy val backlog = new Backlog(
    1000L * scheduler.sc.conf.get(DYN_ALLOCATION_SCHEDULER_BACKLOG_TIMEOUT),
    1000L * scheduler.sc.conf.get(DYN_ALLOCATION_EXECUTOR_IDLE_TIMEOUT))

  def add(manager: SchedTaskSetManager): Unit = {
    ofStage(manager.stage) = manager
    cuts.add(manager)
    if (manager.isBarrier) gangs += manager
    manager.place.groupTasks.foreach(groups.arrived(manager.priority, manager, _))
  }
  def remove(manager: SchedTaskSetManager): Unit = {
    ofStage -= manager.stage
    cuts.remove(manager)
    gangs -= manager
    groups.setOver(manager)
  }

  /** Whether Spark excludes the executor or its host for now, after too many failed tasks. */
  def excludes(o: WorkerOffer): Boolean =
    scheduler.healthTrackerOpt.exists(h => h.isExecutorExcluded(o.executorId) || h.isNodeExcluded(o.host))

  /** The task sets that the present offers are for; None: all. */
  def only: Option[TaskSetManager => Boolean] = offered

  /** Whether the current offers are of slots that nobody took before. */
  def givesSpare: Boolean = enforcement.givesSpare

  /** Whether a queue at its ceiling kept a slot from a task set to which the end of a task of this job makes room, on any executor. */
  def makesRoom(job: String): Boolean = atCeilings.nonEmpty && topQueue(job).exists(atCeilings)

  private def topQueue(job: String): Option[String] = records.queues.flatMap(_.topQueueOf(job))

  /** Whether a round is under way. */
  def underWay: Boolean = running

  /** @param spread Spark's own round of offers; what it has launched is returned whatever happens here */
  def run(offers: IndexedSeq[WorkerOffer], isAllFreeResources: Boolean, atMs: Long)(spread: Place): Placed = {
    running = true
    try if (scheduler.enforcing) {
      val placed = enforced(offers, isAllFreeResources, atMs)(if (scheduler.settings.packs) packed(spread) else spread)
      if (scheduler.settings.packs) scheduler.failOpen("packing", ())(backlog.observe(tasksLackSlots, atMs))
      placed
    } else {
      scheduler.failOpen("offers", ())(begin(atMs, isAllFreeResources))
      if (scheduler.settings.packs) scheduler.failOpen("packing", ())(backlog.forget())
      spread(offers, isAllFreeResources)
    } finally running = false
  }

  private def begin(atMs: Long, all: Boolean): Unit = {
    nowMs = atMs
    enforcement.begin(records.queueSlots.turns(registry.runningByJob), nowMs)
    if (all) atCeilings.clear()
    cuts.begin()
    refused.clear()
    refusedOn.clear()
    yieldsBefore = ledger.yields
    refusedByPlan.clear()
  }

  /** Whether nothing but free slots keeps a group of so many tasks from its start. */
  private def mayStart(job: String, tasks: Int): Boolean =
    !registry.isOnHold(job) && enforcement.room(job) >= tasks && (enforcement.start(job) match {
      case Start.Planned | Start.Evicted => false
      case Start.Now | Start.Spare | Start.Unplanned => true
    })

  private def refuse(group: PipelinedGroups.Refused): Unit = {
    def name(job: String) = PlainText.of(registry.marksOf(job).headOption.fold(job)(_.name))
    val why = group.sentence(name)
    registry.stories.add(group.job, nowMs, s"Spark job ${group.sparkJob} is refused: $why")
    scheduler.refuse(group.sparkJob, s"job ${name(group.job)}: $why")
  }

  private def enforced(all: IndexedSeq[WorkerOffer], isAllFreeResources: Boolean, atMs: Long)(place: Place): Placed = {
    val offers = scheduler.failOpen("offers", all) {
      begin(atMs, isAllFreeResources)
      groups.begin(mayStart).foreach(refuse)
      cutFrom(all)
    }
    val apart = scheduler.failOpen("offers", false) {
      enforcement.owe(owedByPools)
      // Spark's own count of slots is wrong only while this scheduler refuses some.
      (gangs.nonEmpty && (ledger.heldSlots > 0 || plans.starts.active || groups.wantSlots) && gangs.exists(_.waitsAsGang)) ||
        (offers.sizeIs > 1 && plans.differ(offers.map(_.executorId)) && ours.exists(enforcement.choosesFast))
    }
    val given: Place = if (apart) inTurn(_, _, place) else place
    val first = if (records.queues.exists(_.shares.isDefined)) byShare(offers, isAllFreeResources, given) else given(offers, isAllFreeResources)
    if (enforcement.spareWanted && !scheduler.failOpen.isOpen) first ++ spareOffers(offers, first)(if (apart) inTurn(_, false, place) else onlySpare(place))
    else first
  }

  /** The offers without what nobody can use. Where task sets get offers of their own, or few executors are filled, held slots stay in. */
  private def cutFrom(all: IndexedSeq[WorkerOffer]): IndexedSeq[WorkerOffer] = {
    val offers = cuts.withCores(all)
    val whole = ledger.heldSlots == 0 || gangs.nonEmpty || groups.wantSlots || scheduler.settings.packs
    if (whole || !offers.exists(o => ledger.heldOn(o.executorId) > 0)) offers
    else firstWanting.fold(offers) { first =>
      val left = cuts.withoutHeld(offers, first)
      records.tally.offersRefused += cuts.executors
      left
    }
  }

  /** Of the jobs that want slots the one whose claim to them comes first. */
  private def firstWanting: Option[String] = {
    // Without pools, queues and turns the order of offers is that of claims.
    if (ranksAt.isDefined && scheduler.schedulingMode == SchedulingMode.FIFO)
      inOrder().collectFirst { case m: SchedTaskSetManager if m.couldStart => m.job }
    else ledger.firstOf(ours.iterator.filter(_.couldStart).map(_.job))
  }

  /** Each tenants' queue takes its part of the open slots, and then anybody what is left. */
  private def byShare(offers: IndexedSeq[WorkerOffer], isAllFreeResources: Boolean, place: Place): Placed = {
    scheduler.failOpen("offers", ())(enforcement.divide(openOf(offers).map { case (o, slots) => o.resourceProfileId -> slots }, ours(queue().iterator)))
    val parts = place(offers, isAllFreeResources)
    val left = scheduler.failOpen("offers", IndexedSeq.empty[WorkerOffer]) {
      if (enforcement.endParts()) leftOf(offers, parts) else IndexedSeq.empty
    }
    if (left.exists(_.cores > 0)) parts ++ place(left, false) else parts
  }

  /** The offers that Spark uses, with their free slots that nobody holds. */
  private def openOf(offers: IndexedSeq[WorkerOffer]): Iterator[(WorkerOffer, Int)] =
    offers.iterator.filter(o => ledger.isOpen(o.executorId)).map(o => o -> math.max(0, scheduler.slots.free(o) - math.max(0, ledger.heldOn(o.executorId) - cuts.of(o.executorId))))

  /** Few executors are filled, unless a deadline, a barrier stage or a recent backlog needs all of them. */
  private def packed(spread: Place): Place = (offers, isAllFreeResources) => {
    val (inOrder, inUse) = scheduler.failOpen("packing", (IndexedSeq.empty[WorkerOffer], Set.empty[String])) {
      val waiting = ours.filter(_.waitingTasks > 0)
      if (offers.sizeIs < 2 || waiting.isEmpty || backlog.isRecent(nowMs) || waiting.exists(needsAll)) (IndexedSeq.empty, Set.empty)
      else {
        val running = scheduler.runningTasksByExecutors
        def holds(executor: String) = ledger.heldOn(executor) > 0
        def runs(executor: String) = running.getOrElse(executor, 0)
        val executors = offers.iterator.map(_.executorId).filter(e => holds(e) || runs(e) > 0).toSet
        (Packing.order(offers)(_.executorId, holds, runs), executors)
      }
    }
    if (inOrder.isEmpty) spread(offers, isAllFreeResources)
    else {
      def hasFree(o: WorkerOffer) = scheduler.failOpen("packing", true)(scheduler.slots.free(o) > 0)
      def tasksWait() = scheduler.failOpen("packing", false)(ours.exists(_.waitingTasks > 0))
      def left(placed: Placed) = scheduler.failOpen("packing", IndexedSeq.empty[WorkerOffer])(leftOf(inOrder, placed))
      // None of these offers is of all free resources.
      Packing.oneByOne(inOrder, (o: WorkerOffer) => inUse(o.executorId), belowHeadroom, left, hasFree, () => tasksWait())(spread(_, false))
    }
  }

  /** The offer without the headroom. An executor with held slots is offered whole, so that their owner finds them. */
  private def belowHeadroom(o: WorkerOffer): Option[WorkerOffer] = scheduler.failOpen("packing", Option.empty[WorkerOffer]) {
    val free = scheduler.slots.free(o)
    val spare = if (ledger.heldOn(o.executorId) > 0) 0 else Packing.headroom(registry.executors.slotsOf(o.executorId), scheduler.settings.headroom)
    if (spare == 0) Option.when(free > 0)(o) else Option.when(free > spare)(scheduler.slots.atMost(o, free - spare))
  }

  /** Its tasks must be offered all slots at once, or its job may miss its deadline, as far as the plan in force knows. */
  private def needsAll(m: SchedTaskSetManager): Boolean =
    m.waitsAsGang || m.place.groupTasks.isDefined || (m.place.hasDeadline && !Packing.isSafe(plans.forecasts.get(m.job)))

  private def tasksLackSlots: Boolean =
    ours.exists(_.waitingTasks > 0) && demands(nowMs).valuesIterator.exists(d => d.startable > 0 && d.idle == 0)

  /** One offer per waiting barrier stage and per run of task sets alike between two of them; see `fastestFirst`. */
  private def inTurn(offers: IndexedSeq[WorkerOffer], isAllFreeResources: Boolean, place: Place): Placed = {
    val inOrder = queue().toIndexedSeq
    val joined = offers.exists(o => !scheduler.isExecutorAlive(o.executorId))
    var placed: Placed = IndexedSeq.empty
    turns(inOrder).zipWithIndex.foreach { case (turn, number) =>
      val left = scheduler.failOpen("offers", IndexedSeq.empty[WorkerOffer]) {
        offered = Some(turn.sets.toSet)
        leftFor(turn, leftOf(offers, placed))
      }
      try placed ++= (if (turn.kind == Fast) fastestFirst(turn, left, place) else place(left, isAllFreeResources && number == 0))
      finally offered = None
      // Spark tells task sets of a new executor in the first offer that has it.
      if (joined && number == 0) inOrder.filterNot(turn.sets.contains).foreach(_.executorAdded())
    }
    placed
  }

  private def leftFor(turn: Turn, left: IndexedSeq[WorkerOffer]): IndexedSeq[WorkerOffer] = turn.sets.head match {
    case gang: SchedTaskSetManager if gang.waitsAsGang => openTo(gang, left)
    case _ => left
  }

  private def turns(inOrder: IndexedSeq[TaskSetManager]): Seq[Turn] = {
    val turns = mutable.ArrayBuffer.empty[Turn]
    inOrder.foreach { set =>
      val kind = kindOf(set)
      if (kind == Gang || turns.lastOption.forall(_.kind != kind)) turns += Turn(kind, mutable.ArrayBuffer.empty)
      turns.last.sets += set
    }
    turns.toList
  }

  private def kindOf(set: TaskSetManager): Kind = scheduler.failOpen("offers", Other: Kind)(set match {
    case gang: SchedTaskSetManager if gang.waitsAsGang => Gang
    case ours: SchedTaskSetManager if enforcement.wantsSlots(ours) && enforcement.choosesFast(ours) => Fast
    case _ => Other
  })

  /** One offer per level of speed while their tasks wait, and one of all slower executors. */
  private def fastestFirst(turn: Turn, left: IndexedSeq[WorkerOffer], place: Place): Placed = {
    val sets = turn.sets.toList.collect { case m: SchedTaskSetManager => m }
    def cut(o: WorkerOffer, slots: Int) = scheduler.slots.atMost(o, math.min(slots, scheduler.slots.free(o)))
    val steps = scheduler.failOpen("offers", Seq(left)) {
      val of = left.map(o => o.executorId -> o).toMap
      enforcement.fastestFirst(sets, left.map(_.executorId))
        .map(_.toIndexedSeq.map { case (executor, most) => most.fold(of(executor))(cut(of(executor), _)) })
    }.iterator
    var placed: Placed = IndexedSeq.empty
    while (steps.hasNext) {
      val more = scheduler.failOpen("offers", false)(sets.exists(enforcement.wantsSlots))
      // An executor is twice among all steps, but only once among those after the first: no offer has it twice.
      val step = if (more || placed.isEmpty) steps.next() else steps.flatten.toIndexedSeq
      // None of these offers is of all free resources.
      placed ++= place(scheduler.failOpen("offers", IndexedSeq.empty[WorkerOffer])(leftOf(step, placed)), false)
    }
    placed
  }

  /** The offers without the slots that are held against the gang; none where the plan lets it start nothing. */
  private def openTo(gang: SchedTaskSetManager, offers: IndexedSeq[WorkerOffer]): IndexedSeq[WorkerOffer] = {
    val left = groups.leave(gang)
    offers.map(o => scheduler.slots.atMost(o, if (left) enforcement.openTo(gang, o.executorId, scheduler.slots.free(o)) else 0))
  }

  private def leftOf(offers: IndexedSeq[WorkerOffer], taken: Placed): IndexedSeq[WorkerOffer] = {
    val byExecutor = taken.flatten.groupBy(_.executorId)
    offers.map(o => byExecutor.get(o.executorId).fold(o)(tasks => o.copy(cores = o.cores - tasks.map(_.cpus).sum)))
  }

  /** Whether a task of the task set may take its slots of the executor, beside `pending` ones that only it knows of. */
  def mayTake(manager: SchedTaskSetManager, executor: String, pending: => Int): Boolean =
    (if (groups.isEmpty || !scheduler.enforcing) PipelinedGroups.Usual else groups.decide(manager, executor, pending)) match {
      case PipelinedGroups.Goes => true
      case PipelinedGroups.Waits => false
      case PipelinedGroups.Usual => mayTakeOtherwise(manager, executor, pending)
    }

  private def mayTakeOtherwise(manager: SchedTaskSetManager, executor: String, pending: => Int): Boolean = {
    val verdict = enforcement.decide(manager, executor, pending)
    if (verdict eq Verdict.Held) {
      refused += manager
      refusedOn += executor
    }
    if (verdict eq Verdict.AtCeiling) atCeilings ++= topQueue(manager.job)
    if (idleSlots.isDefined) {
      val byQueue = (verdict eq Verdict.AtCeiling) || (verdict eq Verdict.NotAdmitted) || (verdict eq Verdict.OthersTurn)
      if (verdict.may || byQueue || (verdict eq Verdict.Held)) refusedByPlan -= manager -> executor // The plan allows it spare slots.
      else refusedByPlan += manager -> executor
    }
    verdict.may
  }

  /**
   * Whether a task set may now take a slot that it was refused in this round, so that the slot must be offered again.
   *
   * Not twice without a launch: Spark may offer no slots of an executor that is about to go, and would be asked for ever.
   *
   * @param launched whether this round started a task
   */
  def offersAgain(launched: Boolean): Boolean = {
    val wanted = someMayTakeNow || (enforcement.spareWanted && enforcement.lacksSpare && ledger.anyIdle && {
      val idle = registry.executors.idle
      enforcement.sparesAgain(
        idle.iterator.map { case (e, slots) => e.profile -> slots }, mayUse(idle.map { case (e, _) => e.executor -> e.host }))
    })
    val again = (wanted || groups.released()) && (launched || !askedInVain)
    askedInVain = again && !launched
    again
  }

  /** Whether a task set may take a slot now that is free and was refused to it. */
  private def someMayTakeNow: Boolean = {
    // Mostly nothing happened that could have changed an answer, except for gangs, of which some tasks had been promised slots.
    val unchanged = yieldsBefore.isDefined && ledger.yields == yieldsBefore
    refused.indices.exists { i =>
      val (m, executor) = (refused(i), refusedOn(i))
      (!unchanged || m.isBarrier) && m.waitingTasks > 0 && ledger.mayLaunch(m.job, executor, slots = m.slotsPerTask) &&
        enforcement.planned(m).may && ledger.freeOn(executor) > 0
    }
  }

  /** Whether a task set waits whose queue may take held slots of another one, on executors that were not offered to it lately. */
  def lacksHeldSlots: Boolean = enforcement.lacksHeldSlots(ours.iterator)

  /** Breaks a cycle of jobs that wait for each other's held slots: the youngest one releases its own. Returns whether one did. */
  def breakGangCycles(): Boolean = ledger.heldSlots > 0 && gangs.size > 1 && {
    val waiting = gangs.iterator.filter(_.waitsAsGang).map { gang =>
      val inQueues = records.queues.fold(Set.empty[String])(_.heldUpBy(gang.job, gang.atOnce, ledger.isSafe(_, gang.job)))
      WaitingGang(gang.job, registry.arrival(gang.job), ledger.heldUpBy(gang.job, gang.atOnce) ++ inQueues)
    }.toList
    val youngest = GangCycle.youngest(waiting)
    youngest.foreach(ledger.giveWay(_, nowMs))
    youngest.isDefined
  }

  /**
   * Task sets without those that may use none of these executors, after too many failures there: they wait for other ones. The first
   * ones claim the room of their queues, so that there the order counts.
   */
  private def mayUse(idle: Seq[(String, String)]): Iterable[SchedTaskSetManager] =
    (if (records.queues.isEmpty) ours else ours(queue().iterator)).filterNot(m => idle.forall { case (executor, host) => m.isExcludedFrom(executor, host) })

  /** Offers the remaining slots to task sets that may only take spare ones. */
  private def spareOffers(offers: IndexedSeq[WorkerOffer], taken: Placed)(place: IndexedSeq[WorkerOffer] => Placed): Placed = {
    val left = scheduler.failOpen("offers", IndexedSeq.empty[WorkerOffer]) {
      val left = leftOf(offers, taken)
      // Without any slot nothing can start.
      if (left.forall(_.cores <= 0)) IndexedSeq.empty[WorkerOffer]
      else {
        val open = openOf(left).toList
        enforcement.beginSpare(
          open.iterator.map { case (o, slots) => o.resourceProfileId -> slots },
          mayUse(open.iterator.collect { case (o, slots) if slots > 0 => o.executorId -> o.host }.toList))
        left
      }
    }
    if (left.isEmpty) Nil
    else try place(left) finally enforcement.endSpare()
  }

  /** To task sets that could not take these slots before; to all, if a hold went since the round began. */
  private def onlySpare(place: Place)(left: IndexedSeq[WorkerOffer]): Placed = {
    if (gangs.isEmpty && yieldsBefore.isDefined && ledger.yields == yieldsBefore) offered = Some {
      case ours: SchedTaskSetManager => enforcement.takesSpare(ours)
      case _ => true
    }
    try place(left, false) finally offered = None
  }

  /**
   * The task set that Spark's FAIR order of pools gives the next slot, if the plan has no start for any job of that pool.
   *
   * Weights and minimum shares are the administrator's, and a plan divides what each pool gets.
   */
  private def owedByPools: Option[SchedTaskSetManager] =
    if (!plans.starts.active || scheduler.schedulingMode != SchedulingMode.FAIR) None
    else {
      val waiting = queue().iterator.collect { case m: SchedTaskSetManager if m.waitingTasks > 0 => m }.toList
      val first = waiting.headOption.toList.flatMap(head => waiting.filter(_.parent eq head.parent))
      def starts(m: SchedTaskSetManager) = plans.starts.of(m.job, nowMs)
      if (first.size == waiting.size || first.exists(starts(_) == Start.Now)) None
      else first.find(starts(_) != Start.Evicted)
    }

  /** Slots of the executors, and which waiting tasks may take them, by the resource profile of both. */
  def demands(atMs: Long): Map[Int, SlotDemand] =
    ours.groupBy(_.place.executorProfile)
      .map { case (profile, sets) => profile -> demand(profile, sets, atMs) }

  /**
   * The same, without profiles of which Spark wants one more executor whatever idles: no present one may run some task set
   * of theirs, and without another one Spark aborts it.
   */
  def cappedDemands(atMs: Long): Map[Int, SlotDemand] =
    demands(atMs) -- scheduler.unschedulableTaskSetToExpiryTime.keysIterator.collect { case m: SchedTaskSetManager => m.executorProfile }

  private def demand(profile: Int, sets: Iterable[SchedTaskSetManager], atMs: Long): SlotDemand = {
    val executors = registry.executors.withProfile(profile).toList
    val (deferred, startable) = sets.partition { m =>
      plans.starts.active && (plans.starts.of(m.job, atMs) match {
        case Start.Planned | Start.Unplanned | Start.Evicted => true
        case Start.Now | Start.Spare => false
      })
    }
    SlotDemand(
      executors.size, executors.map(_.slots).sum, executors.map(e => ledger.idleOn(e.executor)).sum,
      startable.map(_.waitingSlots).sum, deferred.map(_.waitingSlots).sum)
  }

  /** Slots that a job's tasks wait for and that its queue leaves it, by the resource profile of the executors that they may use. */
  def waitingSlots(job: String): Map[Int, Int] = {
    val room = enforcement.room(job)
    cuts.setsOf(job).filterNot(_.isZombie).groupMapReduce(_.executorProfile)(_.waitingSlots)(_ + _)
      .map { case (profile, slots) => profile -> math.min(slots, room) }
  }

  /** Idle slots that the job's waiting tasks may take of executors of this resource profile, as many as whole tasks need. */
  def openSlots(job: String, profile: Int): Int = {
    val perTask = cuts.setsOf(job).iterator.filter(m => m.executorProfile == profile && m.waitingTasks > 0).map(_.slotsPerTask).minOption
    perTask.fold(0)(n => registry.executors.idle.iterator.collect { case (e, slots) if e.profile == profile => slots / n * n }.sum)
  }

  /** Slots that waiting tasks may take as far as ceilings go, by tenants' queue and resource profile, but for barrier stages. */
  def wantedByQueue: Seq[((String, Int), Int)] = records.queues.toList.flatMap { q =>
    ours.iterator.filter(m => m.waitingTasks > 0 && !m.waitsAsGang).toList
      .flatMap(m => q.queueOf(m.job).map(queue => (queue, m.executorProfile) -> math.min(m.waitingSlots, enforcement.room(m.job))))
      .groupMapReduce(_._1)(_._2)(_ + _).toList
  }

  def launched(manager: SchedTaskSetManager, info: TaskInfo): Unit = {
    groups.launched(manager, info.index, info.executorId)
    enforcement.launched(manager)
  }

  /** A number that stays the same while no rank changes; None: ranks change with each launch. */
  def ranksAt: Option[Long] = enforcement.ranksAt

  def rank(manager: TaskSetManager): OfferRank = manager match {
    case ours: SchedTaskSetManager => enforcement.rank(ours)
    case _ => OfferRank.NoJob
  }

  /** The task set of an active stage. */
  def taskSetOf(stage: String): Option[SchedTaskSetManager] = ofStage.get(stage)

  private def ours: Iterable[SchedTaskSetManager] = ours(sets())
  private def ours(among: Iterator[TaskSetManager]): Iterable[SchedTaskSetManager] = among.collect { case m: SchedTaskSetManager => m }.toList

  /** Contradictions in the ledger, and which slots a checked round kept from somebody for no reason, in sentences. */
  def violations(offers: IndexedSeq[WorkerOffer], placed: Placed): Seq[String] =
    idleSlots.fold(Seq.empty[String])(check => ledger.violations() ++ stalled(check, offers, placed))

  private def stalled(check: IdleSlotCheck, offers: IndexedSeq[WorkerOffer], placed: Placed): Seq[String] = if (!scheduler.enforcing) {
    check.forget()
    Nil
  } else {
    val idleOn = leftOf(offers, placed).iterator.map(o => o.executorId -> (scheduler.slots.free(o) - ledger.heldOn(o.executorId)))
      .filter(_._2 > 0).toMap
    val waiting = queue().iterator.collect { case m: SchedTaskSetManager if m.waitingTasks > 0 => m }.toList
    val refused = waiting.filter(m => refusedByPlan.exists { case (who, executor) => (who eq m) && idleOn.contains(executor) })
    check(idleOn.valuesIterator.sum, refused, waiting, nowMs)
  }
}

private[sparksched] object OfferRound {
  /** What was launched, by offer. */
  type Placed = Seq[Seq[TaskDescription]]
  type Place = (IndexedSeq[WorkerOffer], Boolean) => Placed

  /** Task sets that are offered slots together: a gang by itself, those that choose fast executors, others. */
  private sealed trait Kind
  private case object Gang extends Kind
  private case object Fast extends Kind
  private case object Other extends Kind
  private final case class Turn(kind: Kind, sets: mutable.ArrayBuffer[TaskSetManager])
}
