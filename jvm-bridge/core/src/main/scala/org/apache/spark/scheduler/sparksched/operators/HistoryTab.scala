package org.apache.spark.scheduler.sparksched
package operators

import java.net.URLEncoder
import java.nio.charset.StandardCharsets.UTF_8

import scala.jdk.CollectionConverters._
import scala.xml.{Node, Text}

import com.fasterxml.jackson.databind.JsonNode
import jakarta.servlet.http.HttpServletRequest
import org.apache.spark.ui.{SparkUI, SparkUITab, UIUtils, WebUIPage}
import schedcore.PlainText
import schedcore.ledger.LedgerCounts
import schedcore.marks.JobMark
import schedcore.operators.CalledJobs
import schedcore.status.{EventLogBook, JobFacts, SlotTimes, StatusRows}

/** The tab "Scheduling" of an application that is over, from its event log. */
private[sparksched] final class HistoryTab(ui: SparkUI, history: HistoryEntries) extends SparkUITab(ui, StatusTab.Prefix) {
  attachPage(new PastJobsPage(this, history))
  attachPage(new PastStoryPage(this, history))
}

/** What became of each job, what was held and copied for it, and how the planner fared. */
private final class PastJobsPage(tab: HistoryTab, history: HistoryEntries) extends WebUIPage("") {
  import PastCells._
  import StatusCells.{facts, wide}

  override def render(request: HttpServletRequest): Seq[Node] = {
    val last = history.last
    val jobs = history.of("job").map(_.body)
    val plans = history.of("plan")
    val changes = history.of("change")
    val content = last.fold(Seq.empty[Node])(e => facts(lines(e))) ++
      table("Jobs", JobColumns, jobs.takeRight(MostRows).reverse, jobs.size)(job(_, request)) ++
      last.fold(Seq.empty[Node])(e => section("Classes", ClassColumns, firstOf(e.body.path("classes").elements()))(jobClass)) ++
      table("Planner and plans", PlanColumns, plans.takeRight(MostRows).reverse, plans.size)(plan) ++
      (if (changes.isEmpty) Nil else table("Changes by operators", ChangeColumns, changes.takeRight(MostRows).reverse, changes.size)(change)) ++
      last.fold(Seq.empty[Node])(e => section("Counters", StatusCells.CounterColumns, firstOf(e.body.path("counters").properties().iterator())) { c =>
        <tr><td>{LedgerCounts.label(PlainText.short(c.getKey))}</td><td>{c.getValue.asLong}</td></tr>
      })
    PlainPage.rendered("Scheduling")(content)(UIUtils.headerSparkPage(request, _, _, tab))
  }

  private def section[A](title: String, columns: Seq[String], rows: Seq[A])(row: A => Seq[Node]): Seq[Node] =
    table(title, columns, rows, rows.size)(row)

  private def table[A](title: String, columns: Seq[String], rows: Seq[A], all: Int)(row: A => Seq[Node]): Seq[Node] =
    <h4>{title} ({all})</h4> ++
      (if (all > rows.size) <p>The last {rows.size} are shown.</p> else Nil) ++
      (if (rows.isEmpty) <p>There were none.</p> else wide(UIUtils.listingTable[A](columns, row, rows)))

  private def job(one: JsonNode, request: HttpServletRequest): Seq[Node] = {
    val key = exact(one, "job")
    def story = UIUtils.prependBaseUri(request, tab.basePath, s"/${StatusTab.Prefix}/job/?name=${URLEncoder.encode(key, UTF_8)}")
    val name = text(one, "name")
    val submitted = one.path("submitted_ms").asLong
    <tr>
      <td>{if (key.length <= MostKey) <a href={story}>{name}</a> else Text(name)}</td>
      <td>{text(one, "user")}</td>
      <td>{text(one, "class")}</td>
      <td>{text(one, "priority")}</td>
      <td>{outcome(one)}</td>
      <td sorttable_customkey={submitted.toString}>{UIUtils.formatDate(submitted)}</td>
      <td sorttable_customkey={waitedMs(one).getOrElse(-1L).toString}>{waitedMs(one).fold("")(StatusCells.length)}</td>
      <td sorttable_customkey={jctMs(one).getOrElse(-1L).toString}>{jctMs(one).fold("")(StatusCells.length)}</td>
      <td>{deadline(one)}</td>
      {TimeKinds.map { kind =>
        val ms = one.path("slot_ms").path(kind).asLong
        <td sorttable_customkey={ms.toString}>{StatusCells.length(ms)}</td>
      }}
    </tr>
  }

  private def jobClass(one: JsonNode): Seq[Node] =
    <tr>
      <td>{text(one, "class")}</td>
      <td>{text(one, "jobs_ended")}</td>
      <td>{text(one, "deadlines_met")}</td>
      <td>{text(one, "deadlines_missed")}</td>
      {TimeKinds.map(kind => <td>{StatusCells.length(one.path("slot_ms").path(kind).asLong)}</td>)}
    </tr>

  private def change(entry: HistoryEntries.Entry): Seq[Node] =
    <tr>
      <td>{UIUtils.formatDate(entry.timeMs)}</td>
      <td>{text(entry.body, "by")}</td>
      <td>{text(entry.body, "what")}</td>
    </tr>

  private def plan(entry: HistoryEntries.Entry): Seq[Node] =
    <tr>
      <td>{UIUtils.formatDate(entry.timeMs)}</td>
      <td>{planText(entry.body)}</td>
      <td>{plannerText(entry.body.path("planner"))}</td>
    </tr>
}

/** What happened to a job. */
private final class PastStoryPage(tab: HistoryTab, history: HistoryEntries) extends WebUIPage("job") {
  import PastCells._
  import StatusCells.{facts, wide}

