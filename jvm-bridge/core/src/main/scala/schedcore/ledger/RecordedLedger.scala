package schedcore
package ledger

import java.io.{BufferedWriter, Closeable}
import java.nio.file.{Files, Path}

import com.fasterxml.jackson.databind.ObjectMapper
import com.fasterxml.jackson.databind.node.{ArrayNode, ObjectNode}

/**
 * A ledger that writes down each of its steps, for tests: the operation, its arguments, its answer, the listener's calls and, if
 * it changed, the state after it. The simulator's ledger replays the file (`tools/ledger_replay.py`).
 *
 * The first line has the seed and the budgets. Each other line is a step of `tools/ledger_steps.py`, or the fields of a rule that
 * later steps call by its job. It keeps nothing in memory that the ledger does not keep.
 */
final class RecordedLedger private (calls: RecordedLedger.Calls, idle: IdleLimits, seed: Long, file: Path)
    extends Ledger(calls, idle, seed) with Closeable {
  import RecordedLedger._

  private val out: BufferedWriter = Files.newBufferedWriter(file)
  private var inside = false // a step may call another one
  private var state = ""

  line(Json.createObjectNode().put("seed", seed).set("idle_limits",
    Json.createObjectNode().put("job_share", idle.jobShare).put("share", idle.share).put("burst_ms", idle.burstMs)
      .put("waiting_cost", idle.waitingCost)))

  override def close(): Unit = out.close()

  // ---- operations --------------------------------------------------------------------------------------------

  override def executorAdded(executor: String, slots: Int, profile: Int): Unit =
    step("executor_added")(_.put("executor", executor).put("slots", slots).put("profile", profile))(
      super.executorAdded(executor, slots, profile))

  override def observeFree(executor: String, free: Int, nowMs: Long): Unit =
    step("observe_free", nowMs)(_.put("executor", executor).put("free", free))(super.observeFree(executor, free, nowMs))

  override def executorDraining(executor: String, nowMs: Long): Unit =
    step("executor_draining", nowMs)(_.put("executor", executor))(super.executorDraining(executor, nowMs))

  override def executorExcluded(executor: String, nowMs: Long): Unit =
    step("executor_excluded", nowMs)(_.put("executor", executor))(super.executorExcluded(executor, nowMs))

  override def executorRemoved(executor: String, nowMs: Long): Unit =
    step("executor_removed", nowMs)(_.put("executor", executor))(super.executorRemoved(executor, nowMs))

  override def jobStarted(job: String, marked: Boolean, rule: Rule): Unit = {
    if (ruleOf(job).isEmpty) define(job, rule)
    step("job_started")(_.put("job", job).put("marked", marked).put("rule", job))(super.jobStarted(job, marked, rule))
  }

  override def jobRanked(job: String, rank: Int, arrival: Int): Unit =
    step("job_ranked")(_.put("job", job).put("rank", rank).put("arrival", arrival))(super.jobRanked(job, rank, arrival))

  override def ruleChanged(job: String, rule: Rule, nowMs: Long): Unit = {
    if (!ruleOf(job).contains(rule)) define(job, rule)
    step("rule_changed", nowMs)(_.put("job", job).put("rule", job))(super.ruleChanged(job, rule, nowMs))
  }

  override def jobEnded(job: String, nowMs: Long): Unit =
    step("job_ended", nowMs)(_.put("job", job))(super.jobEnded(job, nowMs))

  override def stageStarted(
      job: String, stage: String, index: Int, tasks: Int, nextTasks: Option[Int], last: Boolean, barrier: Boolean,
      nowMs: Long, slotsPerTask: Int, restartable: Boolean, vertex: String, successors: Seq[NextStage], nextAtMost: Option[Int],
      profile: Int, killMs: Long, writes: Option[String], reads: Set[String]): Unit =
    step("stage_started", nowMs) { s =>
      s.put("job", job).put("stage", stage).put("index", index).put("tasks", tasks)
      number(s, "next_tasks", nextTasks)
      s.put("last", last).put("barrier", barrier).put("slots_per_task", slotsPerTask).put("restartable", restartable)
      s.put("vertex", vertex).put("profile", profile).put("kill_ms", killMs)
      nextAtMost.foreach(s.put("next_at_most", _))
      writes.foreach(s.put("writes", _))
      val following = s.putArray("successors")
      successors.foreach { n =>
        val next = following.addArray().add(n.vertex).add(n.slots).add(n.ready)
        n.shape.foreach(t => next.addArray().add(t.slots).add(t.least).add(t.profile))
      }
      reads.foldLeft(s.putArray("reads"))(_.add(_))
    }(super.stageStarted(
      job, stage, index, tasks, nextTasks, last, barrier, nowMs, slotsPerTask, restartable, vertex, successors, nextAtMost,
      profile, killMs, writes, reads))

  override def nextLearned(
      stage: String, vertex: String, slots: Option[Int], ready: Boolean, nowMs: Long, inputs: Seq[String]): Unit =
    step("next_learned", nowMs) { s =>
      s.put("stage", stage).put("vertex", vertex).put("ready", ready)
      number(s, "slots", slots)
      inputs.foldLeft(s.putArray("inputs"))(_.add(_))
    }(super.nextLearned(stage, vertex, slots, ready, nowMs, inputs))

  override def lastLearned(stage: String, last: Boolean, nowMs: Long): Unit =
    step("last_learned", nowMs)(_.put("stage", stage).put("last", last))(super.lastLearned(stage, last, nowMs))

  override def stageEnded(stage: String, nowMs: Long): Unit =
    step("stage_ended", nowMs)(_.put("stage", stage))(super.stageEnded(stage, nowMs))

  override def actionFailed(job: String, nowMs: Long): Unit =
    step("action_failed", nowMs)(_.put("job", job))(super.actionFailed(job, nowMs))

  override def giveWay(job: String, nowMs: Long): Unit = step("give_way", nowMs)(_.put("job", job))(super.giveWay(job, nowMs))

  override def giveUp(job: String, nowMs: Long): Unit = step("give_up", nowMs)(_.put("job", job))(super.giveUp(job, nowMs))

  override def taskLaunched(task: Long, stage: String, index: Int, executor: String, copy: Boolean, nowMs: Long): Unit =
    step("task_launched", nowMs)(
      _.put("task", task).put("stage", stage).put("index", index).put("executor", executor).put("copy", copy))(
      super.taskLaunched(task, stage, index, executor, copy, nowMs))

  override def taskEnded(task: Long, success: Boolean, nowMs: Long): Decision =
    answered("task_ended", Some(nowMs))(_.put("task", task).put("success", success))(super.taskEnded(task, success, nowMs))(
      (s, decision) => s.put("answer", decision.keep).put("reason", decision.reason))

  override def taskUndone(stage: String, index: Int, nowMs: Long): Unit =
    step("task_undone", nowMs)(_.put("stage", stage).put("index", index))(super.taskUndone(stage, index, nowMs))

  override def taskDoneElsewhere(stage: String, index: Int, nowMs: Long): Unit =
    step("task_done_elsewhere", nowMs)(_.put("stage", stage).put("index", index))(super.taskDoneElsewhere(stage, index, nowMs))

  override def expire(nowMs: Long): Boolean = answered("expire", Some(nowMs))(s => s)(super.expire(nowMs))(_.put("answer", _))

  // ---- questions ---------------------------------------------------------------------------------------------

  override def mayLaunch(job: String, executor: String, alreadyTaken: Int, slots: Int): Boolean =
    answered("may_launch", None)(
      _.put("job", job).put("executor", executor).put("already_taken", alreadyTaken).put("slots", slots))(
      super.mayLaunch(job, executor, alreadyTaken, slots))(_.put("answer", _))

  override def refusedOn(executor: String, job: String): Int =
    answered("refused_on", None)(_.put("executor", executor).put("job", job))(super.refusedOn(executor, job))(_.put("answer", _))

  override def heldUpBy(job: String, slots: Int): Set[String] =
    answered("held_up_by", None)(_.put("job", job).put("slots", slots))(super.heldUpBy(job, slots))(
      (s, found) => found.toList.sorted.foldLeft(s.putArray("answer"))(_.add(_)))

  override def wantsCopies(stage: String, nowMs: Long): Boolean =
    answered("wants_copies", Some(nowMs))(_.put("stage", stage))(super.wantsCopies(stage, nowMs))(_.put("answer", _))

  override def anyCopiesDue(nowMs: Long): Boolean =
    answered("any_copies_due", Some(nowMs))(s => s)(super.anyCopiesDue(nowMs))(_.put("answer", _))

  override def pickCopy(stage: String, executor: String, nowMs: Long): Option[Int] =
    answered("pick_copy", Some(nowMs))(_.put("stage", stage).put("executor", executor))(super.pickCopy(stage, executor, nowMs))(
      number(_, "answer", _))

  override def nextWakeMs(nowMs: Long): Option[Long] =
    answered("next_wake", Some(nowMs))(s => s)(super.nextWakeMs(nowMs))(
      (s, at) => at.fold(s.putNull("answer"))(s.put("answer", _)))

  // ---- lines -------------------------------------------------------------------------------------------------

  private def step(op: String, nowMs: Long)(arguments: ObjectNode => Any)(run: => Unit): Unit =
    answered(op, Some(nowMs))(arguments)(run)((_, _) => ())

  private def step(op: String)(arguments: ObjectNode => Any)(run: => Unit): Unit =
    answered(op, None)(arguments)(run)((_, _) => ())

  private def answered[A](op: String, nowMs: Option[Long])(arguments: ObjectNode => Any)(run: => A)(
      answer: (ObjectNode, A) => Any): A =
    if (inside) run
    else {
      val line = Json.createObjectNode().put("op", op)
      arguments(line)
      nowMs.foreach(line.put("now_ms", _))
      calls.told = Json.createArrayNode()
      inside = true
      val result = try run finally inside = false
      answer(line, result)
      if (!calls.told.isEmpty) line.set[ObjectNode]("told", calls.told)
      val after = RecordedLedger.stateOf(this, nowMs)
      if (after != state) {
        state = after
        line.put("state", after)
      }
      this.line(line)
      result
    }

  /** What steps call by the job's key from now on. */
  private def define(job: String, rule: Rule): Unit = line(fieldsOf(rule).put("rule", job))

  private def line(fields: Any): Unit = {
    out.write(fields.toString)
    out.newLine()
    out.flush() // An application may end without a word.
  }
}

