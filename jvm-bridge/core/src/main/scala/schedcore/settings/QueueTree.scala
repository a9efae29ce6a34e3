package schedcore
package settings

import scala.jdk.CollectionConverters._
import scala.util.Try

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

/**
 * A number of slots, or a percentage of the application's.
 *
 * @param slots the number; None: it is a percentage
 */
final case class SlotAmount(slots: Option[Int], percent: Double = 0.0) {
  /** Slots where the application has `total`: a percentage is rounded down, to 1 at least. */
  def of(total: Int): Int = slots.getOrElse(math.max(1, atMost(total)))
  /** The same, but a percentage that is less than one slot is none: shares that fit together in the file fit together in slots. */
  def atMost(total: Int): Int = slots.getOrElse((percent * total / 100.0 + SlotAmount.Epsilon).toInt)
}

private object SlotAmount {
  /** So that rounding never takes a slot from a share of whole slots. */
  val Epsilon = 1e-9
}

/** The highest priority of jobs in a queue whose user matches every pattern that is given. */
final case class PriorityLimit(maxPriority: Int, user: Option[String], group: Option[String]) {
  def matches(user: String, groups: Set[String]): Boolean =
    this.user.forall(QueueTree.matches(_, user)) && group.forall(pattern => groups.exists(QueueTree.matches(pattern, _)))
}

/** One queue of tenants; None: it has no such limit. `spark_sched.config.queues.QueueSpec` has the meanings. */
final case class QueueSpec(
    path: String, ceiling: Option[SlotAmount] = None, heldCeiling: Option[SlotAmount] = None, maxRunningJobs: Option[Int] = None,
    maxWaitingJobs: Option[Int] = None, waitTimeoutMs: Option[Long] = None, maxPriority: Option[Int] = None, users: Seq[String] = Nil,
    floor: Option[SlotAmount] = None, weight: Option[Double] = None, groups: Seq[String] = Nil,
    slotHoursPerDay: Option[Double] = None, maxPriorities: Seq[PriorityLimit] = Nil) {
  /** The highest priority of a job of such a user; None: any. The first limit that matches counts. */
  def highestPriority(user: String, groups: Set[String]): Option[Int] =
    maxPriorities.find(_.matches(user, groups)).map(_.maxPriority).orElse(maxPriority)

  /** The slot time of 24 hours after which it admits no job. */
  val daySlotMs: Option[Long] = slotHoursPerDay.map(hours => math.rint(hours * 3600000).toLong)

  /** Whether it takes jobs of such a user. Without users and groups it takes everybody's. */
  def takes(user: String, of: Set[String]): Boolean = (users.isEmpty && groups.isEmpty) ||
    users.exists(QueueTree.matches(_, user)) || groups.exists(pattern => of.exists(QueueTree.matches(pattern, _)))
}

/**
 * When running tasks of other queues are evicted for a queue that stays below its floor.
 *
 * @param mode off; observe, which only counts and tells what would be evicted; on
 * @param threshold the part of its floor that a queue has to have
 * @param timeoutMs how long it may have less
 * @param intervalMs between two looks that evict tasks
 */
final case class PreemptionRule(
    mode: String = "observe", threshold: Double = 0.5, timeoutMs: Long = 30000, intervalMs: Long = 5000) {
  def evicts: Boolean = mode == "on"
}

/** A queue for the jobs that match every pattern that is given. */
final case class PlacementRule(
    queue: String, user: Option[String], name: Option[String], jobClass: Option[String], group: Option[String] = None) {
  def matches(user: String, name: String, jobClass: String, groups: Set[String]): Boolean =
    Seq(this.user -> user, this.name -> name, this.jobClass -> jobClass)
      .forall { case (pattern, text) => pattern.forall(QueueTree.matches(_, text)) } &&
      group.forall(pattern => groups.exists(QueueTree.matches(pattern, _)))
}

/**
 * The queues of tenants, parents before their children, and the rules that place jobs in them.
 *
 * The setting `spark.sched.queues` has it as one line, which `spark_sched.config.queues` makes of a TOML file and checks there: what
 * else somebody may write is refused here only as far as it cannot be read.
 *
 * @param default the queue of jobs that no rule places
 */
