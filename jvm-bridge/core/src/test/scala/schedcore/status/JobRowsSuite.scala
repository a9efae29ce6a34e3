package schedcore
package status

import org.scalatest.funsuite.AnyFunSuite
import schedcore.marks.JobMark

/** Which of many jobs a page shows, and which of them first. */
final class JobRowsSuite extends AnyFunSuite {
  private val Now = 100000L
  private val stage = StageFacts("4.0", "count", 8, 0, 0, 8)

  private def job(name: String, user: String = "ada", submittedMs: Long = 90000): JobFacts = JobFacts(
    JobMark.from(Map("id" -> name, "name" -> name).map { case (k, v) => JobMark.Prefix + k -> v }.get, 1).copy(user = Some(user)), 1,
    JobTimes(submittedMs), 0, 0.0, Seq(stage), 0, 0, 0, SlotTimes.Zero)
  private def runs(name: String): JobFacts = job(name).copy(runningSlots = 2, times = JobTimes(0, Some(1)))
  private def ended(name: String, atMs: Long, outcome: String = "ended"): JobFacts =
    job(name).copy(stages = Nil, outcome = Some(outcome), times = JobTimes(0, Some(1), Some(atMs)))
  private val resting = job("rests").copy(stages = Nil)
  private val late = runs("late").copy(mark = runs("late").mark.copy(deadlineMs = Some(Now - 1)))
  private val living = Seq(resting, runs("runs"), job("waits"), job("waits longer", "bob", 1000), late)
  private val over = Seq(ended("old", 500), ended("new", 700, JobFacts.Failed))

  private def names(user: String = "", state: String = "", name: String = ""): Seq[String] =
    JobRows.chosen(living, over, JobFilter(user, state, name), Now).map(_.mark.name)

  test("first comes what needs attention, and last what ended, the latest first") {
    assert(names() === Seq("late", "waits longer", "waits", "runs", "rests", "new", "old"))
  }

  test("jobs are chosen by user, state and a part of the name, whatever its case") {
    assert(names(user = "bob") === Seq("waits longer"))
    assert(JobFilter("a b\uFFFD").takes(" a \n b\u202e", "idle", "x"), "as a browser sends it")
    assert(names(state = "waiting") === Seq("waits longer", "waits"))
    assert(names(state = "running") === Seq("late", "runs"))
    assert(names(state = "idle") === Seq("rests"))
    assert(names(state = "ended") === Seq("new", "old"))
    assert(names(state = "not ended") === Seq("late", "waits longer", "waits", "runs", "rests"))
    assert(names(name = "WAITS") === Seq("waits longer", "waits"))
    assert(names(user = "ada", state = "waiting", name = "wait") === Seq("waits"))
    assert(names(state = "no such state").isEmpty)
  }

  test("jobs are chosen by their queue or one above it") {
    def in(queue: String)(job: JobFacts): JobFacts = job.copy(plan = job.plan.copy(queue = JobQueue(Some(queue))))
    val queued = Seq(in("etl.nightly")(job("load")), in("etl-2")(job("copy")), job("none"))
    def named(queue: String) = JobRows.chosen(queued, Seq(in("etl")(ended("old", 500))), JobFilter(queue = queue), Now).map(_.mark.name)
    assert(named("etl") === Seq("load", "old"))
    assert(named("etl.nightly") === Seq("load"))
    assert(named("") === Seq("load", "copy", "none", "old"))
    assert(named("etl.hourly").isEmpty)
  }

  test("every job is on one page, and a page that there is not is the nearest") {
    val all = (1 to 121).toIndexedSeq
    val pages = (1 to 3).map(n => PageOf.of(all, Some(n.toString)))
    assert(pages.flatMap(_.rows) === all)
    assert(pages.map(p => (p.number, p.pages, p.all)) === Seq((1, 3, 121), (2, 3, 121), (3, 3, 121)))
    assert(Seq(None, Some("x"), Some("0"), Some("-3")).map(PageOf.of(all, _).number) === Seq(1, 1, 1, 1))
    assert(PageOf.of(all, Some("99")).number === 3)
    assert(PageOf.of(Vector.empty[Int], Some("2")) === PageOf(Nil, 1, 1, 0))
  }

  test("the summary counts who waits, the longest wait and deadlines at risk") {
    val found = JobSummary.of(living, Now)
    assert((found.running, found.waiting, found.idle, found.deadlines) === (2, 2, 1, 1))
    assert(found.longest.map { case (j, ms) => j.mark.name -> ms } === Some("waits longer" -> 99000L))
    assert(found.atRisk.map(_.mark.name) === Seq("late"))
    assert(JobSummary.of(Nil, Now) === JobSummary(0, 0, 0, None, 0, Nil))
  }
}
