package org.apache.spark.scheduler.sparksched
package operators

import java.net.URLEncoder
import java.nio.charset.StandardCharsets.UTF_8

import scala.xml.{Node, Text, Unparsed}

import jakarta.servlet.http.HttpServletRequest
import org.apache.spark.ui.UIUtils
import schedcore.PlainText
import schedcore.status.{JobFilter, PageOf}

/**
 * A column of a table.
 *
 * @param content of a row's cell
 * @param order by which the table is sorted where the text does not say it
 * @param minor left out on a narrow screen
 * @param line has a line of its own there
 */
private[sparksched] final case class Column[A](
    title: String, content: A => Seq[Node], order: A => Option[String] = (_: A) => None, style: String = null, minor: Boolean = false,
    line: Boolean = false)

private[sparksched] object Column {
  def text[A](title: String)(of: A => String): Column[A] = Column(title, (a: A) => Text(of(a)))
  def number[A](title: String, shown: Long => String = _.toString)(of: A => Long): Column[A] =
    Column(title, (a: A) => Text(shown(of(a))), (a: A) => Some(of(a).toString))
}

/**
 * Tables of many rows: what of them a request asks for, in parameters of its address, and the links to the rest. On a narrow screen
 * each row becomes a block, in which the columns' titles stand before the cells.
 */
private[sparksched] object TablePages {
  private val Style =
    """.sched-summary li { margin-bottom: 0.1em; }
      |.sched-filter > * { margin: 0 0.4em 0.4em 0; vertical-align: middle; }
      |details.sched > summary { font-size: 1.25rem; margin: 0.5em 0; cursor: pointer; }
      |.sched-filter button, button[data-sched-action] { color: inherit; }
      |@media (max-width: 640px) {
      |  .sched-rows table, .sched-rows tbody, .sched-rows tr { display: block; width: 100%; }
      |  .sched-rows thead { display: none; }
      |  .sched-rows tr { padding: 0.4em 0; border-bottom: 2px solid rgba(128, 128, 128, 0.5); }
      |  .sched-rows table.table td { display: inline-block; width: auto; border: 0; padding: 0.1em 0.3em; margin-right: 0.6em; }
      |  .sched-rows table.table td { min-width: 0 !important; max-width: 100% !important; background: none; box-shadow: none; }
      |  .sched-rows table.table td:first-child, .sched-rows table.table td.sched-line { display: block; }
      |  .sched-rows table.table td:empty, .sched-rows table.table td.sched-minor { display: none; }
      |  .sched-rows td::before { content: attr(data-label) ": "; font-weight: bold; }
      |  .sched-rows td:first-child::before { content: ""; }
      |}""".stripMargin

  /** To be in a page once. */
  def style: Seq[Node] = <style>{Unparsed(Style)}</style>

  def filterOf(request: HttpServletRequest): JobFilter = {
    def given(name: String) = QueryString.value(request, name).fold("")(_.trim)
    JobFilter(given("user"), given("state"), given("name"), given("queue"))
  }

  /** @param parameter of the address that has the page's number */
  def page[A](request: HttpServletRequest, all: IndexedSeq[A], parameter: String = "page"): PageOf[A] =
    PageOf.of(all, QueryString.value(request, parameter))

  /**
   * What is chosen is the text of an option: no attribute of the page holds what a tenant wrote.
   *
   * @param users to choose from
   * @param queues likewise; none where the application has none
   */
  def filterForm(filter: JobFilter, users: Seq[String], queues: Seq[String], states: Seq[String]): Seq[Node] = {
    def options(all: Seq[String], chosen: String, none: String): Seq[Node] = {
      val (labels, label) = (all.map(JobFilter.label).distinct, JobFilter.label(chosen))
      <option value="">{none}</option> ++ (if (label.isEmpty || labels.contains(label)) labels else label +: labels).map { each =>
        <option selected={if (each == label) "selected" else null}>{each}</option>
      }
    }
    <form method="get" class="sched-filter">
      <select name="user" class={Choice} aria-label="user">{options(users, filter.user, "all users")}</select>
      {if (queues.isEmpty && filter.queue.isEmpty) Nil
      else <select name="queue" class={Choice} aria-label="queue">{options(queues, filter.queue, "all queues")}</select>}
      <select name="state" class={Choice} aria-label="state">{options(states, filter.state, "all states")}</select>
      <input type="search" name="name" class={Field} value={PlainText.shown(filter.name)} placeholder="name contains" aria-label="name contains"/>
      <button type="submit" class="btn btn-outline-secondary btn-sm">Filter</button>
      {if (filter == JobFilter()) Nil else <a href="?">show all</a>}
    </form>
  }

  /** Links to the other pages, which keep the request's other parameters. */
  def links(request: HttpServletRequest, page: PageOf[_], parameter: String = "page"): Seq[Node] =
    if (page.pages == 1) Nil
    else {
      def to(number: Int, text: String): Seq[Node] =
        if (number < 1 || number > page.pages || number == page.number) Text(text)
        else <a href={s"?${query(request, parameter, number.toString)}"}>{text}</a>
      val shown = page.rows.size
      val first = if (shown == 0) 0 else (page.number - 1) * PageOf.Rows + 1
      <p>{to(1, "« first")} {to(page.number - 1, "‹ previous")}
        rows {first} to {first + shown - 1} of {page.all}
        {to(page.number + 1, "next ›")} {to(page.pages, "last »")}</p>
    }

  private def query(request: HttpServletRequest, parameter: String, value: String): String = {
    val others = Seq("user", "queue", "state", "name", "page", "plans", "changes").filter(_ != parameter)
      .flatMap(name => QueryString.value(request, name).filter(_.nonEmpty).map(name -> _))
    (others :+ (parameter -> value)).map { case (name, v) => s"$name=${URLEncoder.encode(v, UTF_8)}" }.mkString("&")
  }

  def table[A](columns: Seq[Column[A]], rows: Seq[A]): Seq[Node] =
    <div class="table-responsive sched-rows">{UIUtils.listingTable[A](columns.map(_.title), (row: A) =>
      <tr>{columns.map(c => <td data-label={c.title} class={if (c.minor) "sched-minor" else if (c.line) "sched-line" else null} style={c.style} sorttable_customkey={c.order(row).orNull}>{c.content(row)}</td>)}</tr>, rows)}</div>

  /** A part of the page that opens on a click. */
  def folded(title: String, open: Boolean)(content: => Seq[Node]): Seq[Node] =
    <details class="sched" open={if (open) "open" else null}><summary>{title}</summary>{content}</details>

  val Field = "form-control form-control-sm d-inline-block w-auto"
  /** Of lists. The first two are Bootstrap 5's, the others those of Bootstrap 4, which Spark 3.5 has: each draws an arrow. */
  val Choice = "form-select form-select-sm custom-select custom-select-sm d-inline-block w-auto"
}
