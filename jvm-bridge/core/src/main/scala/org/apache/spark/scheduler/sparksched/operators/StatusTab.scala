package org.apache.spark.scheduler.sparksched
package operators

import java.net.URLEncoder
import java.nio.charset.StandardCharsets.UTF_8
import java.util.Locale

import scala.util.control.NonFatal
import scala.xml.Node

import jakarta.servlet.http.HttpServletRequest
import org.apache.spark.internal.Logging
import org.apache.spark.ui.{SparkUI, SparkUITab, UIUtils, WebUIPage}
import schedcore.PlainText
import schedcore.ledger.LedgerCounts
import schedcore.plan.TimeQuantiles
import schedcore.settings.Modes
import schedcore.status.{ExecutorFacts, JobFacts, StageFacts, StatusDocument, StatusRows, StoryEntry}

/** The tab "Scheduling" of the Spark UI: the status document in the style of Spark's own pages. */
private[sparksched] final class StatusTab(ui: SparkUI, source: StatusSource, buttons: SteeringButtons)
    extends SparkUITab(ui, StatusTab.Prefix) {
  attachPage(new JobsPage(this, source, buttons))
  attachPage(new StoryPage(this, source, buttons))
}

private[sparksched] object StatusTab extends Logging {
  val Prefix = "scheduling"

  /** An application is better off without a tab than without a scheduler: page classes may be others in a vendor's Spark. */
  def attach(ui: SparkUI, source: StatusSource, buttons: SteeringButtons): Unit =
    try ui.attachTab(new StatusTab(ui, source, buttons))
    catch {
      case thrown @ (NonFatal(_) | _: LinkageError) => logWarning("spark_sched: the Spark UI cannot show the tab Scheduling", thrown)
    }
}

/** Who runs, who waits and why; whom executors' slots are held for; the planner and the plan in force. */
private final class JobsPage(tab: StatusTab, source: StatusSource, buttons: SteeringButtons) extends WebUIPage("") {
  import StatusCells._

  override def render(request: HttpServletRequest): Seq[Node] =
    PlainPage.rendered("Scheduling", buttons.access.refusalToRead(request.getHeader))(content(request))(
      UIUtils.headerSparkPage(request, _, _, tab))

  private def content(request: HttpServletRequest): Seq[Node] = {
    val document = source.document
    val json = UIUtils.prependBaseUri(request, tab.basePath, s"${StatusServlet.Path}/status")
    val columns = if (buttons.shownTo(request)) JobColumns :+ "Change" else JobColumns
    facts(lines(document)) ++ buttons.ofAll(request, document) ++ buttons.script(request, tab.basePath) ++
      section("Jobs", columns, document.jobs, StatusRows.jobs(document.jobs), json)(row(_, document.nowMs, request)) ++
      TimelineView.section(request, tab.basePath, document.executors, source.timeline, document.nowMs) ++
      section("Executors", ExecutorColumns, document.executors, StatusRows.executors(document.executors), json)(executor) ++
      section("Counters", CounterColumns, document.counters, document.counters.toList.sorted, json)(counter)
  }

  private def section[A](title: String, columns: Seq[String], all: Iterable[Any], shown: Seq[A], json: String)(
      row: A => Seq[Node]): Seq[Node] = {
    val left = all.size - shown.size
    <h4>{title} ({all.size})</h4> ++
      (if (left > 0) <p>{left} more are in <a href={json}>the whole document</a>.</p> else Nil) ++
      (if (shown.isEmpty) <p>There are none now.</p> else wide(UIUtils.listingTable[A](columns, row, shown)))
  }

