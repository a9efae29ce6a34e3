package schedcore
package settings

import java.util.concurrent.TimeUnit

import schedcore.ledger.{CopyAge, IdleLimits, Pareto, Rule}

/** A configuration key as the JVM reads it; `spark_sched/config` declares the same names and defaults with their docs. */
final case class Key(name: String, default: String)

/** A wrong setting: the message is one sentence that names the key, the value and the remedy. */
final class BadSetting(message: String) extends IllegalArgumentException(message)

/** Everything that `spark.sched.*` may say, read and checked once, before any executor starts. */
final case class Settings(
    reservationEnabled: Boolean,
    minPriority: Int,
    defaults: Rule,
    idle: IdleLimits,
    planner: PlannerSettings,
    eventQueueCapacity: Int,
    limits: Limits,
    historyPassword: Secret,
    packs: Boolean,
    headroom: Double,
    mode: String = Modes.On,
    steeringEnabled: Boolean = true,
    uiHosts: Set[String] = Set.empty,
    jobsPerUser: Int = Settings.JobsPerUser.default.toInt,
    queues: QueueSettings = QueueSettings())

/** Text that no log and no message shows. */
final class Secret(val text: String) {
  override def toString: String = if (text.isEmpty) "" else "***"
}

/**
 * @param packageFolder of the `spark_sched` that it runs; empty: the one that its Python finds
 * @param records it stores the events that it reads
 * @param learns it stores what it learns beyond the application
 * @param judges settings are given that only the planner can check, such as names of policies
 */
final case class PlannerSettings(
    enabled: Boolean,
    python: String,
    packageFolder: String,
    records: Boolean,
    learns: Boolean,
    judges: Boolean,
    drainTimeoutMs: Long,
    startTimeoutMs: Long,
    stallTimeoutMs: Long,
    restartBackoffMs: Long,
    restartBackoffMaxMs: Long,
    intervalMs: Long) {
  /** How long a new job may wait for its plan: an interval until the planner plans, and one until its plan is here. */
  def patienceMs: Long = 2 * intervalMs
}

object Settings {
  /** Of all keys of this project. */
  val Prefix = "spark.sched."

  /** Options of policies, `spark.sched.policy.NAME.OPTION`: each policy declares its own, so the planner judges them. */
  private val PolicyPrefix = "spark.sched.policy."

  val ReservationEnabled = Key("spark.sched.reservation.enabled", "true")
  val Isolation = Key("spark.sched.reservation.isolation", "1.0")
  val MinPriority = Key("spark.sched.reservation.minPriority", "1")
  val MaxHold = Key("spark.sched.reservation.maxHold", "10min")
  val Deadline = Key("spark.sched.reservation.deadline", "calibrated")
  val Gap = Key("spark.sched.reservation.gap", "10s")
  val FirstGap = Key("spark.sched.reservation.firstGap", "1s")
  val IdleShare = Key("spark.sched.reservation.idleShare", "0.25")
  val LimitsIdleShare = Key("spark.sched.limits.idleShare", "0.4")
  val LimitsIdleBurst = Key("spark.sched.limits.idleBurst", "5s")
  val IdleWaitingCost = Key("spark.sched.limits.idleWaitingCost", "2")
  val PreReserveThreshold = Key("spark.sched.reservation.preReserveThreshold", "0.5")
  val Alpha = Key("spark.sched.reservation.alpha", "1.6")
  val AlphaWeight = Key("spark.sched.reservation.alphaWeight", "5")
  val Lookahead = Key("spark.sched.reservation.lookahead", "job")
  val CopiesEnabled = Key("spark.sched.copies.enabled", "true")
  val CopiesMinTaskTime = Key("spark.sched.copies.minTaskTime", "100ms")
  val CopiesMinSlowdown = Key("spark.sched.copies.minSlowdown", "1.5")
  val Placement = Key("spark.sched.placement", "spread")
  val PlacementHeadroom = Key("spark.sched.placement.headroom", "0.25")
  val PlannerEnabled = Key("spark.sched.planner.enabled", "true")
  val PlannerPython = Key("spark.sched.planner.python", "python3")
  val PlannerPackage = Key("spark.sched.planner.package", "")
  val PlannerPolicy = Key("spark.sched.planner.policy", "reservation")
  val PlannerSolver = Key("spark.sched.planner.solver", "prices")
  val PlannerInterval = Key("spark.sched.planner.interval", "200ms")
  val PlanValidity = Key("spark.sched.planner.planValidity", "10s")
  val PlannerStartTimeout = Key("spark.sched.planner.startTimeout", "30s")
  val PlannerStallTimeout = Key("spark.sched.planner.stallTimeout", "10s")
  val PlannerDrainTimeout = Key("spark.sched.planner.drainTimeout", "2s")
  val PlannerRestartBackoff = Key("spark.sched.planner.restartBackoff", "500ms")
  val PlannerRestartBackoffMax = Key("spark.sched.planner.restartBackoffMax", "30s")
  val QueueCapacity = Key("spark.sched.events.queueCapacity", "10000")
  val EventsPath = Key("spark.sched.events.path", "")
  val HistoryPath = Key("spark.sched.history.path", "")
  val HistoryPassword = Key("spark.sched.history.password", "")
  val MaxPriority = Key("spark.sched.limits.maxPriority", "2147483647")
  val MaxIsolation = Key("spark.sched.limits.maxIsolation", "1.0")
  val Marks = Key("spark.sched.limits.marks", "id,name,user,priority,deadline,isolation,class,copies")
  val JobsPerUser = Key("spark.sched.limits.jobsPerUser", "1000")
  val Mode = Key("spark.sched.mode", "on")
  val SteeringEnabled = Key("spark.sched.steering.enabled", "true")
  val UiHosts = Key("spark.sched.ui.hosts", "")
  val Queues = Key("spark.sched.queues", "")
  val QueuesFile = Key("spark.sched.queues.file", "")
  val Seed = Key("spark.sched.seed", "0")