final case class QueueTree(
    queues: Seq[QueueSpec], rules: Seq[PlacementRule], default: String, preemption: PreemptionRule = PreemptionRule()) {
  private val byPath = queues.map(q => q.path -> q).toMap

  /** The queues that jobs can be in: those without queues below them. */
  val leaves: Set[String] = queues.map(_.path).toSet -- queues.map(q => q.path.substring(0, math.max(0, q.path.lastIndexOf('.'))))

  /** Whether there are no queues at all, as in an application that was started without. */
  def isEmpty: Boolean = queues.isEmpty

  /** The queue and its ancestors, from the top down. */
  def pathOf(queue: String): Seq[QueueSpec] = if (isEmpty) Nil else QueueTree.lineOf(queue).map(byPath)

  private def takes(queue: String, user: String, groups: Set[String]): Boolean = pathOf(queue).forall(_.takes(user, groups))

  /** The queue of a job: of the first rule that matches it and whose queue takes its user's jobs. @param groups of the user */
  def place(user: String, name: String, jobClass: String, groups: Set[String] = Set.empty): String =
    rules.find(rule => rule.matches(user, name, jobClass, groups) && takes(rule.queue, user, groups)).fold(default)(_.queue)

  /** Whether the groups of users matter. */
  val usesGroups: Boolean = queues.exists(q => q.groups.nonEmpty || q.maxPriorities.exists(_.group.nonEmpty)) || rules.exists(_.group.nonEmpty)

  /** Whether queues are offered slots in an order of their own: one of them has a floor or a weight. */
  def shares: Boolean = queues.exists(q => q.floor.isDefined || q.weight.isDefined)

  /** Whether anything is evicted, or would be, for a queue below its floor. */
  def preempts: Boolean = preemption.mode != "off" && queues.exists(_.floor.isDefined)

  /** The highest priority of a job in the queue. @param groups of its user */
  def maxPriority(queue: String, user: String, groups: Set[String]): Int =
    pathOf(queue).flatMap(_.highestPriority(user, groups)).minOption.getOrElse(Int.MaxValue)
}

/** The tenants' queues at the start. @param text the setting that the tree was read from; @param file that is watched; empty: none */
final case class QueueSettings(tree: QueueTree = QueueTree.Empty, text: String = "", file: String = "")

object QueueTree {
  private val mapper = new ObjectMapper()

  /** No queues: all jobs are in none. */
  val Empty: QueueTree = QueueTree(Nil, Nil, "")

  /** The paths of a queue's ancestors, from the top down, and its own. */
  def lineOf(queue: String): Seq[String] = {
    val parts = queue.split('.')
    (1 to parts.length).map(parts.take(_).mkString("."))
  }

  private val Share = """(\d{1,3}(?:\.\d{1,3})?) ?%""".r

  /** Whether the text is of the pattern, in which `*` stands for any text. */
  def matches(pattern: String, text: String): Boolean =
    java.util.regex.Pattern.compile(
      pattern.split("\\*", -1).map(java.util.regex.Pattern.quote).mkString(".*"), java.util.regex.Pattern.DOTALL).matcher(text).matches()

  /** The tree in the setting, whose text may be empty. @throws BadSetting for what `spark-sched conf --queues FILE` does not write */
  def parse(text: String): QueueTree = if (text.isEmpty) Empty else Try(read(mapper.readTree(text))).getOrElse(
    throw new BadSetting(s"spark.sched.queues is '${PlainText.short(text)}' but must be the one line that `spark-sched conf --queues FILE` makes of a file of queues."))

  private def read(root: JsonNode): QueueTree = {
    val queues = root.get("queues").elements.asScala.map(queue).toList
    val known = queues.map(_.path).toSet
    require(queues.nonEmpty && queues.forall(q => !q.path.contains('.') || known(q.path.substring(0, q.path.lastIndexOf('.')))))
    val rules = root.get("rules").elements.asScala.map { r =>
      PlacementRule(r.get("queue").asText, text(r, "user"), text(r, "name"), text(r, "class"), text(r, "group"))
    }.toList
    val default = root.get("default").asText
    require((default +: rules.map(_.queue)).forall(known))
    QueueTree(queues, rules, default, Option(root.get("preemption")).fold(PreemptionRule()) { p =>
      val mode = p.get("mode").asText
      require(Set("off", "observe", "on")(mode))
      PreemptionRule(
        mode, p.get("threshold").asDouble, Words.millis(p.get("timeout").asText).get, Words.millis(p.get("interval").asText).get)
    })
  }

  private def queue(q: JsonNode): QueueSpec = QueueSpec(
    q.get("queue").asText, amount(q, "ceiling"), amount(q, "held_ceiling"), whole(q, "max_running_jobs"), whole(q, "max_waiting_jobs"),
    text(q, "wait_timeout").map(t => Words.millis(t).get), whole(q, "max_priority"),
    texts(q, "users"), amount(q, "floor"), positive(q, "weight"), texts(q, "groups"), positive(q, "slot_hours_per_day"),
    Option(q.get("max_priorities")).fold(Seq.empty[PriorityLimit])(_.elements.asScala.map { limit =>
      PriorityLimit(whole(limit, "max_priority").get, text(limit, "user"), text(limit, "group"))
    }.toList))

  private def amount(q: JsonNode, key: String): Option[SlotAmount] = Option(q.get(key)).map { value =>
    if (value.isInt) SlotAmount(Some(value.asInt))
    else value.asText match { case Share(percent) => SlotAmount(None, percent.toDouble) }
  }

  private def positive(q: JsonNode, key: String): Option[Double] =
    Option(q.get(key)).map { value => require(value.isNumber && value.asDouble > 0); value.asDouble }
  private def texts(q: JsonNode, key: String): Seq[String] =
    Option(q.get(key)).fold(Seq.empty[String])(_.elements.asScala.map(_.asText).toList)
  private def whole(q: JsonNode, key: String): Option[Int] = Option(q.get(key)).map { value => require(value.isInt); value.asInt }
  private def text(q: JsonNode, key: String): Option[String] = Option(q.get(key)).map { value => require(value.isTextual); value.asText }
}
