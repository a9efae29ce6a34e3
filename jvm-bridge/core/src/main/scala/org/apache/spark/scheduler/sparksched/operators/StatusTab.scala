package org.apache.spark.scheduler.sparksched
package operators

import java.net.URLEncoder
import java.nio.charset.StandardCharsets.UTF_8

import scala.util.control.NonFatal
import scala.xml.{Node, Text}

import jakarta.servlet.http.HttpServletRequest
import org.apache.spark.internal.Logging
import org.apache.spark.ui.{SparkUI, SparkUITab, UIUtils, WebUIPage}
import schedcore.PlainText
import schedcore.status.{JobFacts, JobFilter, JobRows, JobSummary, StageFacts, StatusDocument, StatusRows, StoryEntry}

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

/** What matters now, who runs, who waits and why, and who ended lately; the slots of executors; users; counters. */
private final class JobsPage(tab: StatusTab, source: StatusSource, buttons: SteeringButtons) extends WebUIPage("") {
  import StatusCells._
  import TablePages._

  override def render(request: HttpServletRequest): Seq[Node] =
    PlainPage.rendered("Scheduling", buttons.access.refusalToRead(request.getHeader))(content(request))(
      UIUtils.headerSparkPage(request, _, _, tab))

  private def content(request: HttpServletRequest): Seq[Node] = {
    val (document, ended) = source.overview
    val json = UIUtils.prependBaseUri(request, tab.basePath, s"${StatusServlet.Path}/status")
    val filter = filterOf(request)
    val jobs = page(request, JobRows.chosen(document.jobs, ended, filter, document.nowMs))
    val people = (document.jobs ++ ended).flatMap(_.mark.user).distinct.sorted.take(MostUsers)
    val some = if (filter == JobFilter()) "" else s", ${jobs.all} chosen"
    style ++ summary(request, document, ended.size) ++ buttons.ofAll(request, document) ++ buttons.script(request, tab.basePath) ++
      <h4>Jobs ({document.jobs.size} not over, {ended.size} ended lately{some})</h4> ++
      filterForm(filter, people, document.queues.map(_.queue), JobRows.States) ++
      (if (jobs.rows.isEmpty) <p>{if (filter == JobFilter()) "There are none now." else "No job is like that."}</p>
      else table(columns(request, document, document.nowMs), jobs.rows)) ++ links(request, jobs) ++
      (if (document.queues.isEmpty) Nil
      else section("Queues", document.queues, document.queues.take(StatusRows.Most), json, open = true)(QueueColumns)) ++
      TimelineView.section(request, tab.basePath, document.executors, source.timeline, document.nowMs) ++
      section("Executors", document.executors, StatusRows.executors(document.executors), json, open = true)(ExecutorColumns) ++
      section("Users", document.users, document.users.toList.sortBy { case (user, sums) => (-sums.times.runMs, user) }, json, open = true)(UserColumns) ++
      section("Counters", document.counters, document.counters.toList.sorted, json, open = false)(CounterColumns)
  }

  private def summary(request: HttpServletRequest, document: StatusDocument, ended: Int): Seq[Node] = {
    val (found, app) = (JobSummary.of(document.jobs, document.nowMs), document.application)
    val wait = found.longest.fold[Seq[Node]](Text("none")) { case (job, ms) =>
      Text(s"${length(ms)}: ") ++ link(request, job) ++ Text(job.mark.user.fold("")(" of " + _))
    }
    val risk = found.atRisk.take(MostNamed).zipWithIndex.flatMap { case (job, n) => Text(if (n == 0) " " else ", ") ++ link(request, job) } ++
      (if (found.atRisk.sizeIs > MostNamed) Text(s" and ${found.atRisk.size - MostNamed} more") else Nil)
    val idle = if (app.slots == 0) "" else s"; ${percent(math.max(0, app.slots - app.runningSlots).toDouble / app.slots)} of all slots are idle"
    val dead = document.planner.enabled && !document.planner.alive
    <ul class="list-unstyled sched-summary">
      {document.warnings.flatMap(said => fact("Warning", Text(said), alarming = true))}
      {fact("Jobs", Text(s"${found.waiting} wait, ${found.running} run, ${found.idle} are between actions, $ended ended lately"))}
      {fact("Longest wait", wait)}
      {if (found.deadlines == 0) Nil
      else fact("Deadlines at risk", Text(s"${found.atRisk.size} of ${found.deadlines}${if (found.atRisk.isEmpty) "" else ":"}") ++ risk, found.atRisk.nonEmpty)}
      {fact("Slots", Text(slots(document) + idle), !app.scheduling)}
      {fact("Planner", Text(planner(document)), dead)}
      {fact("Plan", Text(plan(document)))}
      {fact("Mode", Text(mode(document)))}
    </ul>
  }

  private def fact(what: String, content: Seq[Node], alarming: Boolean = false): Seq[Node] =
    <li class={if (alarming) "text-danger" else null}><strong>{what}:</strong> {content}</li>

  private def section[A](title: String, all: Iterable[Any], shown: Seq[A], json: String, open: Boolean)(columns: Seq[Column[A]]): Seq[Node] = {
    val left = all.size - shown.size
    folded(s"$title (${all.size})", open) {
      (if (left > 0) <p>{left} more are in <a href={json}>the whole document</a>.</p> else Nil) ++
        (if (shown.isEmpty) <p>There are none now.</p> else table(columns, shown))
    }
  }

