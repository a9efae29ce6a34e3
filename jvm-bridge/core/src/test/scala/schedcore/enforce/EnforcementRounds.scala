package schedcore
package enforce

import com.fasterxml.jackson.databind.JsonNode
import schedcore.ledger.{CopyAge, Ledger, LedgerListener, Rule}
import schedcore.plan.{Plan, PlanInForce, QueueSlots}
import scala.collection.mutable
import scala.jdk.CollectionConverters._

/** Plays steps written as data on enforcement and ledger; `Rounds` in `tools/enforcement_walk.py` is its twin. */
final class EnforcementRounds(patienceMs: Long) {

  private final case class Job(own: Rule, arrival: Int)

  private final class Tasks(step: JsonNode) extends WaitingSet {
    val stage: String = step.required("stage").asText
    val job: String = step.required("job").asText
    val index: Int = step.required("index").asInt
    val numTasks: Int = step.required("tasks").asInt
    val slotsPerTask: Int = step.required("slots_per_task").asInt
    val gang: Boolean = step.required("gang").asBoolean
    val restartable: Boolean = step.required("restartable").asBoolean
    val pending: mutable.SortedSet[Int] = mutable.SortedSet.from(0 until numTasks)
    val done = mutable.BitSet.empty
    var running = 0
    val gate = new PilotGate(numTasks)

    def jobPriority: Int = ledger.ruleOf(job).fold(0)(_.priority)
    def jobArrival: Int = jobs.get(job).fold(Int.MaxValue)(_.arrival)
    def executorProfile: Int = 0
    def waitsAsGang: Boolean = gang && running == 0 && done.size < numTasks
    def pilotsFirst: Boolean = !gang && gate.closed
    def idlePilots: IndexedSeq[Int] = gate.waiting.filter(pending)
    def waitingTasks: Int = if (pilotsFirst) idlePilots.size else pending.size
  }

  private final case class Task(set: Tasks, index: Int, executor: String, startMs: Long)

  private val ledger = new Ledger(new LedgerListener {
    def slotHeld(job: String, stage: String, executor: String, deadlineMs: Long, nowMs: Long): Unit = ()
    def slotFreed(job: String, executor: String, reason: String, nowMs: Long): Unit = ()
  })
  private val plans = new PlanInForce(patienceMs)
  private val enforcement = new Enforcement(ledger, plans)
  private val executors = mutable.LinkedHashMap.empty[String, Int]
  private val jobs = mutable.LinkedHashMap.empty[String, Job]
  private val sets = mutable.LinkedHashMap.empty[String, Tasks]
  private val running = mutable.LinkedHashMap.empty[Long, Task]
  private var version = 0L
  private var tasks = 0L
  private val told = mutable.ArrayBuffer.empty[String]

  /** Does one step. Returns what was decided, in order, each decision as JSON. */
  def run(step: JsonNode): Seq[String] = {
    told.clear()
    def text(field: String): String = step.required(field).asText
    def int(field: String): Int = step.required(field).asInt
    def now: Long = step.required("now_ms").asLong
    text("op") match {
      case "executor" =>
        executors(text("executor")) = int("slots")
        ledger.executorAdded(text("executor"), int("slots"))
      case "job" =>
        val own = EnforcementRounds.Base.copy(priority = int("priority"), isolation = step.required("isolation").asDouble)
        jobs(text("job")) = Job(own, jobs.size + 1)
        ledger.jobStarted(text("job"), marked = false, ruleOf(text("job")))
        ledger.jobRanked(text("job"), plans.rank(text("job")), jobs(text("job")).arrival)
      case "stage" =>
        val set = new Tasks(step)
        sets(set.stage) = set
        ledger.stageStarted(
          set.job, set.stage, set.index, set.numTasks, Option(step.required("next_tasks")).filterNot(_.isNull).map(_.asInt),
          last = false, barrier = set.gang, now, set.slotsPerTask, set.restartable)
        putPilots(set)
      case "plan" => putPlan(step.required("plan"), now)
      case "end" => over(step.required("task").asLong, step.required("success").asBoolean, now)
      case "job_end" =>
        plans.starts.jobEnded(text("job"))
        ledger.jobEnded(text("job"), now)
        jobs -= text("job")
      case "round" => round(now)
    }
    told.toSeq
  }

  def violations: Seq[String] = ledger.violations()

  private def tell(decision: String): Unit = told += decision

  private def ruleOf(job: String): Rule = plans.forJob(job).fold(jobs(job).own)(_.over(jobs(job).own))

  private def putPlan(json: JsonNode, nowMs: Long): Unit = {
    val plan = if (json.isNull) None else Plan.parse(json.toString).fold(r => throw new AssertionError(r.sentence), Some(_))
    plans.put(plan)
    jobs.foreach { case (job, known) =>
      ledger.ruleChanged(job, ruleOf(job), nowMs)
      ledger.jobRanked(job, plans.rank(job), known.arrival)
    }
    sets.valuesIterator.foreach(putPilots)
    if (!json.isNull) json.required("jobs").elements().asScala.map(_.required("job").asText).filter(plans.forJob(_).exists(_.evict))
      .foreach { job =>
        val theirs = running.iterator.collect { case (task, t) if t.set.job == job => task -> t.set.restartable }.toSeq
        Enforcement.victims(theirs).foreach { task =>
          tell(s"""["evict",$task]""")
          over(task, success = false, nowMs)
        }
      }
    plans.preemptions.foreach { case (job, victims) => preempt(job, victims, nowMs) }
  }

