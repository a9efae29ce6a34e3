package schedcore
package status

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode

/**
 * The status document as numbers by dotted name, for metrics systems: application, planner, plan, counters, classes, users, tenants'
 * queues and the total of all jobs, and what happened under each policy. No metric is per job or executor, so that the names are
 * bounded. Groups whose names metrics systems cannot tell apart are one.
 *
 * False and true are 0 and 1; what is unknown is not a number. Sums never fall, although the slot time of an evicted attempt
 * moves from one sum to another: metrics systems take a fall for a restart. A number that the document has in two places is one
 * figure.
 */
final class StatusMetrics(mostPolicies: Int = StatusMetrics.MostPolicies) {
  import StatusMetrics._

  private val policies = mutable.LinkedHashMap.empty[String, PolicyFigures]
  private val highest = mutable.HashMap.empty[String, Double]
  private var lastMs = 0L
  private var lastTimes = SlotTimes.Zero

  /**
   * Call it about once a second, or every ten seconds where there are many jobs: what happened since the last call counts as
   * the policy's that is in force now.
   */
  def sample(document: StatusDocument): Map[String, Double] = synchronized {
    val found = mutable.LinkedHashMap.empty[String, Double]
    val total = document.classes.valuesIterator.foldLeft(ClassFigures())(_ + _)
    val short = document.copy(
      jobs = Nil, executors = Nil, classes = byPart(document.classes) + (Total -> total), users = byPart(document.users)).toNode
    Seq("application", "planner", "counters").foreach(part => numbers(part, short.get(part), found))
    numbers("plan", short.get("plan"), found)
    found("plan.in_force") = if (document.plans.inForce.isDefined) 1.0 else 0.0
    short.get("classes").elements().asScala.foreach { row =>
      val name = row.get("class").asText
      numbers(if (name == Total) "total" else s"class.$name", row, found)
    }
    short.get("users").elements().asScala.foreach(row => numbers(s"user.${row.get("user").asText}", row, found))
    addQueues(document, found)
    addPolicies(document, total.times, found)
    found --= LeftOut
    found.foreach { case (name, value) => if (isSum(name)) highest(name) = math.max(value, highest.getOrElse(name, 0.0)) }
    (found ++ highest).toMap
  }

  /** Those at the top of the tree, which have the sums of all below them, come first where there are too many. */
  private def addQueues(document: StatusDocument, found: mutable.Map[String, Double]): Unit = {
    val some = document.queues.sortBy(_.queue.count(_ == '.')).take(MostQueues)
    val rows = document.copy(jobs = Nil, executors = Nil, queues = some).toNode.path("queues").elements().asScala
    val figures = rows.flatMap { row =>
      val own = mutable.LinkedHashMap.empty[String, Double]
      numbers("", row.get("sums"), own)
      Seq("floor_slots", "ceiling_slots", "weight", "peak_slots").foreach(field => numbers(s".$field", row.get(field), own))
      Seq("running_jobs", "waiting_jobs", "refused_jobs").foreach(field => numbers(s".admission.$field", row.get(field), own))
      own.map { case (name, value) => s"queue.${part(row.get("queue").asText)}$name" -> value }
    }
    figures.foreach { case (name, value) => found(name) = found.get(name).filterNot(_.isNaN).fold(value)(_ + (if (value.isNaN) 0.0 else value)) }
  }

  private def addPolicies(document: StatusDocument, times: SlotTimes, found: mutable.Map[String, Double]): Unit = {
    val asked = document.plans.inForce.fold(NoPlan)(plan => part(plan.about.policy))
    val inForce = if (policies.contains(asked) || policies.size < mostPolicies) asked else ClassSums.Other
    val sinceMs = if (lastMs == 0L) 0L else math.max(0L, document.nowMs - lastMs)
    policies(inForce) = policies.getOrElse(inForce, PolicyFigures()).and(sinceMs, lastTimes, times)
    lastMs = document.nowMs
    lastTimes = lastTimes.atLeast(times)
    policies.foreach { case (name, p) =>
      found(s"policy.$name.in_force") = if (name == inForce) 1.0 else 0.0
      found(s"policy.$name.in_force_ms") = p.inForceMs.toDouble
      p.times.byName.foreach { case (kind, ms) => found(s"policy.$name.slot_ms.$kind") = ms.toDouble }
    }
  }
}

object StatusMetrics {
  val MostPolicies = 16
  val MostQueues = 64
  /** The row of a policy's name where the configured rules apply. */
  val NoPlan = "configured_rules"
  private val Total = "" // no class has an empty name

  /** Fields that are names, and figures that `total` or `planner` also has. */
  private val LeftOut = Set("planner.pid", "plan.number", "application.running_slots", "application.held_slots", "counters.slots_held_now") ++
    Seq("planner_pid", "planner_restarts", "planner_stalls", "plans_accepted", "plans_rejected", "plan_fallbacks").map("counters." + _)
  private val PlannerSums = Seq("restarts", "stalls", "plans_accepted", "plans_rejected", "plan_fallbacks").map("planner." + _).toSet
  private val JobsUnstored = "counters.jobs_unstored" // of now, unlike the other counters
  private val SumEnds = Seq(".jobs_ended", ".deadlines_met", ".deadlines_missed", ".jct_ms", ".in_force_ms", ".refused_jobs")
  private val Groups = Seq("counters.", "class.", "user.", "queue.", "policy.")
  /** Among the counters is what is held at the moment, or would be in shadow mode. */
  private val HeldNow = "slots_held_now"

  /** Whether the figure only grows. The others go up and down. */
  def isSum(name: String): Boolean =
    (name.startsWith("counters.") && name != JobsUnstored && !name.endsWith(HeldNow)) || name.contains(".slot_ms.") || PlannerSums(name) ||
      SumEnds.exists(name.endsWith)

  /**
   * Whether a metrics system is to have a figure from now on: it costs time at each scrape. There are many counters, classes
   * and policies, and most of their figures stay zero in most applications.
   */
  def matters(name: String, value: Double): Boolean = !value.isNaN && (value != 0.0 || !Groups.exists(name.startsWith))

  private final case class PolicyFigures(inForceMs: Long = 0, times: SlotTimes = SlotTimes.Zero) {
    def and(ms: Long, before: SlotTimes, now: SlotTimes): PolicyFigures =
      PolicyFigures(inForceMs + ms, times + (before.atLeast(now) - before))
  }

  private def byPart(sums: Map[String, ClassFigures]): Map[String, ClassFigures] =
    sums.toList.groupMapReduce { case (name, _) => part(name) }(_._2)(_ + _)

  /** As part of a dotted name: all metrics systems take letters, digits and the underscore. */
  def part(name: String): String = if (name.isEmpty) "_" else name.replaceAll("[^A-Za-z0-9_]", "_")

  private def numbers(name: String, node: JsonNode, found: mutable.Map[String, Double]): Unit =
    if (node.isObject) node.properties().asScala.foreach(field => numbers(s"$name.${part(field.getKey)}", field.getValue, found))
    else if (node.isNumber) found(name) = node.asDouble
    else if (node.isBoolean) found(name) = if (node.asBoolean) 1.0 else 0.0
    else if (node.isNull && name.contains('.')) found(name) = Double.NaN
}