  private def row(job: JobFacts, nowMs: Long, request: HttpServletRequest): Seq[Node] = {
    val key = URLEncoder.encode(job.mark.key, UTF_8)
    val story = UIUtils.prependBaseUri(request, tab.basePath, s"/${StatusTab.Prefix}/job/?name=$key")
    <tr>
      <td style={Narrow}><a href={story}>{job.mark.name}</a></td>
      <td style={Narrow}>{job.mark.user.getOrElse("")}</td>
      <td style={Narrow}>{job.mark.jobClass.getOrElse("")}</td>
      <td>{job.priority}</td>
      <td>{job.state.text}</td>
      <td>{job.reason}</td>
      <td class="progress-cell" style="min-width: 10em" sorttable_customkey={job.tasksDone.toString}
        title={job.stages.map(s => PlainText.of(stageText(s))).mkString("\n")}>{progress(job)}</td>
      <td>{job.runningSlots}</td>
      <td>{job.heldSlots}</td>
      <td>{job.waitingSlots}</td>
      <td sorttable_customkey={job.plan.forecast.fold(Long.MaxValue)(_.p50Ms).toString}>{endsIn(job, nowMs)}</td>
      <td sorttable_customkey={job.mark.deadlineMs.getOrElse(Long.MaxValue).toString}>{deadline(job, nowMs)}</td>
      {if (buttons.shownTo(request)) <td>{buttons.of(job)}</td> else Nil}
    </tr>
  }

  private def progress(job: JobFacts): Seq[Node] =
    if (job.tasks == 0) Nil
    else UIUtils.makeProgressBar(job.stages.map(_.running).sum, job.tasksDone, 0, 0, Map.empty, job.tasks)

  private def stageText(stage: StageFacts): String = s"stage ${stage.stage}: ${stage.done}/${stage.tasks} ${stage.name}"

  private def executor(e: ExecutorFacts): Seq[Node] =
    <tr>
      <td>{e.executor}</td>
      <td>{e.host}</td>
      <td>{e.slots}</td>
      <td>{e.runningSlots}</td>
      <td>{e.copiedSlots}</td>
      <td>{e.pilotSlots}</td>
      <td>{e.heldSlots}</td>
      <td>{e.held.map(h => s"${h.name} (${h.slots})").mkString(", ")}</td>
    </tr>

  private def counter(c: (String, Long)): Seq[Node] = <tr><td>{LedgerCounts.label(c._1)}</td><td>{c._2}</td></tr>
}

/** What happened to the jobs of a name. */
private final class StoryPage(tab: StatusTab, source: StatusSource, buttons: SteeringButtons) extends WebUIPage("job") {
  import StatusCells._

  override def render(request: HttpServletRequest): Seq[Node] = {
    val name = QueryString.value(request, "name").getOrElse("")
    val refused = buttons.access.refusalToRead(request.getHeader)
    lazy val document = source.documentOf(name)
    val title = if (refused.isDefined) name else document.jobs.lastOption.fold(name)(_.mark.name)
    PlainPage.rendered(s"Story of $title", refused)(content(request, document))(UIUtils.headerSparkPage(request, _, _, tab))
  }

  private def content(request: HttpServletRequest, document: StatusDocument): Seq[Node] =
    if (document.jobs.isEmpty) <p>No such job is known. Jobs that ended are forgotten after some minutes.</p>
    else buttons.script(request, tab.basePath) ++ document.jobs.reverse.flatMap { job =>
      story(job, document, if (job.outcome.isEmpty && buttons.shownTo(request)) buttons.allOf(job) else Nil)
    }

  private def story(job: JobFacts, document: StatusDocument, change: Seq[Node]): Seq[Node] = {
    val about = Seq(
      "State" -> job.state.text,
      "Plan's reason" -> job.reason) ++ startsIn(job, document.nowMs).map("Starts in" -> _) ++ Seq(
      "Ends in" -> endsIn(job, document.nowMs),
      "Deadline" -> deadline(job, document.nowMs),
      "Slots" -> s"${job.runningSlots} run (${job.copiedSlots} copies, ${job.pilotSlots} pilots), ${job.heldSlots} held idle",
      "Slot time" -> job.slotTimes.inWords(length))
    facts(about) ++ change ++ wide(UIUtils.listingTable[StoryEntry](
      Seq("Time", "What happened"), entry => <tr><td>{UIUtils.formatDate(entry.atMs)}</td><td>{entry.text}</td></tr>,
      document.stories.getOrElse(job.mark.key, Nil)))
  }
}

/** Texts of cells and lines of both pages. Scala's XML literals escape names. */
private object StatusCells {
  val JobColumns: Seq[String] = Seq(
    "Job", "User", "Class", "Priority", "State", "Plan's reason", "Tasks of active stages", "Slots running", "Held", "Waiting",
    "Ends in (80% interval)", "Deadline")
  val ExecutorColumns: Seq[String] = Seq("Executor", "Host", "Slots", "Running", "Copies", "Pilots", "Held", "Held for")
  val CounterColumns: Seq[String] = Seq("Counter", "Since the start")