object RecordedLedger {
  /** The setting, of tests only, that names the file. */
  val Setting = "spark.testing.schedLedgerSteps"

  private val Json = new ObjectMapper()

  /** The ledger of an application: a recorded one if `file` is given. */
  def orPlain(listener: LedgerListener, idle: IdleLimits, seed: Long, file: Option[String]): Ledger =
    file.fold(new Ledger(listener, idle, seed))(name => new RecordedLedger(new Calls(listener), idle, seed, Path.of(name)))

  /** Holds with their deadlines, in order, then what the ledger counts. `tools/ledger_replay.py` writes the same. */
  def stateOf(ledger: Ledger, nowMs: Option[Long]): String = {
    val c = ledger.counters
    val holds = ledger.holds.map { case (job, executor, slots, deadlineMs) => s"$job on $executor: $slots until $deadlineMs" }
    val counts = Seq(
      c.holds, c.holdsUsed, c.holdsExpired, c.holdsOverridden, c.holdsGivenWay, c.holdsOverBudget, c.preReserved,
      c.copiesLaunched, c.copiesWon, c.copiesWastedMs, c.predictedIdleSlotMs)
    val times = nowMs.fold(Seq.empty[Long])(at => Seq(ledger.heldIdleMs(at), ledger.idleCostMs(at)))
    (holds ++ Seq(counts.mkString(" "), times.mkString(" "))).mkString("; ")
  }

