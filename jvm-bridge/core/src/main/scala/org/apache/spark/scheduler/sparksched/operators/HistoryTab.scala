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
import schedcore.status.{EventLogWriter, JobFacts, JobFilter, PageOf, SlotTimes, StatusRows}

/** The tab "Scheduling" of an application that is over, from its event log. */
private[sparksched] final class HistoryTab(ui: SparkUI, history: HistoryEntries) extends SparkUITab(ui, StatusTab.Prefix) {
  attachPage(new PastJobsPage(this, history))
  attachPage(new PastStoryPage(this, history))
}

/** What became of each job, what was held and copied for it, and how the planner fared. */
private final class PastJobsPage(tab: HistoryTab, history: HistoryEntries) extends WebUIPage("") {
  import PastCells._
  import TablePages._

  override def render(request: HttpServletRequest): Seq[Node] = {
    val last = history.last
    val jobs = history.of("job").map(_.body: JsonNode).toIndexedSeq
    val filter = filterOf(request)
    val queues = queuesOf(last.map(_.body), jobs)
    val chosen = page(request, jobs.filter(isChosen(filter, _)).reverse)
    val plans = page(request, history.of("plan").toIndexedSeq.reverse, "plans")
    val changes = page(request, history.of("change").toIndexedSeq.reverse, "changes")
    val some = if (filter == JobFilter()) "" else s", ${chosen.all} chosen"
    val content = style ++ last.fold(Seq.empty[Node])(e => StatusCells.facts(lines(e))) ++
      <h4>Jobs ({jobs.size}{some})</h4> ++ filterForm(filter, users(jobs), queues, States) ++
      paged(request, chosen, "page")(jobColumns(request, queues.nonEmpty)) ++
      last.fold(Seq.empty[Node])(e => queueSums(e.body)) ++ last.fold(Seq.empty[Node])(e => sums(e.body, "Users", "user") ++ sums(e.body, "Classes", "class")) ++
      (if (changes.all == 0) Nil else folded(s"Changes by operators (${changes.all})", open = true)(paged(request, changes, "changes")(ChangeColumns))) ++
      folded(s"Planner and plans (${plans.all})", open = plans.number > 1)(paged(request, plans, "plans")(PlanColumns)) ++
      last.fold(Seq.empty[Node]) { e =>
        val counters = firstOf(e.body.path("counters").properties().iterator())
        folded(s"Counters (${counters.size})", open = false)(table(CounterColumns, counters))
      }
    PlainPage.rendered("Scheduling")(content)(UIUtils.headerSparkPage(request, _, _, tab))
  }

  private def paged[A](request: HttpServletRequest, rows: PageOf[A], parameter: String)(columns: Seq[Column[A]]): Seq[Node] =
    if (rows.rows.isEmpty) <p>There were none.</p> else table(columns, rows.rows) ++ links(request, rows, parameter)

  private def sums(body: JsonNode, title: String, group: String): Seq[Node] = {
    val rows = firstOf(body.path(if (group == "user") "users" else "classes").elements())
    if (rows.isEmpty) Nil else folded(s"$title (${rows.size})", open = true)(table(sumColumns(group), rows))
  }

  private def queueSums(body: JsonNode): Seq[Node] = {
    val rows = firstOf(body.path("queues").elements())
    if (rows.isEmpty) Nil else folded(s"Queues (${rows.size})", open = true)(table(QueueColumns, rows))
  }

  private def jobColumns(request: HttpServletRequest, queues: Boolean): Seq[Column[JsonNode]] = Seq(
    Column[JsonNode]("Job", link(request, _)),
    Column.text[JsonNode]("User")(text(_, "user"))) ++ Option.when(queues)(Column.text[JsonNode]("Queue")(text(_, "queue_name"))) ++ Seq(
    Column.text[JsonNode]("Class")(text(_, "class")).copy(minor = true),
    Column.text[JsonNode]("Priority")(text(_, "priority")).copy(minor = true),
    Column.text[JsonNode]("Outcome")(outcome),
    Column[JsonNode]("Submitted", one => Text(UIUtils.formatDate(submittedMs(one))), one => Some(submittedMs(one).toString)),
    length("Waited", waitedMs), length("Completion time", jctMs), Column.text[JsonNode]("Deadline")(one => if (exact(one, "deadline_ms").isEmpty) "" else deadline(one))) ++ times.map(_.copy(minor = true))

  private def link(request: HttpServletRequest, one: JsonNode): Seq[Node] = {
    val key = exact(one, "job")
    def story = UIUtils.prependBaseUri(request, tab.basePath, s"/${StatusTab.Prefix}/job/?name=${URLEncoder.encode(key, UTF_8)}")
    if (key.length <= MostKey) <a href={story}>{shownName(one)}</a> else Text(shownName(one))
  }
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
    PlainPage.rendered(s"Story of ${jobs.lastOption.fold(name)(shownName)}")(content)(UIUtils.headerSparkPage(request, _, _, tab))
  }

  private def story(one: JsonNode): Seq[Node] = {
    facts(Seq(
      "Outcome" -> outcome(one), "Deadline" -> deadline(one)) ++ Some(text(one, "queue_name")).filter(_.nonEmpty).map("Queue" -> _) ++ Seq(
      "Slot time" -> SlotTimes.ofNode(one.path("slot_ms")).inWords(StatusCells.length))) ++
      wide(UIUtils.listingTable[JsonNode](
        Seq("Time", "What happened"),
        entry => <tr><td>{UIUtils.formatDate(entry.path("at_ms").asLong)}</td><td>{text(entry, "text", MostSentence)}</td></tr>,
        firstOf(one.path("story").elements(), EventLogWriter.MostStory)))
  }
}

