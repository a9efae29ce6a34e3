package schedcore
package plan

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import schedcore.ledger.{Pareto, PoolShare, Rule}
import scala.jdk.CollectionConverters._
import scala.util.Try

/** Tasks of one stage, by index, that run before the others to estimate the job's size. */
final case class Pilots(stage: Int, tasks: IndexedSeq[Int])

/**
 * How one job holds slots; None means the configured default.
 *
 * @param stageTasks tasks of the job's stages by index; empty when unknown
 * @param copies whether copies of straggling tasks may run on held idle slots
 * @param gapMs how long slots stay held after an action, until the job's own pauses are learned
 */
final case class ReservationRule(
    isolation: Option[Double] = None,
    shape: Option[Double] = None,
    scaleMs: Option[Double] = None,
    preReserveThreshold: Option[Double] = None,
    stageTasks: IndexedSeq[Int] = IndexedSeq.empty,
    copies: Boolean = true,
    gapMs: Option[Long] = None) {

  /** The job's own rule with this one laid over it. */
  def over(own: Rule): Rule = own.copy(
    isolation = isolation.getOrElse(own.isolation),
    shape = shape.getOrElse(own.shape),
    scaleMs = scaleMs.orElse(own.scaleMs),
    preReserveThreshold = preReserveThreshold.getOrElse(own.preReserveThreshold),
    copies = own.copies && copies,
    firstGapMs = gapMs.orElse(own.firstGapMs),
    stageTasks = stageTasks)
}

/**
 * One job's rules in a plan.
 *
 * @param reservation how it holds slots; None: it holds none
 * @param startMs when it is planned to start; None: the plan has no start for it
 * @param deferred its waiting tasks do not start yet
 * @param share slots that its waiting tasks may take under this plan; None: any. A live cluster is one partition, so the
 *              plan's shares by partition come to one number
 * @param evict its running tasks are killed, without counting as failures, and wait again
 * @param queue its place in the plan's queue weights; None: ranks alone order it
 * @param pool whose share its slots count against, where the application itself has no pools
 * @param victims attempts of jobs of lower priority that lose their slots to its waiting tasks, in this order
 * @param powerful its tasks start on the fastest executors first
 * @param reason why, for people
 */
final case class JobPlan(
    rank: Int,
    priority: Int,
    reservation: Option[ReservationRule],
    startMs: Option[Long] = None,
    deferred: Boolean = false,
    share: Option[Int] = None,
    evict: Boolean = false,
    pilots: Option[Pilots] = None,
    queue: Option[Int] = None,
    pool: Option[PoolShare] = None,
    victims: IndexedSeq[Long] = IndexedSeq.empty,
    powerful: Boolean = false,
    reason: String = "") {

  /** The job's own rule with what this plan says laid over it. */
  def over(own: Rule): Rule = reservation
    .fold(own.copy(isolation = 0.0, stageTasks = IndexedSeq.empty))(_.over(own))
    .copy(priority = priority, pool = own.pool.orElse(pool))

  /** Whether [[over]] gives the same for this plan as for the other one: surely not, if false, but for plans that were not made to share. */
  def rulesLike(other: JobPlan): Boolean = (this eq other) ||
    (sameReservation(other) && priority == other.priority && pool == other.pool)

  private def sameReservation(other: JobPlan): Boolean =
    if (reservation.isEmpty || other.reservation.isEmpty) reservation.isEmpty && other.reservation.isEmpty
    else reservation.get eq other.reservation.get
}

/** Quantiles of a time in milliseconds since 1970. */
final case class TimeQuantiles(p10Ms: Long, p50Ms: Long, p90Ms: Long)

/**
 * When a job is expected to end, in milliseconds since 1970, as quantiles; and whether by its deadline, if it has one.
 *
 * @param start when its first task starts; None: it has begun
 */
final case class EndForecast(
    p10Ms: Long, p50Ms: Long, p90Ms: Long, deadlineProbability: Option[Double], start: Option[TimeQuantiles] = None)

/**
 * A plan's origin and quality, for people; no decision depends on it.
 *
 * @param solveMs how long the planner took to make it
 * @param gap distance to the optimum at most, relative to the proven bound
 * @param forecasts ends of jobs, by their key
 * @param queued how many jobs are before each of those that wait and whose end is unknown, by their key
 */
