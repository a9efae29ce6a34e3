package schedcore
package ledger

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import com.fasterxml.jackson.databind.node.ObjectNode
import scala.collection.mutable
import scala.jdk.CollectionConverters._

/** Runs ledger operations written as data; `tools/ledger_steps.py` is its twin. */
final class LedgerSteps(rules: collection.Map[String, Rule], limits: IdleLimits = IdleLimits.Unbounded, seed: Long = 0) {
  private val mapper = new ObjectMapper()
  private val told = mutable.ArrayBuffer.empty[JsonNode]

  val ledger = new Ledger(new LedgerListener {
    def slotHeld(job: String, stage: String, executor: String, deadlineMs: Long, nowMs: Long): Unit =
      told += mapper.createArrayNode().add("held").add(job).add(stage).add(executor).add(deadlineMs)
    def slotFreed(job: String, executor: String, reason: String, nowMs: Long): Unit =
      told += mapper.createArrayNode().add("freed").add(job).add(executor).add(reason)
  }, limits, seed)

  /** Of a step at which the ledger called nobody. */
  def nothing: JsonNode = mapper.createArrayNode()

  /** What the step did, under the names that `expect` uses. */
  def run(step: JsonNode): ObjectNode = {
    told.clear()
    val outcome = mapper.createObjectNode()
    def text(field: String): String = step.required(field).asText
    def int(field: String): Int = step.required(field).asInt
    def flag(field: String): Boolean = step.required(field).asBoolean
    def now: Long = step.required("now_ms").asLong
    def rule: Rule = rules(text("rule"))
    text("op") match {
      case "executor_added" => ledger.executorAdded(text("executor"), int("slots"), step.path("profile").asInt(0))
      case "observe_free" => ledger.observeFree(text("executor"), int("free"), now)
      case "executor_draining" => ledger.executorDraining(text("executor"), now)
      case "executor_excluded" => ledger.executorExcluded(text("executor"), now)
      case "executor_removed" => ledger.executorRemoved(text("executor"), now)
      case "job_started" => ledger.jobStarted(text("job"), flag("marked"), rule)
      case "job_ranked" => ledger.jobRanked(text("job"), int("rank"), int("arrival"))
      case "rule_changed" => ledger.ruleChanged(text("job"), rule, now)
      case "job_ended" => ledger.jobEnded(text("job"), now)
      case "stage_started" =>
        ledger.stageStarted(
          text("job"), text("stage"), int("index"), int("tasks"),
          Option(step.required("next_tasks")).filterNot(_.isNull).map(_.asInt), flag("last"), flag("barrier"), now,
          step.path("slots_per_task").asInt(1), step.path("restartable").asBoolean(true),
          step.path("vertex").asText(""),
          step.path("successors").elements().asScala.map { s =>
            NextStage(s.get(0).asText, s.get(1).asInt, s.get(2).asBoolean,
              Option(s.get(3)).map(t => TaskShape(t.get(0).asInt, t.get(1).asInt, t.get(2).asInt)))
          }.toSeq,
          Option(step.get("next_at_most")).map(_.asInt), step.path("profile").asInt(0),
          step.path("kill_ms").asLong(0), Option(step.get("writes")).map(_.asText),
          step.path("reads").elements().asScala.map(_.asText).toSet)
      case "next_learned" =>
        ledger.nextLearned(
          text("stage"), text("vertex"), Option(step.required("slots")).filterNot(_.isNull).map(_.asInt), flag("ready"), now,
          step.path("inputs").elements().asScala.map(_.asText).toSeq)
      case "last_learned" => ledger.lastLearned(text("stage"), flag("last"), now)
      case "action_failed" => ledger.actionFailed(text("job"), now)
      case "stage_ended" => ledger.stageEnded(text("stage"), now)
      case "may_launch" =>
        outcome.put("answer", ledger.mayLaunch(text("job"), text("executor"), int("already_taken"), step.path("slots").asInt(1)))
      case "refused_on" => outcome.put("answer", ledger.refusedOn(text("executor"), text("job")))
      case "held_up_by" => ledger.heldUpBy(text("job"), int("slots")).toSeq.sorted.foldLeft(outcome.putArray("answer"))(_.add(_))
      case "give_way" => ledger.giveWay(text("job"), now)
      case "task_launched" =>
        ledger.taskLaunched(int("task"), text("stage"), int("index"), text("executor"), flag("copy"), now)
      case "task_ended" =>
        val decision = ledger.taskEnded(int("task"), flag("success"), now)
        outcome.put("keep", decision.keep).put("reason", decision.reason)
      case "task_done_elsewhere" => ledger.taskDoneElsewhere(text("stage"), int("index"), now)
      case "task_undone" => ledger.taskUndone(text("stage"), int("index"), now)
      case "wants_copies" => outcome.put("answer", ledger.wantsCopies(text("stage"), now))
      case "any_copies_due" => outcome.put("answer", ledger.anyCopiesDue(now))
      case "pick_copy" =>
        ledger.pickCopy(text("stage"), text("executor"), now).fold(outcome.putNull("answer"))(outcome.put("answer", _))
      case "expire" => outcome.put("answer", ledger.expire(now))
      case "next_wake" => ledger.nextWakeMs(now).fold(outcome.putNull("answer"))(outcome.put("answer", _))
      case "look" =>
      case other => throw new IllegalArgumentException(s"no operation $other")
    }
    outcome.set[JsonNode]("told", mapper.createArrayNode().addAll(told.asJava))
    val holds = outcome.putObject("holds")
    val deadlines = outcome.putObject("deadlines")
    ledger.holds.foreach { case (job, executor, slots, deadlineMs) =>
      holds.withObjectProperty(executor).put(job, slots)
      deadlines.put(job, deadlineMs)
    }
    val c = ledger.counters
    outcome.putObject("counters")
      .put("holds", c.holds).put("holds_used", c.holdsUsed).put("holds_expired", c.holdsExpired)
      .put("holds_over_budget", c.holdsOverBudget).put("holds_given_way", c.holdsGivenWay)
      .put("holds_overridden", c.holdsOverridden).put("pre_reserved", c.preReserved)
      .put("copies_launched", c.copiesLaunched).put("copies_won", c.copiesWon)
      .put("copies_wasted_ms", c.copiesWastedMs).put("held_idle_slot_ms", c.heldIdleSlotMs)
      .put("predicted_idle_slot_ms", c.predictedIdleSlotMs)
    if (step.has("now_ms")) {
      outcome.put("held_idle_ms", ledger.heldIdleMs(now)).put("idle_cost_ms", ledger.idleCostMs(now))
      val costs = outcome.putObject("job_idle_costs_ms")
      def jobs(field: String) = step.path("expect").path(field).fieldNames.asScala
      jobs("job_idle_costs_ms").foreach(j => costs.put(j, ledger.idleCostMs(j, now)))
      val held = outcome.putObject("job_held_idle_ms")
      jobs("job_held_idle_ms").foreach(j => held.put(j, ledger.heldIdleMs(j, now)))
      val predicted = outcome.putObject("job_predicted_idle_ms")
      jobs("job_predicted_idle_ms").foreach(j => predicted.put(j, ledger.predictedIdleMs(j)))
    }
    // Through text and back, so that numbers are of one type as in a file.
    mapper.readTree(mapper.writeValueAsString(outcome)).asInstanceOf[ObjectNode]
  }
}