  /** Of cells with texts that tenants choose: a long one moves no other column out of sight. */
  val Narrow = "min-width: 6em; max-width: 20em; overflow-wrap: anywhere"

  /** On a narrow screen the table scrolls, not the page. */
  def wide(table: Seq[Node]): Seq[Node] = <div class="table-responsive">{table}</div>

  def facts(lines: Seq[(String, String)]): Seq[Node] =
    <ul class="list-unstyled">{lines.map { case (what, text) => <li><strong>{what}:</strong> {text}</li> }}</ul>

  def lines(document: StatusDocument): Seq[(String, String)] = {
    val app = document.application
    val slots =
      if (!app.scheduling) "spark_sched has failed, and Spark's own scheduling is in force"
      else s"${app.runningSlots} of ${app.slots} run tasks on ${app.executors} executors, ${app.heldSlots} are held idle" +
        (if (app.keptFreeSlots > 0) s", ${app.keptFreeSlots} are kept free by the plan" else "") +
        (if (document.reservationsPaused) ", reservations are paused" else "")
    Seq("Mode" -> mode(document), "Slots" -> slots, "Planner" -> planner(document), "Plan" -> plan(document))
  }

  private def mode(document: StatusDocument): String = document.mode match {
    case Modes.Shadow => "shadow: plans and holds are on paper only, Spark's own order applies"
    case Modes.Off => "off: Spark's own order applies"
    case other => other
  }

  private def planner(document: StatusDocument): String = {
    val p = document.planner
    val state =
      if (!p.enabled) "switched off"
      else if (p.alive) s"alive (pid ${p.pid.getOrElse("")}, heard of ${length(p.silentMs.getOrElse(0L))} ago)"
      else if (p.pid.isDefined) "starting"
      else "not running"
    val plans = document.plans
    s"$state, ${p.restarts} restarts, ${plans.accepted} plans accepted, ${plans.rejected} rejected, ${plans.fallbacks} ran out"
  }

  private def plan(document: StatusDocument): String = document.plans.inForce match {
    case None =>
      val last = document.plans.lastMadeMs.fold("there was no plan yet")(at => s"the last plan was made ${length(document.nowMs - at)} ago")
      s"none in force, the configured rules apply ($last)"
    case Some(plan) =>
      val solved = plan.about.solveMs.fold("")(ms => s", made in ${length(ms.toLong)}")
      val gap = plan.about.gap.fold("")(g => s", at most ${percent(g)} from the best")
      s"${plan.number} of policy ${plan.about.policy}, ${length(document.nowMs - plan.about.madeMs)} old, valid for " +
        s"${length(plan.expiresMs - document.nowMs)} more$solved$gap"
  }

  def endsIn(job: JobFacts, nowMs: Long): String = job.plan.forecast.fold(afterJobs(job)) { f =>
    interval(TimeQuantiles(f.p10Ms, f.p50Ms, f.p90Ms), nowMs)
  }

  private def afterJobs(job: JobFacts): String =
    job.afterJobs.fold("unknown")(n => if (n == 1) "after 1 job" else s"after $n jobs")

  /** None: it has begun, or that is unknown. */
  def startsIn(job: JobFacts, nowMs: Long): Option[String] =
    job.plan.forecast.filter(_ => job.times.begunMs.isEmpty).flatMap(_.start).map(interval(_, nowMs))

  private def interval(at: TimeQuantiles, nowMs: Long): String = {
    def in(atMs: Long) = length(atMs - nowMs)
    s"${in(at.p50Ms)} (${in(at.p10Ms)} to ${in(at.p90Ms)})"
  }

  def deadline(job: JobFacts, nowMs: Long): String = job.mark.deadlineMs.fold("none") { at =>
    val when = if (at >= nowMs) s"in ${length(at - nowMs)}" else s"passed ${length(nowMs - at)} ago"
    job.plan.forecast.flatMap(_.deadlineProbability).fold(when)(p => s"$when, met with ${percent(p)}")
  }

  def length(ms: Long): String = UIUtils.formatDuration(math.max(0L, ms))
  private def percent(share: Double): String = "%.1f%%".formatLocal(Locale.ROOT, 100.0 * share)
}
