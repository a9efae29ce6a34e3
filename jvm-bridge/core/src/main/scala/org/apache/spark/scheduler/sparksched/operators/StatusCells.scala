package org.apache.spark.scheduler.sparksched
package operators

import java.util.Locale

import scala.xml.{Node, Text}

import org.apache.spark.ui.UIUtils
import schedcore.ledger.LedgerCounts
import schedcore.plan.TimeQuantiles
import schedcore.settings.Modes
import schedcore.status.{ClassFigures, ExecutorFacts, JobFacts, QueueFigures, SlotTimes, StatusDocument}

/** Texts of cells and lines of both pages. Scala's XML literals escape names. */
private object StatusCells {
  /** Slot time that most jobs have none of. */
  val MinorTimes: Set[String] = Set("Copied", "Evicted")
  val ExecutorColumns: Seq[Column[ExecutorFacts]] = Seq(
    Column.text("Executor")(_.executor), Column.text("Host")(_.host), Column.number("Slots")(_.slots), Column.number("Running")(_.runningSlots),
    Column.number("Copies")(_.copiedSlots), Column.number("Pilots")(_.pilotSlots), Column.number("Held")(_.heldSlots),
    Column.text("Held for")(_.held.map(h => s"${h.name} (${h.slots})").mkString(", ")))
  val UserColumns: Seq[Column[(String, ClassFigures)]] = Seq(
    Column.text[(String, ClassFigures)]("User")(_._1)) ++ Seq[(String, ClassFigures => Long)](
    "Jobs" -> (_.jobs), "Waiting" -> (_.waiting), "At risk" -> (_.atRisk), "Ended" -> (_.ended), "Slots running" -> (_.slots.running),
    "Held" -> (_.slots.held)).map { case (title, of) => Column.number[(String, ClassFigures)](title)(row => of(row._2)) } ++
    Seq[(String, SlotTimes => Long)](
      "Slot time run" -> (_.runMs), "Held idle" -> (_.heldIdleMs), "Copied" -> (_.copiedMs), "Evicted" -> (_.evictedMs)).map {
      case (title, of) => Column.number[(String, ClassFigures)](title, length)(row => of(row._2.times)).copy(minor = MinorTimes(title))
    }
  val QueueColumns: Seq[Column[QueueFigures]] = {
    def of(title: String)(text: QueueFigures => String): Column[QueueFigures] = Column.text[QueueFigures](title)(text)
    def limit(title: String)(of: QueueFigures => Option[Int]): Column[QueueFigures] = Column[QueueFigures](
      title, (q: QueueFigures) => Text(of(q).fold("")(_.toString)), (q: QueueFigures) => Some(of(q).getOrElse(Int.MaxValue).toString))
    Seq(
      of("Queue")(_.queue), Column.number("Slots running")(_.running), Column.number("Held")(_.held),
      Column.number("Waiting")(_.sums.slots.waiting), limit("Floor")(_.floor), limit("Ceiling")(_.ceiling),
      Column[QueueFigures]("Weight", q => Text(q.weight.fold("")(weight)), q => q.weight.map(_.toString)),
      Column.number[QueueFigures]("Jobs running")(_.jobs).copy(minor = true), Column.number[QueueFigures]("To be admitted")(_.waiting),
      Column.number[QueueFigures]("Refused")(_.refused).copy(minor = true), Column.number[QueueFigures]("Ended")(_.sums.ended).copy(minor = true),
      Column.number("Slot time run", length)(_.sums.times.runMs), Column.number[QueueFigures]("Held idle", length)(_.sums.times.heldIdleMs).copy(minor = true))
  }
  val CounterTitles: Seq[String] = Seq("Counter", "Since the start")
  val CounterColumns: Seq[Column[(String, Long)]] = Seq(
    Column.text[(String, Long)](CounterTitles.head)(c => LedgerCounts.label(c._1)), Column.number[(String, Long)](CounterTitles.last)(_._2))
  /** Users that a page lets choose from, and jobs at risk that it names. */
  val MostUsers = 200
  val MostNamed = 5

  /** Of cells with texts that tenants choose: a long one moves no other column out of sight. */
  val Narrow = "min-width: 6em; max-width: 20em; overflow-wrap: anywhere"

  /** On a narrow screen the table scrolls, not the page. */
  def wide(table: Seq[Node]): Seq[Node] = <div class="table-responsive">{table}</div>

  def facts(lines: Seq[(String, String)]): Seq[Node] =
    <ul class="list-unstyled">{lines.map { case (what, text) => <li><strong>{what}:</strong> {text}</li> }}</ul>

  def slots(document: StatusDocument): String = {
    val app = document.application
    if (!app.scheduling) "spark_sched has failed, and Spark's own scheduling is in force"
    else s"${app.runningSlots} of ${app.slots} run tasks on ${executors(app.executors.toString)}, ${app.heldSlots} are held idle" +
      (if (app.keptFreeSlots > 0) s", ${app.keptFreeSlots} are kept free by the plan" else "") +
      (if (document.reservationsPaused) ", reservations are paused" else "")
  }

  def executors(number: String): String = if (number == "1") "1 executor" else s"$number executors"

  def mode(document: StatusDocument): String = document.mode match {
    case Modes.Shadow => "shadow: plans and holds are on paper only, Spark's own order applies"
    case Modes.Off => "off: Spark's own order applies"
    case other => other
  }

  def planner(document: StatusDocument): String = {
    val p = document.planner
    val state =
      if (!p.enabled) "switched off"
      else if (p.alive) s"alive (pid ${p.pid.getOrElse("")}, heard of ${length(p.silentMs.getOrElse(0L))} ago)"
      else if (p.pid.isDefined) "starting"
      else "not running"
    val plans = document.plans
    s"$state, ${p.restarts} restarts, ${plans.accepted} plans accepted, ${plans.rejected} rejected, ${plans.fallbacks} ran out"
  }

  def plan(document: StatusDocument): String = document.plans.inForce match {
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
    if (at.p90Ms < nowMs) "overdue" else s"${in(at.p50Ms)} (${in(at.p10Ms)} to ${in(at.p90Ms)})"
  }

  def deadline(job: JobFacts, nowMs: Long): String = job.mark.deadlineMs.fold("none") { at =>
    val when = if (at >= nowMs) s"in ${length(at - nowMs)}" else s"passed ${length(nowMs - at)} ago"
    job.plan.forecast.flatMap(_.deadlineProbability).fold(when)(p => s"$when, met with ${percent(p)}")
  }

  /** Without the fraction that whole weights have none of. */
  def weight(of: Double): String = if (of == of.toLong) of.toLong.toString else of.toString

  def length(ms: Long): String = UIUtils.formatDuration(math.max(0L, ms))
  def percent(share: Double): String = "%.1f%%".formatLocal(Locale.ROOT, 100.0 * share)
}
