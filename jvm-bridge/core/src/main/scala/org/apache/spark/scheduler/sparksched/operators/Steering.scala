package org.apache.spark.scheduler.sparksched
package operators

import java.io.File

import com.fasterxml.jackson.databind.ObjectMapper
import org.apache.spark.SparkContext
import org.apache.spark.internal.Logging
import org.apache.spark.scheduler.sparksched.jobs.Registry
import org.apache.spark.scheduler.sparksched.planner.QueueFileReader
import schedcore.PlainText
import schedcore.events.Event
import schedcore.marks.JobMark
import schedcore.operators.{MarkChange, QueueChange, QueuesInForce}
import schedcore.plan.Refusal
import schedcore.settings.{BadSetting, Modes, QueueTree, Settings}
import schedcore.status.EventLogWriter

/**
 * What operators change while the application runs. Each change is an event, a line in the driver's log that says who made
 * it and what was before, and an entry in the story of the job that it concerns.
 *
 * A refusal is an answer: one sentence that names the input, the value and the remedy.
 */
private[sparksched] final class Steering(
    scheduler: SchedTaskScheduler, context: SparkContext, registry: Registry, planner: PlannerSwitch) extends Logging {
  import Steering._

  private val configured = context.conf.get(Settings.PlannerPolicy.name, Settings.PlannerPolicy.default)
  @volatile private var switches = Switches(configured, scheduler.settings.mode, reservationsPaused = false)
  @volatile private var enforces = scheduler.settings.mode == Modes.On

  @volatile private var queues = QueuesInForce(scheduler.settings.queues.text)
  @volatile private var queueFault = Option.empty[String]

  @volatile private var eventLog: Option[EventLogWriter] = None

  private val queueFile = Option(scheduler.settings.queues.file).filter(_.nonEmpty).map { file =>
    new QueueFile(new File(file), new QueueFileReader(context.conf, scheduler.settings.planner).read, queueFileRead(file, _))
  }

  /** From now on the file of queues is watched, if there is one. */
  def start(): Unit = queueFile.foreach(_.start())
  def stop(): Unit = queueFile.foreach(_.stop())

  /** From now on, changes are also written to the event log. */
  def logTo(events: EventLogWriter): Unit = eventLog = Some(events)

  /** Whether anything but Spark's own scheduling applies. Changes under the scheduler's lock only. */
  def enforcing: Boolean = enforces

  /** One of [[Modes]]. */
  def mode: String = switches.mode

  /** The policy that plans are made by. */
  def policy: String = switches.policy

  /** Names of the policies that the planner knows, for people to choose from; empty before it has told them. */
  @volatile var policies: Seq[String] = Nil

  /** The same, if it is not the one that the settings name. */
  def policySwitched: Option[String] = Option(policy).filter(_ != configured)

  /** Whether an operator lets no job hold slots. */
  def reservationsPaused: Boolean = switches.reservationsPaused

  /** The tenants' queues. */
  def queuesInForce: QueuesInForce = queues

  /** What people must know of changes that did not take place. */
  def warnings: Seq[String] = queueFault.toList

  /**
   * @param action one of [[Steering.Actions]]
   * @param given its arguments as text, by name
   * @param asker who asks for it
   * @return what was changed, in a sentence
   */
  def steer(action: String, given: Map[String, String], asker: String): Either[Refusal, String] = {
    val by = PlainText.shown(asker)
    val takes = Actions.getOrElse(action, Nil)
    val needed = Required.filter(takes.contains)
    if (!Actions.contains(action))
      Left(bad(s"action is '${PlainText.short(action)}' but must be one of ${Actions.keys.toList.sorted.mkString(", ")}"))
    else given.keys.find(!takes.contains(_)).map(key => bad(s"unknown argument '${PlainText.short(key)}' of $action: it takes ${listed(takes)}"))
      .orElse(needed.find(!given.contains(_)).map(key => bad(s"$action needs the argument '$key'")))
      .fold(obey(action, given, by))(Left(_))
  }

  private def obey(action: String, given: Map[String, String], by: String): Either[Refusal, String] = action match {
    case "set" => set(given("job"), given - "job", by)
    case "hold" => hold(given("job"), held = true, by)
    case "resume" => hold(given("job"), held = false, by)
    case "cancel" => cancel(given("job"), by)
    case "end" => end(given("job"), by)
    case "pause" => pause(paused = true, by)
    case "unpause" => pause(paused = false, by)
    case "policy" => switchPolicy(given("name"), by)
    case "mode" => switchMode(given("name"), by)
    case "queues" => changeQueues(given("tree"), given.get("version"), by)
  }

  // ---- one job -------------------------------------------------------------------------------------------------

  private def set(job: String, given: Map[String, String], by: String): Either[Refusal, String] = onJob(job) { (mark, nowMs) =>
    val aheadMs = if (given.contains("deadline")) scheduler.steadyClock.aheadMs else 0L // Deadlines are given in the machine's time.
    MarkChange.read(given, mark, nowMs - aheadMs).map(_.laterBy(aheadMs)).map { changed =>
      val said = MarkChange.described(mark, changed)
      if (said.nonEmpty) {
        noted(mark, nowMs, by, said, registry.change(changed, registry.isOnHold(mark.key), by, scheduler.records.plans, nowMs))
      }
      if (said.isEmpty) s"job ${mark.name} has these marks already: nothing was changed" else s"job ${mark.name}: $said"
    }
  }

  private def hold(job: String, held: Boolean, by: String): Either[Refusal, String] = onJob(job) { (mark, nowMs) =>
    val said = if (held) "on hold: it starts no further task" else "resumed"
    if (registry.isOnHold(mark.key) == held) Right(s"job ${mark.name} is ${if (held) "on hold" else "not on hold"}: nothing was changed")
    else {
      noted(mark, nowMs, by, said, registry.change(mark, held, by, scheduler.records.plans, nowMs))
      Right(s"job ${mark.name}: $said")
    }
  }

  private def cancel(job: String, by: String): Either[Refusal, String] = onJob(job) { (mark, nowMs) =>
    val running = registry.sparkJobsOf(mark.key)
    if (running.isEmpty) Left(Refusal("nothing_to_do", s"job is '${PlainText.short(job)}', which runs no Spark job now: there is nothing to cancel"))
    else {
      registry.cancelled(mark.key)
      val event = Event.JobCancelled(nowMs, mark.key, by)
      scheduler.records.events.offer(event)
      noted(mark, nowMs, by, s"cancelled with its ${running.size} Spark jobs", Some(event))
      Right(mark -> running)
    }
  }.map { case (mark, running) =>
    // Spark's own thread does it, so that it takes the locks in Spark's order.
    running.foreach(context.cancelJob(_, s"by $by"))
    s"job ${mark.name}: cancelled with its ${running.size} Spark jobs"
  }

  /** What its mark still submits is another job: nothing of a session's or a thread's settings is changed. */
  private def end(job: String, by: String): Either[Refusal, String] = onJob(job) { (mark, nowMs) =>
    val said = if (registry.hasStages(mark.key)) "it ends with its last stage" else "ended"
    noted(mark, nowMs, by, said, None)
    registry.jobEnded(mark.key, "ended", nowMs)
    Right(s"job ${mark.name}: $said")
  }

  private def onJob[A](job: String)(change: (JobMark, Long) => Either[Refusal, A]): Either[Refusal, A] =
    scheduler.steered[Either[Refusal, A]](Left(NotScheduling)) { nowMs =>
      registry.marksOf(job) match {
        case Seq(mark) => change(mark, nowMs)
        case Seq() =>
          Left(Refusal("unknown_job", s"job is '${PlainText.short(job)}' but no such job is known: ${known(registry.names)}"))
        case several => Left(Refusal("ambiguous_job",
          s"job is '${PlainText.short(job)}' but ${several.size} jobs have this name: give one of the keys ${some(several.map(_.key))}"))
      }
    }

  private def known(names: Seq[String]): String =
    if (names.isEmpty) "there are no jobs now"
    else s"now there are ${some(names)}"

  private def some(names: Seq[String]): String =
    listed(names.take(MostNames)) + (if (names.size > MostNames) s" and ${names.size - MostNames} more" else "")

  /** @param event the event for the planner, if there is one */
  private def noted(mark: JobMark, nowMs: Long, by: String, what: String, event: Option[Event]): Unit = {
    registry.stories.add(mark.key, nowMs, s"$what, by $by")
    audit(by, s"job ${mark.name} (${mark.key}): $what")
    eventLog.foreach(_.changed(nowMs, by, Some(mark.key), PlainText.of(s"job ${mark.name}: $what"), event))
  }

  // ---- all jobs ------------------------------------------------------------------------------------------------

  private def pause(paused: Boolean, by: String): Either[Refusal, String] = {
    val said = if (paused) "reservations are paused: no job holds slots" else "reservations are in force again"
    switch(by, said)(_.copy(reservationsPaused = paused))
  }

  /** The planner that runs judges the name, as it knows other packages' policies and their options. */
  private def switchPolicy(name: String, by: String): Either[Refusal, String] =
    if (!scheduler.settings.planner.enabled)
      Left(Refusal("no_planner", s"policy is '${PlainText.short(name)}' but ${Settings.PlannerEnabled.name} is false: no planner runs"))
    else if (name == policy) Right(s"the policy is $name already: nothing was changed")
    else judged(name).flatMap { _ =>
      val said = switch(by, s"the policy is $name")(_.copy(policy = name))
      if (said.isRight) planner.replace()
      said
    }

  private def judged(name: String): Either[Refusal, Unit] = {
    val mapper = new ObjectMapper
    val question = mapper.createObjectNode().put("ask", "policy").put("name", name).toString
    scheduler.records.questions.ask(question, JudgeMs) match {
      case None => Left(Refusal("no_planner",
        s"policy is '${PlainText.short(name)}' but the planner did not answer within ${JudgeMs / 1000} s: it may be starting or busy, so try again"))
      case Some(answer) =>
        Option(mapper.readTree(answer).get("error")).map(why => bad(why.asText)).toLeft(())
    }
  }

  private def switchMode(name: String, by: String): Either[Refusal, String] =
    if (!Modes.All.contains(name)) Left(bad(s"mode is '${PlainText.short(name)}' but must be one of ${listed(Modes.All)}"))
    else {
      val said = switch(by, s"the mode is $name")(_.copy(mode = name))
      if (name != Modes.Off && scheduler.settings.planner.enabled) planner.start()
      said
    }

  /** A planner refused the policy that it was switched to after all. @return whether another one is in force now */
  def policyRefused(): Boolean = policySwitched.isDefined && {
    switch("spark_sched", s"the planner refused the policy $policy, so that it is $configured again")(_.copy(policy = configured))
    true
  }

  private def switch(by: String, said: String)(change: Switches => Switches): Either[Refusal, String] =
    scheduler.steered[Either[Refusal, String]](Left(NotScheduling)) { nowMs =>
      val before = switches
      switches = change(before)
      if (switches == before) Right(s"$said, as before: nothing was changed")
      else {
        scheduler.shadowed(switches.mode == Modes.Shadow, nowMs)
        enforces = switches.mode == Modes.On
        val event = Event.SchedulingChanged(nowMs, switches.policy, switches.mode, switches.reservationsPaused, by)
        registry.switch(event, scheduler.records.plans)
        audit(by, s"$said (before: $before)")
        eventLog.foreach(_.changed(nowMs, by, None, said, Some(event)))
        Right(said)
      }
    }

  // ---- the tenants' queues -------------------------------------------------------------------------------------

  /**
   * @param version of the queues that the change is made of: others may have changed them meanwhile. None: that does not matter, unless all
   *   queues are removed. A script whose file is empty sends an empty tree, too, and must not lift all limits.
   */
  private def changeQueues(given: String, version: Option[String], by: String): Either[Refusal, String] = parsed(given.trim).flatMap { tree =>
    if (tree.isEmpty && version.isEmpty) Left(bad(
      "tree is empty, which would remove all queues: use `spark-sched queue clear`, or give the version of the queues that are to be removed"))
    else changeQueues(given.trim, tree, version, by)
  }

  private def changeQueues(text: String, tree: QueueTree, version: Option[String], by: String): Either[Refusal, String] = {
    // Jobs may be placed again.
    if (tree.usesGroups) scheduler.synchronized(registry.usersOfJobs).foreach(scheduler.records.groups.learn(_))
    scheduler.steered[Either[Refusal, String]](Left(NotScheduling)) { nowMs =>
      val before = queues
      if (version.exists(_ != before.version.toString))
        Left(Refusal("changed_meanwhile", "the queues were changed meanwhile: look at them and change them again"))
      else {
        val said = QueueChange.described(before.text, text)
        if (said.isEmpty) Right("the queues are so already: nothing was changed")
        else {
          queues = QueuesInForce(text, before.version + 1, by, nowMs)
          registry.queuesChanged(tree, nowMs)
          audit(by, said)
          eventLog.foreach(_.changed(nowMs, by, None, PlainText.of(said), None, Some(text)))
          Right(said)
        }
      }
    }
  }

  private def parsed(text: String): Either[Refusal, QueueTree] =
    try Right(QueueTree.parse(text))
    catch { case e: BadSetting => Left(bad(e.getMessage)) }

  /** The file of queues was read. @param found what is wrong with it, or the setting that it becomes */
  private def queueFileRead(file: String, found: Either[String, String]): Unit = {
    val refused = found.fold(Some(_), text =>
      // An editor, or a full disk, may have emptied it. Before there are queues, it only waits for them.
      if (text.isEmpty) Option.when(!QueueTree.parse(queues.text).isEmpty)(s"$file is empty: to remove all queues use `spark-sched queue clear`")
      else changeQueues(text, None, s"the file $file").fold(r => Some(r.sentence), _ => None))
    refused.foreach(sentence => logWarning(PlainText.of(s"spark_sched: the file of queues is refused, the queues stay as they are: $sentence")))
    queueFault = refused.map(sentence => PlainText.of(s"the file of queues is refused, the queues stay as they are: $sentence"))
  }

  /** A warning, so that logs of every usual level have it. What people typed must not look like further lines. */
  private def audit(by: String, what: String): Unit = logWarning(PlainText.of(s"spark_sched audit: $by: $what"))
}