/** Texts of the cells of both pages. */
private object PastCells {
  val MostRows: Int = StatusRows.Most
  val MostStories = 20
  private val Unsuccessful = Set(JobFacts.Failed, JobFacts.Cancelled)
  val TimeKinds: Seq[String] = Seq("run", "held_idle", "copied", "evicted")
  private val TimeTitles = Seq("Slot time run", "Held idle", "Copied", "Evicted")
  val States: Seq[String] = Seq("ended", "failed", "cancelled", "late", "not ended")

  def times: Seq[Column[JsonNode]] = TimeTitles.zip(TimeKinds).map { case (title, kind) =>
    Column.number[JsonNode](title, StatusCells.length)(_.path("slot_ms").path(kind).asLong).copy(minor = StatusCells.MinorTimes(title))
  }
  def sumColumns(group: String): Seq[Column[JsonNode]] = Seq(
    group.capitalize -> group, "Jobs ended" -> "jobs_ended", "Deadlines met" -> "deadlines_met", "Missed" -> "deadlines_missed").map {
    case (title, field) => Column.text[JsonNode](title)(text(_, field))
  } ++ times
  private def field(of: (String, String)): Column[JsonNode] = Column.text[JsonNode](of._1)(text(_, of._2))
  val QueueColumns: Seq[Column[JsonNode]] = Seq(
    "Queue" -> "queue", "Floor" -> "floor_slots", "Ceiling" -> "ceiling_slots").map(field(_)) ++ Seq(
    Column.text[JsonNode]("Weight")(q => if (q.path("weight").isNumber) StatusCells.weight(q.path("weight").asDouble) else "")) ++ Seq(
    "Most slots" -> "peak_slots", "Refused" -> "refused_jobs").map(field(_)) ++ Seq(
    "Jobs ended" -> "jobs_ended", "Deadlines met" -> "deadlines_met", "Missed" -> "deadlines_missed").map { case (title, field) =>
      Column.text[JsonNode](title)(queue => text(queue.path("sums"), field)).copy(minor = true)
    } ++ times.map(column => column.copy(
      content = (queue: JsonNode) => column.content(queue.path("sums")), order = (queue: JsonNode) => column.order(queue.path("sums"))))
  val ChangeColumns: Seq[Column[HistoryEntries.Entry]] = Seq(
    Column.text[HistoryEntries.Entry]("Time")(e => UIUtils.formatDate(e.timeMs)),
    Column.text[HistoryEntries.Entry]("By")(e => text(e.body, "by")), Column.text[HistoryEntries.Entry]("What")(e => text(e.body, "what")))
  val PlanColumns: Seq[Column[HistoryEntries.Entry]] = Seq(
    Column.text[HistoryEntries.Entry]("Time")(e => UIUtils.formatDate(e.timeMs)),
    Column.text[HistoryEntries.Entry]("Plan in force")(e => planText(e.body)),
    Column.text[HistoryEntries.Entry]("Planner")(e => plannerText(e.body.path("planner"))))
  val CounterColumns: Seq[Column[java.util.Map.Entry[String, JsonNode]]] = Seq(
    Column.text[java.util.Map.Entry[String, JsonNode]]("Counter")(c => LedgerCounts.label(PlainText.short(c.getKey))),
    Column.number[java.util.Map.Entry[String, JsonNode]]("Since the start")(_.getValue.asLong))

  def length(title: String, of: JsonNode => Option[Long]): Column[JsonNode] =
    Column(title, (one: JsonNode) => Text(of(one).fold("")(StatusCells.length)), (one: JsonNode) => Some(of(one).getOrElse(-1L).toString))

  def submittedMs(one: JsonNode): Long = one.path("submitted_ms").asLong

  /** Work that nobody named is shown by what it does. */
  def shownName(one: JsonNode): String = if (one.has("title")) text(one, "title") else text(one, "name")

  def users(jobs: Seq[JsonNode]): Seq[String] = jobs.iterator.map(text(_, "user")).filter(_.nonEmpty).toSet.toList.sorted.take(StatusCells.MostUsers)

  /** @param last the latest document */
  def queuesOf(last: Option[JsonNode], jobs: Seq[JsonNode]): Seq[String] =
    (last.toList.flatMap(body => firstOf(body.path("queues").elements()).map(text(_, "queue"))) ++ jobs.iterator.map(text(_, "queue_name")))
      .filter(_.nonEmpty).distinct.sorted.take(StatusCells.MostUsers)

  def isChosen(filter: JobFilter, one: JsonNode): Boolean = filter.copy(state = "").takes(text(one, "user"), "", shownName(one), text(one, "queue_name")) &&
    (filter.state match {
      case "" => true
      case "not ended" => one.path("outcome").isNull
      case "late" => exact(one, "deadline_ms").nonEmpty && deadline(one).startsWith("missed")
      case "ended" => !one.path("outcome").isNull && !Unsuccessful(text(one, "outcome"))
      case other => text(one, "outcome") == other
    })

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
      "Slots" -> s"${text(app, "slots")} on ${StatusCells.executors(text(app, "executors"))}",
      // It stops before the event of the application's end.
      "Planner" -> (if (entry.kind == "end") plannerCounts _ else plannerText _)(entry.body.path("planner")),
      "Last plan" -> planText(entry.body)) ++
      (if (app.path("scheduling").asBoolean(true)) Nil else Seq("Failure" -> "spark_sched failed, and Spark's own scheduling was in force")) ++
      (if (left > 0) Seq("Left out" -> s"$left jobs, which ended faster than they are logged") else Nil)
  }
}