  override def render(request: HttpServletRequest): Seq[Node] = {
    val name = QueryString.value(request, "name").getOrElse("")
    val jobs = CalledJobs.first(history.of("job").map(_.body))(
      exact(_, "job") == name, exact(_, "job") == JobMark.keyOf(name), exact(_, "name") == name)
    val content: Seq[Node] =
      if (jobs.isEmpty) <p>The event log has no such job.</p> else jobs.takeRight(MostStories).reverse.flatMap(story)
    PlainPage.rendered(s"Story of ${jobs.lastOption.fold(name)(text(_, "name"))}")(content)(UIUtils.headerSparkPage(request, _, _, tab))
  }

  private def story(one: JsonNode): Seq[Node] = {
    facts(Seq(
      "Outcome" -> outcome(one), "Deadline" -> deadline(one),
      "Slot time" -> SlotTimes.ofNode(one.path("slot_ms")).inWords(StatusCells.length))) ++
      wide(UIUtils.listingTable[JsonNode](
        Seq("Time", "What happened"),
        entry => <tr><td>{UIUtils.formatDate(entry.path("at_ms").asLong)}</td><td>{text(entry, "text", MostSentence)}</td></tr>,
        firstOf(one.path("story").elements(), EventLogBook.MostStory)))
  }
}

/** Texts of the cells of both pages. */
private object PastCells {
  val MostRows: Int = StatusRows.Most
  val MostStories = 20
  private val Unsuccessful = Set(JobFacts.Failed, JobFacts.Cancelled)
  val TimeKinds: Seq[String] = Seq("run", "held_idle", "copied", "evicted")
  private val TimeColumns = Seq("Slot time run", "Held idle", "Copied", "Evicted")
  val JobColumns: Seq[String] =
    Seq("Job", "User", "Class", "Priority", "Outcome", "Submitted", "Waited", "Completion time", "Deadline") ++ TimeColumns
  val ClassColumns: Seq[String] = Seq("Class", "Jobs ended", "Deadlines met", "Missed") ++ TimeColumns
  val ChangeColumns: Seq[String] = Seq("Time", "By", "What")
  val PlanColumns: Seq[String] = Seq("Time", "Plan in force", "Planner")

  /** Characters of a job's key that a link may have: what the driver gives keys is shorter. */
  val MostKey = 2048
  /** Characters of a sentence in a story. The names in it have a length each. */
  val MostSentence = 2048

  def exact(node: JsonNode, field: String): String = {
    val value = node.path(field)
    if (value.isNull) "" else value.asText
  }

  /** For people. Nothing but the driver bounds what it logs, and another program may have written the log. */
  def text(node: JsonNode, field: String, most: Int = PlainText.Most): String = PlainText.short(exact(node, field), most)

  def firstOf[A](all: java.util.Iterator[A], most: Int = MostRows): Seq[A] = all.asScala.take(most).toList

  private def long(node: JsonNode, field: String): Option[Long] = Some(node.path(field)).filter(_.isNumber).map(_.asLong)

  def outcome(one: JsonNode): String =
    if (one.path("outcome").isNull) s"not over at the application's end: ${text(one, "state_text")}" else text(one, "outcome")

  def waitedMs(one: JsonNode): Option[Long] = long(one, "begun_ms").map(_ - one.path("submitted_ms").asLong)
  def jctMs(one: JsonNode): Option[Long] = long(one, "ended_ms").map(_ - one.path("submitted_ms").asLong)

  def deadline(one: JsonNode): String = long(one, "deadline_ms").fold("none") { at =>
    long(one, "ended_ms") match {
      case None => UIUtils.formatDate(at)
      case Some(end) if end <= at && Unsuccessful(text(one, "outcome")) => s"not met: ${text(one, "outcome")}"
      case Some(end) if end <= at => s"met, ${StatusCells.length(at - end)} early"
      case Some(end) => s"missed by ${StatusCells.length(end - at)}"
    }
  }

  def planText(body: JsonNode): String = {
    val plan = body.path("plan")
    if (plan.isObject) s"${text(plan, "number")} of policy ${text(plan, "policy")}" else "none: the configured rules apply"
  }

  def plannerText(planner: JsonNode): String =
    (if (planner.path("alive").asBoolean) "alive" else if (planner.path("enabled").asBoolean) "not running" else "switched off") +
      s", ${plannerCounts(planner)}"

  private def plannerCounts(planner: JsonNode): String =
    s"${text(planner, "restarts")} restarts, ${text(planner, "plans_accepted")} plans accepted, " +
      s"${text(planner, "plans_rejected")} rejected, ${text(planner, "plan_fallbacks")} ran out"

  def lines(entry: HistoryEntries.Entry): Seq[(String, String)] = {
    val app = entry.body.path("application")
    val until = if (entry.kind == "end") "at the application's end" else s"at ${UIUtils.formatDate(entry.timeMs)}: the log has no end"
    val left = entry.body.path("left_out").path("jobs").asLong
    Seq(
      "Recorded until" -> until,
      "Slots" -> s"${text(app, "slots")} on ${text(app, "executors")} executors",
      // It stops before the event of the application's end.
      "Planner" -> (if (entry.kind == "end") plannerCounts _ else plannerText _)(entry.body.path("planner")),
      "Last plan" -> planText(entry.body)) ++
      (if (app.path("scheduling").asBoolean(true)) Nil else Seq("Failure" -> "spark_sched failed, and Spark's own scheduling was in force")) ++
      (if (left > 0) Seq("Left out" -> s"$left jobs, which ended faster than they are logged") else Nil)
  }
}