private[sparksched] object Steering {
  /** What may be changed, with the arguments that it takes. */
  val Actions: Map[String, Seq[String]] = Map(
    "set" -> ("job" +: MarkChange.Fields),
    "hold" -> Seq("job"),
    "resume" -> Seq("job"),
    "cancel" -> Seq("job"),
    "end" -> Seq("job"),
    "pause" -> Nil,
    "unpause" -> Nil,
    "policy" -> Seq("name"),
    "mode" -> Seq("name"),
    "queues" -> Seq("tree", "version"))

  private val Required = Seq("job", "name", "tree")
  private val MostNames = 10
  private val JudgeMs = 10000L
  private val NotScheduling = Refusal("failed_open", "spark_sched has failed, and Spark's own scheduling is in force: nothing can be changed")

  private def bad(sentence: String): Refusal = Refusal("bad_value", sentence)
  private def listed(words: Seq[String]): String = if (words.isEmpty) "none" else words.mkString(", ")

  /** What holds for all jobs. */
  private final case class Switches(policy: String, mode: String, reservationsPaused: Boolean) {
    override def toString: String = s"policy $policy, mode $mode, reservations ${if (reservationsPaused) "paused" else "in force"}"
  }
}

/** Steering's actions on the planner: replace it, or start the first one. */
private[sparksched] final class PlannerSwitch(val replace: () => Unit, val start: () => Unit)