  private def link(request: HttpServletRequest, job: JobFacts): Seq[Node] = {
    val key = URLEncoder.encode(job.mark.key, UTF_8)
    val story = UIUtils.prependBaseUri(request, tab.basePath, s"/${StatusTab.Prefix}/job/?name=$key")
    <a href={story}>{PlainText.short(job.mark.shown)}</a>
  }

  private def columns(request: HttpServletRequest, document: StatusDocument, nowMs: Long): Seq[Column[JobFacts]] = Seq(
    Column[JobFacts]("Job", link(request, _), style = Narrow),
    Column[JobFacts]("User", job => Text(job.mark.user.getOrElse("")), style = Narrow)) ++ Option.when(document.queues.nonEmpty)(
    Column[JobFacts]("Queue", job => Text(job.plan.queue.name.getOrElse("")), style = Narrow)) ++ Seq(
    Column[JobFacts]("Class", job => Text(job.mark.jobClass.getOrElse("")), style = Narrow, minor = true),
    Column.number[JobFacts]("Priority")(_.priority).copy(minor = true),
    Column.text[JobFacts]("State")(_.stateWord).copy(minor = true),
    Column[JobFacts]("Why", why(_, document.whys), style = "min-width: 14em", line = true),
    Column[JobFacts]("Tasks of active stages", progress, job => Some(job.tasksDone.toString), style = "min-width: 8em", minor = true),
    Column.number[JobFacts]("Slots running")(_.runningSlots).copy(minor = true),
    Column.number[JobFacts]("Held")(_.heldSlots).copy(minor = true),
    Column.number[JobFacts]("Waiting")(_.waitingSlots).copy(minor = true),
    Column[JobFacts]("Ends in (80% interval)", job => Text(if (job.outcome.isDefined) "" else endsIn(job, nowMs)),
      job => Some(job.plan.forecast.fold(Long.MaxValue)(_.p50Ms).toString)),
    Column[JobFacts]("Deadline", job => Text(if (job.mark.deadlineMs.isEmpty) "" else deadline(job, nowMs)), job => Some(job.mark.deadlineMs.getOrElse(Long.MaxValue).toString))) ++
    (if (buttons.shownTo(request)) Seq(Column[JobFacts]("Change", job => if (job.outcome.isEmpty) buttons.of(job) else Nil, line = true)) else Nil)

  private def why(job: JobFacts, whys: Map[String, String]): Seq[Node] =
    <span title={PlainText.of(s"plan: ${job.reason}")}>{whys.getOrElse(job.mark.key, "")}</span> ++
      job.mark.warnings.map(w => <div class="text-danger">{w.sentence}</div>)

  private def progress(job: JobFacts): Seq[Node] =
    if (job.tasks == 0) Nil
    else <div title={job.stages.map(s => PlainText.of(stageText(s))).mkString("\n")}>{
      UIUtils.makeProgressBar(job.stages.map(_.running).sum, job.tasksDone, 0, 0, Map.empty, job.tasks)
    }</div>

  private def stageText(stage: StageFacts): String = s"stage ${stage.stage}: ${stage.done}/${stage.tasks} ${stage.name}"
}

/** What happened to the jobs of a name. */
private final class StoryPage(tab: StatusTab, source: StatusSource, buttons: SteeringButtons) extends WebUIPage("job") {
  import StatusCells._

  override def render(request: HttpServletRequest): Seq[Node] = {
    val name = QueryString.value(request, "name").getOrElse("")
    val refused = buttons.access.refusalToRead(request.getHeader)
    lazy val document = source.documentOf(name)
    val title = if (refused.isDefined) name else document.jobs.lastOption.fold(name)(_.mark.shown)
    PlainPage.rendered(s"Story of $title", refused)(content(request, document))(UIUtils.headerSparkPage(request, _, _, tab))
  }

  private def content(request: HttpServletRequest, document: StatusDocument): Seq[Node] =
    if (document.jobs.isEmpty) <p>No such job is known. Jobs that ended are forgotten after some minutes.</p>
    else TablePages.style ++ buttons.script(request, tab.basePath) ++ document.jobs.reverse.flatMap { job =>
      story(job, document, if (job.outcome.isEmpty && buttons.shownTo(request)) buttons.allOf(job) else Nil)
    }

  private def story(job: JobFacts, document: StatusDocument, change: Seq[Node]): Seq[Node] = {
    val about = Seq(
      "State" -> job.state.text,
      "Why" -> document.whys.getOrElse(job.mark.key, "")) ++ (if (job.outcome.isEmpty) Seq("Plan's reason" -> job.reason) else Nil) ++
      job.plan.queue.name.map("Queue" -> _) ++ job.mark.warnings.map("Mark" -> _.sentence) ++ startsIn(job, document.nowMs).map("Starts in" -> _) ++ Seq(
      "Ends in" -> endsIn(job, document.nowMs),
      "Deadline" -> deadline(job, document.nowMs),
      "Slots" -> s"${job.runningSlots} run (${job.copiedSlots} copies, ${job.pilotSlots} pilots), ${job.heldSlots} held idle",
      "Slot time" -> job.slotTimes.inWords(length))
    facts(about) ++ change ++ wide(UIUtils.listingTable[StoryEntry](
      Seq("Time", "What happened"), entry => <tr><td>{UIUtils.formatDate(entry.atMs)}</td><td>{entry.text}</td></tr>,
      document.stories.getOrElse(job.mark.key, Nil)))
  }
}
