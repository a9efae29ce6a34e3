package schedcore
package status

import com.fasterxml.jackson.databind.ObjectMapper
import com.fasterxml.jackson.databind.node.{ArrayNode, ObjectNode}
import schedcore.plan.{EndForecast, Plan}
import schedcore.settings.Modes

/**
 * @param scheduling whether this project's scheduling is in force: it is not after a failure of its own code
 * @param keptFreeSlots free slots that nobody holds and that the plan keeps from tasks that wait
 */
final case class ApplicationFacts(
    id: String, name: String, user: String, startedMs: Long, scheduling: Boolean, executors: Int, slots: Int,
    runningSlots: Int, heldSlots: Int, keptFreeSlots: Int = 0)

/** @param silentMs time since its last call; None: it has not called since its start */
final case class PlannerFacts(enabled: Boolean, pid: Option[Long], silentMs: Option[Long], restarts: Long, stalls: Long) {
  def alive: Boolean = pid.isDefined && silentMs.isDefined
}

/**
 * The planner's plans, accepted and refused.
 *
 * @param configured the policy that the settings name, or that an operator switched to
 * @param inForce None: the configured rules apply
 * @param lastMadeMs when the newest plan that was accepted was made
 */
final case class PlanFacts(
    configured: String, inForce: Option[Plan], lastMadeMs: Option[Long], accepted: Long, rejected: Long, fallbacks: Long)

/**
 * What every view of a live application shows: `protocol/status.schema.json`.
 *
 * @param jobs those that are not over, in the order of their arrival
 * @param stories what happened to jobs, by their key; only where one job is asked for
 * @param executors in the order of their first offers
 * @param whys by a job's key what [[Why]] says of it; empty where nobody reads it
 * @param classes sums over the jobs of each class
 * @param users likewise of each user
 * @param reservationsPaused whether an operator lets no job hold slots
 * @param mode one of [[Modes]]
 * @param warnings sentences about the application that people must know
 */
