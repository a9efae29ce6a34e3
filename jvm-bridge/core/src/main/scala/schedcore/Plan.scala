package schedcore

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import scala.jdk.CollectionConverters._
import scala.util.Try

/**
 * What the planner wants for one job; an absent field means the configured default.
 *
 * @param reserves false where the plan has no reservation for the job: it holds nothing
 */
final case class JobPlan(
    rank: Int,
    priority: Int,
    isolation: Option[Double],
    shape: Option[Double],
    scaleMs: Option[Double],
    preReserveThreshold: Option[Double],
    phaseTasks: IndexedSeq[Int],
    copies: Boolean,
    reserves: Boolean) {

  /** The job's own rule with what this plan says laid over it. */
  def over(own: Rule): Rule = own.copy(
    priority = priority,
    isolation = if (reserves) isolation.getOrElse(own.isolation) else 0.0,
    shape = shape.getOrElse(own.shape),
    scaleMs = scaleMs.orElse(own.scaleMs),
    preReserveThreshold = preReserveThreshold.getOrElse(own.preReserveThreshold),
    copies = own.copies && copies,
    phaseTasks = phaseTasks)
}

/**
 * @param ordered ranks order jobs of equal priority; otherwise Spark's FIFO or FAIR order stands within a priority
 */
final case class Plan(number: Long, snapshot: Long, expiresMs: Long, ordered: Boolean, jobs: Map[String, JobPlan])

/** Why a plan was not taken: a code to count by and a sentence to read. */
final case class Refusal(code: String, sentence: String)

object Plan {
  val Schema = 1
  private val mapper = new ObjectMapper()

  def parse(json: String): Either[Refusal, Plan] =
    Try(Option(mapper.readTree(json))).toOption.flatten.filter(_.isObject) match {
      case None => Left(Refusal("bad_json", "the plan is not a JSON object"))
      case Some(root) if root.path("schema").asInt(-1) != Schema =>
        Left(Refusal("bad_schema", s"the plan's schema is ${root.path("schema")}, not $Schema"))
      case Some(root) =>
        try Right(read(root))
        catch { case BadValue(what) => Left(Refusal("bad_value", what)) }
    }

  private final case class BadValue(what: String) extends Exception(what)

  private def read(root: JsonNode): Plan = {
    val made = long(root, "made_at_ms")
    val jobs = root.path("jobs").elements().asScala.map(job => text(job, "job") -> readJob(job)).toMap
    Plan(
      long(root, "plan"), long(root, "snapshot"), made + long(root, "valid_for_ms"),
      root.path("ordered").asBoolean(false), jobs)
  }

  private def readJob(job: JsonNode): JobPlan = {
    val rule = job.path("reservation")
    JobPlan(
      long(job, "rank").toInt,
      long(job, "priority").toInt,
      number(rule, "isolation", 0.0, 1.0),
      number(rule, "alpha", Pareto.MinShape, Pareto.MaxShape),
      number(rule, "t_m_ms", Double.MinPositiveValue, 1e15),
      number(rule, "prereserve_threshold", 0.0, 1.0),
      rule.path("phase_tasks").elements().asScala.map { n =>
        if (!n.isInt || n.asInt < 1) throw BadValue(s"phase_tasks has $n, not a positive whole number") else n.asInt
      }.toIndexedSeq,
      rule.path("copies").asBoolean(true),
      reserves = rule.isObject)
  }

  private def long(node: JsonNode, field: String): Long = {
    val value = node.path(field)
    if (!value.isIntegralNumber) throw BadValue(s"$field is $value, not a whole number") else value.asLong
  }

  private def text(node: JsonNode, field: String): String = {
    val value = node.path(field)
    if (!value.isTextual) throw BadValue(s"$field is $value, not text") else value.asText
  }

  private def number(node: JsonNode, field: String, low: Double, high: Double): Option[Double] = {
    val value = node.path(field)
    if (value.isMissingNode || value.isNull) None
    else if (value.isNumber && value.asDouble >= low && value.asDouble <= high) Some(value.asDouble)
    else throw BadValue(s"$field is $value, not a number from $low to $high")
  }
}