  val All: Seq[Key] = Seq(
    ReservationEnabled, Isolation, MinPriority, Deadline, MaxHold, Gap, FirstGap, IdleShare, LimitsIdleShare, LimitsIdleBurst,
    IdleWaitingCost, PreReserveThreshold, Alpha, AlphaWeight, Lookahead,
    CopiesEnabled, CopiesMinTaskTime, CopiesMinSlowdown, Placement, PlacementHeadroom,
    PlannerEnabled, PlannerPython, PlannerPackage, PlannerPolicy, PlannerSolver, PlannerInterval,
    PlanValidity, PlannerStartTimeout, PlannerStallTimeout, PlannerDrainTimeout, PlannerRestartBackoff, PlannerRestartBackoffMax,
    QueueCapacity, EventsPath, HistoryPath, HistoryPassword, MaxPriority, MaxIsolation, Marks, JobsPerUser, Mode, SteeringEnabled,
    UiHosts, Queues, QueuesFile, Seed)

  /** Jobs of all users at a time, so also the largest value of [[JobsPerUser]]. */
  val MostJobs = 10000

  def isKnown(key: String): Boolean = key.startsWith(PolicyPrefix) || All.exists(_.name == key)

  /** Settings that only the planner can check: valid names and URLs depend on the packages in its environment. */
  private val Judged = Seq(PlannerPolicy, PlannerSolver, HistoryPath)

  /** @throws BadSetting for an unknown key of ours, a wrong unit or a value out of range */
  def from(conf: Map[String, String]): Settings = {
    val ours = conf.filter { case (k, _) => k.startsWith(Prefix) && !k.startsWith(MarkFields.Prefix) && !k.startsWith(PolicyPrefix) }
    ours.keys.toList.sorted.foreach(k => if (!All.exists(_.name == k)) throw unknown(k))
    val read = new Reader(conf)
    val defaults = Rule(
      priority = 0,
      isolation = read.within(Isolation, 0.0, 1.0),
      preReserveThreshold = read.within(PreReserveThreshold, 0.0, 1.0),
      shape = read.within(Alpha, Pareto.MinShape, Pareto.MaxShape),
      shapeWeight = read.within(AlphaWeight, 0.0, 1e6),
      scaleMs = None,
      maxHoldMs = read.millis(MaxHold),
      gapMs = read.millis(Gap),
      copies = read.flag(CopiesEnabled),
      copyAge = CopyAge(read.millis(CopiesMinTaskTime), read.within(CopiesMinSlowdown, 0.0, 1000.0)),
      wholeJob = read.oneOf(Lookahead, Seq("job", "stage")) == "job",
      firstGapMs = Some(read.millis(FirstGap)),
      deadline = read.oneOf(Deadline, Rule.Deadlines))
    val idle = IdleLimits(
      read.within(IdleShare, 0.0, 1.0), read.within(LimitsIdleShare, 0.0, 1.0), read.millis(LimitsIdleBurst),
      read.within(IdleWaitingCost, 1.0, 100.0))
    // The planner reads this; a wrong value must stop the application, not only the planner.
    read.millis(PlanValidity)
    read.integer(Seed, 0, Int.MaxValue)
    if (hasPassword(read.text(HistoryPath))) throw new BadSetting(
      s"${HistoryPath.name} is a URL with a password in it, which Spark would show in its UI and event log: leave it out and " +
        s"set ${HistoryPassword.name}.")
    Settings(
      read.flag(ReservationEnabled),
      read.integer(MinPriority, Int.MinValue, Int.MaxValue),
      defaults,
      idle,
      PlannerSettings(
        read.flag(PlannerEnabled), read.text(PlannerPython), read.text(PlannerPackage),
        read.given(EventsPath), read.given(HistoryPath), Judged.exists(read.given) || conf.keys.exists(_.startsWith(PolicyPrefix)),
        read.millis(PlannerDrainTimeout), read.millis(PlannerStartTimeout),
        read.millis(PlannerStallTimeout), read.millis(PlannerRestartBackoff), read.millis(PlannerRestartBackoffMax),
        read.millis(PlannerInterval)),
      read.integer(QueueCapacity, 16, 10000000),
      Limits(
        read.integer(MaxPriority, Int.MinValue, Int.MaxValue), read.within(MaxIsolation, 0.0, 1.0),
        read.words(Marks, MarkFields.All)),
      new Secret(read.text(HistoryPassword)),
      packs = read.oneOf(Placement, Seq("spread", "pack")) == "pack",
      headroom = read.within(PlacementHeadroom, 0.0, 0.9),
      mode = read.oneOf(Mode, Modes.All),
      steeringEnabled = read.flag(SteeringEnabled),
      uiHosts = read.hosts(UiHosts),
      jobsPerUser = read.integer(JobsPerUser, 1, MostJobs),
      queues = QueueSettings(QueueTree.parse(read.text(Queues)), read.text(Queues), read.text(QueuesFile)))
  }