final case class StatusDocument(
    nowMs: Long, application: ApplicationFacts, planner: PlannerFacts, plans: PlanFacts, jobs: Seq[JobFacts],
    stories: Map[String, Seq[StoryEntry]] = Map.empty, executors: Seq[ExecutorFacts] = Nil,
    counters: Map[String, Long] = Map.empty, classes: Map[String, ClassFigures] = Map.empty, reservationsPaused: Boolean = false,
    mode: String = Modes.On, users: Map[String, ClassFigures] = Map.empty,
    whys: Map[String, String] = Map.empty, queues: Seq[QueueFigures] = Nil,
    warnings: Seq[String] = Nil) {

  def toJson: String = toNode.toString

  def toNode: ObjectNode = {
    val root = StatusDocument.mapper.createObjectNode()
    root.put("schema", StatusDocument.Schema).put("now_ms", nowMs)
    writeApplication(root.putObject("application"))
    root.put("policy", plans.configured).put("mode", mode).put("reservations_paused", reservationsPaused)
    writePlanner(root.putObject("planner"))
    plans.inForce.fold[Any](root.putNull("plan"))(writePlan(_, root.putObject("plan")))
    val list = root.putArray("jobs")
    jobs.foreach(job => writeJob(job, list.addObject()))
    writeExecutors(root.putArray("executors"))
    val counts = root.putObject("counters")
    counters.toList.sorted.foreach { case (name, count) => counts.put(name, count) }
    writeSums("class", classes, root.putArray("classes"))
    writeSums("user", users, root.putArray("users"))
    if (queues.nonEmpty) writeQueues(root.putArray("queues"))
    if (warnings.nonEmpty) warnings.foldLeft(root.putArray("warnings"))(_.add(_))
    root
  }

  private def writeApplication(out: ObjectNode): Unit =
    out.put("id", application.id).put("name", application.name).put("user", application.user)
      .put("started_ms", application.startedMs).put("scheduling", application.scheduling)
      .put("executors", application.executors).put("slots", application.slots)
      .put("running_slots", application.runningSlots).put("held_slots", application.heldSlots)
      .put("kept_free_slots", application.keptFreeSlots)

  private def writePlanner(out: ObjectNode): Unit = {
    out.put("enabled", planner.enabled).put("alive", planner.alive)
    putLong(out, "pid", planner.pid)
    putLong(out, "silent_ms", planner.silentMs)
    out.put("restarts", planner.restarts).put("stalls", planner.stalls)
    putLong(out, "last_plan_age_ms", plans.lastMadeMs.map(made => math.max(0L, nowMs - made)))
    out.put("plans_accepted", plans.accepted).put("plans_rejected", plans.rejected).put("plan_fallbacks", plans.fallbacks)
  }

  private def writePlan(plan: Plan, out: ObjectNode): Unit = {
    out.put("number", plan.number).put("policy", plan.about.policy)
      .put("age_ms", math.max(0L, nowMs - plan.about.madeMs)).put("expires_in_ms", math.max(0L, plan.expiresMs - nowMs))
    putDouble(out, "solve_ms", plan.about.solveMs)
    putDouble(out, "gap", plan.about.gap)
  }

  private def writeJob(job: JobFacts, out: ObjectNode): Unit = {
    val mark = job.mark
    out.put("job", mark.key).put("name", mark.name)
    putText(out, "user", mark.user)
    putText(out, "class", mark.jobClass)
    out.put("priority", job.priority)
    putLong(out, "deadline_ms", mark.deadlineMs)
    out.put("isolation", job.isolation).put("marked", mark.marked).put("arrival", job.arrival)
    out.put("submitted_ms", job.times.submittedMs)
    putLong(out, "begun_ms", job.times.begunMs)
    putLong(out, "ended_ms", job.times.endedMs)
    putText(out, "outcome", job.outcome)
    out.put("state", job.state.kind).put("state_text", job.state.text).put("reason", job.reason)
    whys.get(mark.key).foreach(out.put("why", _))
    if (mark.shown != mark.name) out.put("title", mark.shown)
    if (mark.warnings.nonEmpty) {
      val list = out.putArray("warnings")
      mark.warnings.foreach(w => list.add(w.sentence))
    }
    putLong(out, "rank", job.plan.rules.map(_.rank.toLong))
    putLong(out, "queue", job.plan.rules.flatMap(_.queue).map(_.toLong))
    job.plan.queue.name.foreach(out.put("queue_name", _))
    out.put("tasks", job.tasks).put("tasks_done", job.tasksDone)
    writeStages(job, out)
    writeSlots(job.slotKinds, out.putObject("slots"))
    job.plan.forecast.fold[Any](out.putNull("forecast"))(writeForecast(_, out.putObject("forecast")))
    job.afterJobs.foreach(out.put("after_jobs", _))
    writeTimes(job.slotTimes, out.putObject("slot_ms"))
    stories.get(mark.key).foreach { story =>
      val list = out.putArray("story")
      story.foreach(entry => list.addObject().put("at_ms", entry.atMs).put("text", entry.text))
    }
  }

  private def writeStages(job: JobFacts, out: ObjectNode): Unit = {
    val list = out.putArray("stages")
    job.stages.foreach { s =>
      list.addObject().put("stage", s.stage).put("name", s.name).put("tasks", s.tasks).put("done", s.done)
        .put("running", s.running).put("waiting", s.waiting)
    }
  }

  private def writeExecutors(out: ArrayNode): Unit = executors.foreach { e =>
    val one = out.addObject().put("executor", e.executor).put("host", e.host).put("slots", e.slots).put("running", e.runningSlots)
      .put("copied", e.copiedSlots).put("pilot", e.pilotSlots)
    val held = one.putArray("held")
    e.held.foreach(h => held.addObject().put("job", h.job).put("name", h.name).put("slots", h.slots))
  }

  private def writeSums(group: String, sums: Map[String, ClassFigures], out: ArrayNode): Unit = sums.toList.sortBy(_._1).foreach { case (name, c) =>
    writeFigures(c, out.addObject().put(group, name))
  }

  private def writeFigures(c: ClassFigures, out: ObjectNode): Unit = {
    out.put("jobs", c.jobs).put("waiting_jobs", c.waiting).put("jobs_at_risk", c.atRisk).put("jobs_ended", c.ended)
      .put("deadlines_met", c.deadlinesMet).put("deadlines_missed", c.deadlinesMissed).put("jct_ms", c.jctMs)
    writeSlots(c.slots, out.putObject("slots"))
    writeTimes(c.times, out.putObject("slot_ms"))
  }

  private def writeQueues(out: ArrayNode): Unit = queues.foreach { q =>
    val one = out.addObject().put("queue", q.queue)
    putLong(one, "ceiling_slots", q.ceiling.map(_.toLong))
    putLong(one, "floor_slots", q.floor.map(_.toLong))
    putDouble(one, "weight", q.weight)
    one.put("running_slots", q.running).put("held_slots", q.held).put("peak_slots", q.peak)
      .put("running_jobs", q.jobs).put("waiting_jobs", q.waiting).put("refused_jobs", q.refused).put("slot_ms", q.slotMs)
    q.day.foreach { day =>
      one.put("day_slot_ms", day.usedMs).put("day_most_slot_ms", day.mostMs)
      putLong(one, "day_frees_ms", day.freesMs)
    }
    writeFigures(q.sums, one.putObject("sums"))
  }

  private def writeSlots(slots: SlotKinds, out: ObjectNode): Unit =
    out.put("running", slots.running).put("held", slots.held).put("pilot", slots.pilot).put("copied", slots.copied)
      .put("waiting", slots.waiting).put("deferred", slots.deferred)

  private def writeTimes(times: SlotTimes, out: ObjectNode): Unit = times.byName.foreach { case (kind, ms) => out.put(kind, ms) }

  private def writeForecast(forecast: EndForecast, out: ObjectNode): Unit = {
    out.put("end_p10_ms", forecast.p10Ms).put("end_p50_ms", forecast.p50Ms).put("end_p90_ms", forecast.p90Ms)
    putDouble(out, "deadline_probability", forecast.deadlineProbability)
    forecast.start.foreach(at => out.put("start_p10_ms", at.p10Ms).put("start_p50_ms", at.p50Ms).put("start_p90_ms", at.p90Ms))
  }

  private def putLong(out: ObjectNode, field: String, value: Option[Long]): Unit =
    value.fold[Any](out.putNull(field))(out.put(field, _))
  private def putDouble(out: ObjectNode, field: String, value: Option[Double]): Unit =
    value.fold[Any](out.putNull(field))(out.put(field, _))
  private def putText(out: ObjectNode, field: String, value: Option[String]): Unit =
    value.fold[Any](out.putNull(field))(out.put(field, _))
}

/**
 * What the jobs of a tenants' queue, and of those below it, have now.
 *
 * @param ceiling the most slots that it may have now; None: it has no ceiling
 * @param peak the most slots that it ever had
 * @param refused how often a job was refused
 * @param floor slots that it is promised now; None: it has no floor
 * @param slotMs slot time of its attempts that ended
 * @param weight beside the queues at the same place in the tree; None: queues are offered slots in no order of their own
 * @param sums over its jobs
 * @param day None: it has no limit of slot time
 */
final case class QueueFigures(
    queue: String, ceiling: Option[Int], running: Int, held: Int, peak: Int, jobs: Int, waiting: Int, refused: Int,
    floor: Option[Int] = None, slotMs: Long = 0, weight: Option[Double] = None, sums: ClassFigures = ClassFigures(),
    day: Option[DaySlotTime] = None)

/**
 * Slot time of a queue in the last 24 hours.
 *
 * @param mostMs after which it admits no job
 * @param freesMs when it admits jobs again at the earliest; None: it admits some now
 */
final case class DaySlotTime(usedMs: Long, mostMs: Long, freesMs: Option[Long])

object StatusDocument {
  val Schema = 1
  private val mapper = new ObjectMapper()
}