  private def preempt(job: String, named: Seq[Long], nowMs: Long): Unit = {
    val waiting = sets.valuesIterator.filter(_.job == job).map(_.waitingSlots).sum
    def attempt(task: Long) =
      running.get(task).map(t => RunningAttempt(t.set.jobPriority, t.set.restartable, t.set.slotsPerTask, 0))
    val priority = ledger.ruleOf(job).fold(0)(_.priority)
    Enforcement.preempted(named, priority, Map(0 -> waiting), attempt).foreach { task =>
      tell(s"""["evict",$task]""")
      over(task, success = false, nowMs)
    }
  }

  private def putPilots(set: Tasks): Unit = set.gate.put(plans.pilots(set.job, set.index))

  private def over(number: Long, success: Boolean, nowMs: Long): Unit = {
    val task = running.remove(number).get
    version += 1
    task.set.running -= 1
    plans.attemptEnded(task.set.job, nowMs - task.startMs, nowMs)
    ledger.taskEnded(number, success, nowMs)
    task.set.gate.ended(task.index)
    if (success) {
      task.set.done += task.index
      if (task.set.done.size == task.set.numTasks) sets -= task.set.stage
    } else task.set.pending += task.index
  }

  // ---- a round -----------------------------------------------------------------------------------------------

  private def round(nowMs: Long): Unit = {
    ledger.expire(nowMs)
    val slots = running.valuesIterator.toSeq.groupMapReduce(_.set.job)(_.set.slotsPerTask)(_ + _)
    enforcement.begin(new QueueSlots(plans).turns(slots.iterator), nowMs)
    pass(nowMs)
    if (enforcement.spareWanted) {
      enforcement.beginSpare(open, sets.values)
      pass(nowMs)
      enforcement.endSpare()
    }
    if (enforcement.sparesAgain(open, sets.values)) tell("""["again"]""")
  }

  private def open: Iterator[(Int, Int)] = executors.keysIterator.map(e => 0 -> ledger.idleOn(e))

  private def pass(nowMs: Long): Unit = {
    val inOrder = sets.values.toSeq.map(set => enforcement.rank(set) -> set)
      .sortBy { case (r, _) => (r.priority, r.turn, r.place, r.arrival) }.map(_._2)
    inOrder.foreach { set =>
      if (!set.waitsAsGang || fits(set)) offers(set).foreach { case (executor, slots) => offer(set, executor, slots, nowMs) }
    }
  }

  /** Executors in the order in which the task set is offered their slots, with how many at most. */
  private def offers(set: Tasks): Seq[(String, Int)] = {
    val all = executors.keys.toSeq
    if (plans.differ(all) && enforcement.choosesFast(set))
      enforcement.fastestFirst(Seq(set), all).flatten.map { case (e, most) => e -> most.getOrElse(executors(e)) }
    else all.sortBy(ledger.heldOn(_) == 0).map(e => e -> executors(e))
  }

  private def offer(set: Tasks, executor: String, most: Int, nowMs: Long): Unit = {
    var more = true
    var slots = most
    while (more && math.min(slots, ledger.freeOn(executor)) >= set.slotsPerTask && set.pending.nonEmpty) {
      val verdict = enforcement.decide(set, executor)
      slots -= set.slotsPerTask
      if (verdict.may) launch(set, next(set), executor, verdict, nowMs) else refuse(set, verdict.reason)
      more = verdict.may
    }
  }

  private def next(set: Tasks): Int = if (set.pilotsFirst && !enforcement.givesSpare) set.idlePilots.head else set.pending.head

  private def fits(gang: Tasks): Boolean = {
    val verdict = enforcement.planned(gang)
    def room = executors.keysIterator
      .map(e => math.max(0, enforcement.openTo(gang, e, ledger.freeOn(e))) / gang.slotsPerTask).sum
    if (!verdict.may) refuse(gang, verdict.reason)
    else if (room < gang.numTasks) tell(s"""["refuse","${gang.stage}","too few slots for all its tasks"]""")
    verdict.may && room >= gang.numTasks
  }

  /** Once for all executors. */
  private def refuse(set: Tasks, reason: String): Unit = {
    val decision = s"""["refuse","${set.stage}","$reason"]"""
    if (!told.contains(decision)) tell(decision)
  }

  private def launch(set: Tasks, index: Int, executor: String, verdict: Verdict, nowMs: Long): Unit = {
    tasks += 1
    version += 1
    running(tasks) = Task(set, index, executor, nowMs)
    set.pending -= index
    set.running += 1
    enforcement.launched(set)
    ledger.taskLaunched(tasks, set.stage, index, executor, copy = false, nowMs)
    plans.starts.launched(set.job, version, set.slotsPerTask)
    tell(s"""["launch","${set.stage}",$index,"$executor","${verdict.reason}"]""")
  }
}

object EnforcementRounds {
  /** `BASE` in `tools/enforcement_walk.py`. */
  val Base: Rule = Rule(
    priority = 0, isolation = 1.0, preReserveThreshold = 0.5, shape = 1.6, shapeWeight = 5.0, scaleMs = None, maxHoldMs = 60000,
    gapMs = 2000, copies = false, copyAge = CopyAge(100, 1.5), wholeJob = false)
}
