package schedcore
package status

import java.time.Instant
import java.time.temporal.ChronoUnit.SECONDS

import schedcore.plan.Start

/**
 * Why a job has the slots that it has, in one sentence for people: what it waits for, who has it, and for about how long.
 *
 * @param all the jobs that are not over: those that run are what others wait for
 */
final class Why(all: Seq[JobFacts], slots: Int, nowMs: Long) {
  import Why._

  private val running = all.filter(_.runningSlots > 0).sortBy(j => (-j.runningSlots, j.arrival))
  private lazy val whoRuns = s"${named(running.map(_.mark.shown))} ${if (running.sizeIs == 1) "runs" else "run"}"
  private val ends = running.flatMap(_.plan.forecast).map(_.p50Ms)

  def of(job: JobFacts): String = PlainText.of(job.state.kind match {
    case "ended" => ended(job)
    case "waiting" if job.plan.queue.waits.isDefined => job.plan.queue.waits.get
    case "on_hold" => JobFacts.OnHold
    case "evicted" => "its tasks were evicted for others: it waits for the next plan"
    case "pilots" => s"a few of its tasks run first, to learn its size; ${slotsOf(job.waitingSlots)} wait for them"
    case "running" => runs(job)
    case "idle" =>
      if (job.heldSlots > 0) s"holds ${slotsOf(job.heldSlots)} until its program submits the next action"
      else "has no work until its program submits the next action"
    case "deferred" => s"waits for ${slotsOf(job.waitingSlots)}: ${deferred(job)}"
    case "held_back" => s"waits for ${slotsOf(job.waitingSlots)}: idle ones are held for ${named(job.heldUpBy)}${start(job)}"
    case _ => s"waits for ${slotsOf(job.waitingSlots)}: ${others(job)}"
  })

  private def runs(job: JobFacts): String = {
    val held = if (job.heldSlots > 0) s", ${job.heldSlots} held for its next stage" else ""
    val full = job.plan.queue.waits.fold("")(said => s": ${said.stripPrefix("waits: ")}")
    val more = if (job.waitingSlots > 0) s", waits for ${job.waitingSlots} more$full" else ""
    s"runs on ${slotsOf(job.runningSlots)}$held$more"
  }

  private def deferred(job: JobFacts): String = job.plan.start match {
    case Start.Spare =>
      if (job.plan.keptFor.isEmpty) "it takes spare ones alone, and there are none"
      else s"free ones are kept for ${named(job.plan.keptFor)}"
    case _ => job.plan.rules.flatMap(_.startMs).fold("the next plan says when it starts") { at =>
      s"the plan starts it at ${Instant.ofEpochMilli(at).truncatedTo(SECONDS)}${about(at)}"
    }
  }

  private def others(job: JobFacts): String =
    if (slots == 0) "no executor is there yet"
    else if (running.isEmpty) "Spark has not offered any yet"
    else s"$whoRuns${start(job)}"

  /** When it starts, or else when the first of those that run ends. */
  private def start(job: JobFacts): String =
    job.plan.forecast.flatMap(_.start).map(_.p50Ms).orElse(ends.minOption).filter(_ > nowMs).fold("")(about)

  private def about(atMs: Long): String = if (atMs > nowMs) s", about ${length(math.max(1000, atMs - nowMs))}" else ""

  private def ended(job: JobFacts): String =
    s"${job.outcome.getOrElse("ended")} after ${length(job.times.endedMs.getOrElse(nowMs) - job.times.submittedMs)}"
}

object Why {
  private val MostNames = 2

  private def slotsOf(n: Int): String = if (n == 1) "1 slot" else s"$n slots"

  private def named(all: Seq[String]): String = {
    val distinct = all.distinct
    val more = distinct.size - MostNames
    val shown = distinct.take(MostNames).map(PlainText.short(_, MostOfName))
    if (more > 0) s"${shown.mkString(", ")} and $more more" else shown.mkString(" and ")
  }

  private val MostOfName = 48

  /** A length of time in its two greatest units, in whole seconds. */
  def length(ms: Long): String = {
    val s = math.max(0L, (ms + 500) / 1000)
    if (s < 60) s"$s s" else if (s < 3600) s"${s / 60} min ${s % 60} s" else s"${s / 3600} h ${s % 3600 / 60} min"
  }
}