final case class PlanNotes(
    policy: String = "", madeMs: Long = 0L, solveMs: Option[Double] = None, gap: Option[Double] = None,
    forecasts: Map[String, EndForecast] = Map.empty, queued: Map[String, Int] = Map.empty)

/**
 * @param ordered ranks order jobs of equal priority; otherwise arrival does, or Spark's FAIR order within a FAIR pool
 * @param newJobsWait until the next plan, jobs that this one does not know may take only slots that nobody with a start waits for
 * @param queueWeights a slot goes to the queue with the fewest running tasks over its weight, and there by rank
 * @param slowness a task's time on an executor over its time on an average one; absent: 1
 */
final case class Plan(
    number: Long, snapshot: Long, expiresMs: Long, ordered: Boolean, jobs: Map[String, JobPlan],
    newJobsWait: Boolean = false, queueWeights: IndexedSeq[Double] = IndexedSeq.empty, about: PlanNotes = PlanNotes(),
    slowness: Map[String, Double] = Map.empty) {

  // What follows from all jobs is found when the plan is read, and not under the scheduler's lock.

  /** Whether any job may have to wait. */
  val holdsBack: Boolean = newJobsWait || jobs.valuesIterator.exists(j => j.deferred || j.evict || j.share.isDefined)

  /** When jobs that wait for their starts may start, in order; empty if no job may have to wait. */
  val startsMs: IndexedSeq[Long] =
    if (holdsBack) jobs.valuesIterator.filter(_.deferred).flatMap(_.startMs).toIndexedSeq.sorted else IndexedSeq.empty

  /** Jobs whose running tasks it takes away. */
  val evicted: Seq[String] = jobs.iterator.collect { case (job, p) if p.evict => job }.toList

  /** Jobs that take running tasks' slots, in its order, and whose these are. */
  val preemptions: Seq[(String, IndexedSeq[Long])] =
    jobs.iterator.collect { case (job, p) if p.victims.nonEmpty => (p.rank, job, p.victims) }.toList.sortBy(_._1)
      .map { case (_, job, victims) => job -> victims }

  /** This plan with the earlier one's objects for what both say of how jobs hold slots, so that looking for changes is cheap. */
  def sharing(earlier: Plan): Plan = copy(jobs = jobs.map { case (job, p) =>
    job -> earlier.jobs.get(job).fold(p)(e => if (e == p) e else if (e.reservation == p.reservation) p.copy(reservation = e.reservation) else p)
  })
}

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
      root.path("ordered").asBoolean(false), jobs, root.path("new_jobs_wait").asBoolean(false),
      root.path("queue_weights").elements().asScala.map { w =>
        if (!w.isNumber || w.asDouble <= 0.0) throw BadValue(s"queue_weights has $w, not a number above 0") else w.asDouble
      }.toIndexedSeq,
      readNotes(root, made),
      readSlowness(root.path("slowness")))
  }

  private def readSlowness(slowness: JsonNode): Map[String, Double] =
    if (absent(slowness)) Map.empty
    else if (!slowness.isObject) throw BadValue(s"slowness is $slowness, not numbers by executor")
    else slowness.properties().asScala.map { each =>
      val value = each.getValue
      if (!value.isNumber || value.asDouble <= 0.0) throw BadValue(s"slowness has $value, not a number above 0")
      each.getKey -> value.asDouble
    }.toMap

  private def readNotes(root: JsonNode, madeMs: Long): PlanNotes = {
    val (queued, ends) = root.path("forecasts").properties().asScala.map(each => each.getKey -> each.getValue).toMap
      .partition { case (_, forecast) => forecast.has("after_jobs") }
    PlanNotes(
      root.path("policy").asText(""), madeMs, number(root, "solve_ms", 0.0, 1e15),
      number(root.path("quality"), "gap", 0.0, Double.MaxValue),
      ends.map { case (job, forecast) => job -> readForecast(forecast) },
      queued.map { case (job, forecast) => job -> whole(forecast.path("after_jobs"), "after_jobs", 1) })
  }

  private def readForecast(forecast: JsonNode): EndForecast = {
    val end = readQuantiles(forecast, "end_ms")
    EndForecast(
      end.p10Ms, end.p50Ms, end.p90Ms, number(forecast, "deadline_probability", 0.0, 1.0),
      if (absent(forecast.path("start_ms"))) None else Some(readQuantiles(forecast, "start_ms")))
  }

  private def readQuantiles(forecast: JsonNode, field: String): TimeQuantiles = {
    val times = forecast.path(field).elements().asScala.map { n =>
      if (!n.isIntegralNumber) throw BadValue(s"$field has $n, not a whole number") else n.asLong
    }.toIndexedSeq
    if (times.size != 3) throw BadValue(s"$field has ${times.size} quantiles, not 3")
    TimeQuantiles(times(0), times(1), times(2))
  }

  private def readJob(job: JsonNode): JobPlan = JobPlan(
    long(job, "rank").toInt,
    long(job, "priority").toInt,
    readReservation(job.path("reservation")),
    startMs = if (job.path("start_ms").isMissingNode) None else Some(long(job, "start_ms")),
    deferred = job.path("deferred").asBoolean(false),
    share = readShare(job.path("share")),
    evict = job.path("evict").asBoolean(false),
    pilots = readPilots(job.path("pilots")),
    queue = if (absent(job.path("queue"))) None else Some(whole(job.path("queue"), "queue", 0)),
    pool = readPool(job.path("pool")),
    victims = job.path("victims").elements().asScala.map { n =>
      if (!n.isIntegralNumber || n.asLong < 0) throw BadValue(s"victims has $n, not a whole number from 0") else n.asLong
    }.toIndexedSeq,
    powerful = flag(job, "powerful"),
    reason = PlainText.shown(job.path("reason").asText("")))

  private def readReservation(rule: JsonNode): Option[ReservationRule] = Option.when(rule.isObject)(ReservationRule(
    number(rule, "isolation", 0.0, 1.0),
    number(rule, "alpha", Pareto.MinShape, Pareto.MaxShape),
    number(rule, "t_m_ms", Double.MinPositiveValue, 1e15),
    number(rule, "prereserve_threshold", 0.0, 1.0),
    rule.path("stage_tasks").elements().asScala.map { n =>
      if (!n.isInt || n.asInt < 1) throw BadValue(s"stage_tasks has $n, not a positive whole number") else n.asInt
    }.toIndexedSeq,
    rule.path("copies").asBoolean(true),
    number(rule, "gap_ms", 0.0, 1e15).map(_.toLong)))

  private def readShare(share: JsonNode): Option[Int] = if (absent(share)) None else Some {
    if (!share.isObject) throw BadValue(s"share is $share, not slots by partition")
    share.elements().asScala.map(n => whole(n, "share", 1)).sum
  }

  private def readPool(pool: JsonNode): Option[PoolShare] = if (absent(pool)) None else Some(PoolShare(
    text(pool, "name"),
    number(pool, "weight", Double.MinPositiveValue, 1e15).getOrElse(1.0),
    number(pool, "min_share", 0.0, 1e15).getOrElse(0.0),
    pool.path("fair").asBoolean(false)))

  private def readPilots(pilots: JsonNode): Option[Pilots] = if (absent(pilots)) None else Some {
    if (!pilots.path("tasks").isArray) throw BadValue(s"pilots is $pilots, not a stage and a list of tasks")
    Pilots(
      whole(pilots.path("stage"), "stage of pilots", 0),
      pilots.path("tasks").elements().asScala.map(n => whole(n, "tasks of pilots", 0)).toIndexedSeq.distinct)
  }

  private def absent(node: JsonNode): Boolean = node.isMissingNode || node.isNull

  private def whole(node: JsonNode, field: String, low: Int): Int =
    if (!node.isInt || node.asInt < low) throw BadValue(s"$field has $node, not a whole number from $low") else node.asInt

  private def flag(node: JsonNode, field: String): Boolean = {
    val value = node.path(field)
    if (!absent(value) && !value.isBoolean) throw BadValue(s"$field is $value, not true or false")
    value.asBoolean(false)
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