object LedgerSteps {

  /** The named rules of a golden file: its base rule with what each changes. */
  def rules(document: JsonNode): Map[String, Rule] = {
    val base = document.required("base_rule")
    document.required("rules").properties().asScala.map { named =>
      named.getKey -> rule(base.deepCopy[ObjectNode]().setAll[ObjectNode](named.getValue.asInstanceOf[ObjectNode]))
    }.toMap
  }

  /** What holding between actions may cost; a file that does not say bounds nothing. */
  def limits(document: JsonNode): IdleLimits = Option(document.get("idle_limits")).fold(IdleLimits.Unbounded)(limitsOf)

  /** A file from before there was a cost of waiting has none. */
  def limitsOf(l: JsonNode): IdleLimits = IdleLimits(
    l.required("job_share").asDouble, l.required("share").asDouble, l.required("burst_ms").asLong,
    l.path("waiting_cost").asDouble(1.0))

  def pool(fields: JsonNode): Option[PoolShare] = Option.when(fields.isObject)(PoolShare(
    fields.required("name").asText, fields.required("weight").asDouble, fields.required("min_share").asDouble,
    fields.path("fair").asBoolean(false)))

  def rule(fields: JsonNode): Rule = Rule(
    priority = fields.required("priority").asInt,
    isolation = fields.required("isolation").asDouble,
    preReserveThreshold = fields.required("pre_reserve_threshold").asDouble,
    shape = fields.required("shape").asDouble,
    shapeWeight = fields.required("shape_weight").asDouble,
    scaleMs = Option(fields.required("scale_ms")).filterNot(_.isNull).map(_.asDouble),
    maxHoldMs = fields.required("max_hold_ms").asLong,
    gapMs = fields.required("gap_ms").asLong,
    copies = fields.required("copies").asBoolean,
    copyAge = CopyAge(fields.required("copy_min_task_ms").asLong, fields.required("copy_min_slowdown").asDouble),
    wholeJob = fields.required("whole_job").asBoolean,
    stageTasks = fields.required("stage_tasks").elements().asScala.map(_.asInt).toIndexedSeq,
    // Later than the others: a file without it means what it did before.
    firstGapMs = Option(fields.get("first_gap_ms")).filterNot(_.isNull).map(_.asLong),
    pool = pool(fields.path("pool")),
    deadline = Option(fields.get("deadline")).fold(Rule.ParetoForm)(_.asText))
}