  private def number(to: ObjectNode, name: String, value: Option[Int]): Unit = value.fold(to.putNull(name))(to.put(name, _))

  private def fieldsOf(rule: Rule): ObjectNode = {
    val line = Json.createObjectNode()
    val fields = line.putObject("fields")
    fields.put("priority", rule.priority).put("isolation", rule.isolation)
      .put("pre_reserve_threshold", rule.preReserveThreshold).put("shape", rule.shape).put("shape_weight", rule.shapeWeight)
      .put("max_hold_ms", rule.maxHoldMs).put("gap_ms", rule.gapMs).put("copies", rule.copies)
      .put("copy_min_task_ms", rule.copyAge.minTaskMs).put("copy_min_slowdown", rule.copyAge.minSlowdown)
      .put("whole_job", rule.wholeJob).put("deadline", rule.deadline)
    rule.scaleMs.fold(fields.putNull("scale_ms"))(fields.put("scale_ms", _))
    rule.firstGapMs.fold(fields.putNull("first_gap_ms"))(fields.put("first_gap_ms", _))
    rule.stageTasks.foldLeft(fields.putArray("stage_tasks"))(_.add(_))
    rule.pool.fold[Any](fields.putNull("pool"))(p => fields.putObject("pool")
      .put("name", p.name).put("weight", p.weight).put("min_share", p.minShare).put("fair", p.fair))
    line
  }

  /** Passes the ledger's calls on and notes them. */
  private final class Calls(listener: LedgerListener) extends LedgerListener {
    var told: ArrayNode = Json.createArrayNode()

    override def slotHeld(job: String, stage: String, executor: String, deadlineMs: Long, nowMs: Long): Unit = {
      told.addArray().add("held").add(job).add(stage).add(executor).add(deadlineMs)
      listener.slotHeld(job, stage, executor, deadlineMs, nowMs)
    }

    override def slotFreed(job: String, executor: String, reason: String, nowMs: Long): Unit = {
      told.addArray().add("freed").add(job).add(executor).add(reason)
      listener.slotFreed(job, executor, reason, nowMs)
    }
  }
}