  // The user's part of a URL, or a parameter that is called so.
  private val InUserPart = """[A-Za-z0-9+.-]+://[^/?#]*:[^/?#]*@.*""".r
  private val AsParameter = """(?i)[a-z0-9+.-]+://.*[?&][^=&]*password=.*""".r

  private def hasPassword(url: String): Boolean = InUserPart.matches(url) || AsParameter.matches(url)

  private def unknown(key: String): BadSetting = {
    val near = All.map(_.name).minBy(Words.distance(_, key))
    val hint = if (Words.distance(near, key) <= math.max(2, key.length / 4)) s"did you mean $near?" else "see docs/reference/configuration.md."
    new BadSetting(s"Unknown setting $key: $hint")
  }

  private final class Reader(conf: Map[String, String]) {
    def text(key: Key): String = conf.getOrElse(key.name, key.default).trim

    /** Whether it says anything but its default. */
    def given(key: Key): Boolean = text(key) != key.default

    def flag(key: Key): Boolean = text(key).toLowerCase match {
      case "true" => true
      case "false" => false
      case other => throw new BadSetting(s"${key.name} is '$other' but must be true or false.")
    }

    def oneOf(key: Key, allowed: Seq[String]): String = {
      val value = text(key)
      if (!allowed.contains(value))
        throw new BadSetting(s"${key.name} is '$value' but must be one of ${allowed.mkString(", ")}.")
      value
    }

    /** Some of the words that there are, with commas between them. */
    def words(key: Key, known: Seq[String]): Set[String] = {
      val given = text(key).split(',').map(_.trim).filter(_.nonEmpty).toSeq
      given.find(!known.contains(_)).foreach(word => throw new BadSetting(
        s"${key.name} has '$word' but must be some of ${known.mkString(", ")} with commas between them."))
      given.toSet
    }

    /** Names or addresses of hosts, with commas between them. */
    def hosts(key: Key): Set[String] = {
      val given = text(key).split(',').map(_.trim).filter(_.nonEmpty).toSeq
      given.find(!TrustedHosts.isName(_)).foreach(word => throw new BadSetting(
        s"${key.name} has '$word' but must be names or addresses of hosts without a scheme or port, with commas between them."))
      given.toSet
    }

    def within(key: Key, low: Double, high: Double): Double = {
      val value = text(key).toDoubleOption.filter(v => v >= low && v <= high)
      value.getOrElse(throw new BadSetting(s"${key.name} is '${text(key)}' but must be a number from $low to $high."))
    }

    def integer(key: Key, low: Int, high: Int): Int = {
      val value = text(key).toIntOption.filter(v => v >= low && v <= high)
      value.getOrElse(throw new BadSetting(s"${key.name} is '${text(key)}' but must be a whole number from $low to $high."))
    }

    def millis(key: Key): Long = Words.millis(text(key)).getOrElse(throw new BadSetting(
      s"${key.name} is '${text(key)}' but must be a time such as 100ms, 10s, 5min or 1h."))
  }
}

/** Small text helpers that messages and settings need. */
object Words {
  private val Time = """(\d+)\s*(ms|s|m|min|h|d)""".r

  def millis(text: String): Option[Long] = text.trim.toLowerCase match {
    case Time(n, unit) =>
      val unitMs = unit match {
        case "ms" => 1L
        case "s" => TimeUnit.SECONDS.toMillis(1)
        case "m" | "min" => TimeUnit.MINUTES.toMillis(1)
        case "h" => TimeUnit.HOURS.toMillis(1)
        case "d" => TimeUnit.DAYS.toMillis(1)
      }
      n.toLongOption.filter(_ <= Long.MaxValue / 2 / unitMs).map(_ * unitMs)
    case _ => None
  }

  /** Levenshtein distance, for "did you mean". */
  def distance(a: String, b: String): Int = {
    var row = (0 to b.length).toArray
    a.indices.foreach { i =>
      val next = new Array[Int](b.length + 1)
      next(0) = i + 1
      b.indices.foreach { k =>
        val swap = row(k) + (if (a(i) == b(k)) 0 else 1)
        next(k + 1) = math.min(swap, math.min(row(k + 1), next(k)) + 1)
      }
      row = next
    }
    row(b.length)
  }
}
