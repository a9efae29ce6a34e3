package schedcore
package status

import org.scalatest.funsuite.AnyFunSuite
import schedcore.marks.JobMark
import schedcore.plan.{EndForecast, JobPlan, Start, TimeQuantiles}

/** What people read of a job that runs or waits. */
final class WhySuite extends AnyFunSuite {
  private val Now = 1760000000000L
  private val stage = StageFacts("4.0", "count", 8, 0, 0, 8)

  private def named(name: String): JobMark = JobMark.from(Map("id" -> name, "name" -> name).map { case (k, v) => JobMark.Prefix + k -> v }.get, 1)
  private def waits(name: String): JobFacts =
    JobFacts(named(name), 1, JobTimes(Now - 5000), 0, 0.0, Seq(stage), 0, 0, 0, SlotTimes.Zero)
  private def runs(name: String, slots: Int, endMs: Option[Long] = None): JobFacts = waits(name).copy(
    stages = Seq(stage.copy(running = slots, waiting = 0)), runningSlots = slots, times = JobTimes(Now - 5000, Some(Now - 4000)),
    plan = PlanForJob(forecast = endMs.map(at => EndForecast(at, at, at, None))))
  private def why(job: JobFacts, others: JobFacts*)(slots: Int = 8): String = new Why(others :+ job, slots, Now).of(job)

  test("a job that waits names who runs and about how long that lasts") {
    val late = runs("finance-close-3", 8, Some(Now + 40400))
    assert(why(waits("report"), late)() === "waits for 8 slots: finance-close-3 runs, about 40 s")
    assert(why(waits("report"), runs("finance-close-3", 8))() === "waits for 8 slots: finance-close-3 runs")
    assert(why(waits("report"), runs("a", 1), late, runs("b", 2))() === "waits for 8 slots: finance-close-3, b and 1 more run, about 40 s")
    val soon = waits("report").copy(plan = PlanForJob(forecast = Some(EndForecast(0, 0, 0, None, Some(TimeQuantiles(0, Now + 90000, 0))))))
    assert(why(soon, late)() === "waits for 8 slots: finance-close-3 runs, about 1 min 30 s", "its own start is known")
    assert(why(waits("report"))(slots = 0) === "waits for 8 slots: no executor is there yet")
    assert(why(waits("report"))() === "waits for 8 slots: Spark has not offered any yet")
  }

  test("what is kept from a job is told with the jobs that it is kept for") {
    assert(why(waits("report").copy(heldUpBy = Seq("etl")))() === "waits for 8 slots: idle ones are held for etl")
    val spare = waits("report").copy(plan = PlanForJob(Start.Spare, keptFor = Seq("etl", "b", "c", "d")))
    assert(why(spare)() === "waits for 8 slots: free ones are kept for etl, b and 2 more")
    val rules = JobPlan(0, 0, None, startMs = Some(Now + 12000), deferred = true)
    assert(why(waits("report").copy(plan = PlanForJob(Start.Planned, Some(rules))))() ===
      "waits for 8 slots: the plan starts it at 2025-10-09T08:53:32Z, about 12 s")
    assert(why(waits("report").copy(plan = PlanForJob(Start.Unplanned)))() === "waits for 8 slots: the next plan says when it starts")
    assert(why(waits("report").copy(plan = PlanForJob(Start.Evicted)))() === "its tasks were evicted for others: it waits for the next plan")
    assert(why(waits("report").copy(onHold = true))() === JobFacts.OnHold)
  }

  test("a job whose queue lets it have no slot says so, whoever runs, and the plan's reason stays the plan's") {
    val rules = JobPlan(0, 0, None, reason = "shortest first")
    for (full <- Seq("waits: queue etl is at its ceiling of 8 slots", "waits to be admitted: queue etl runs 1 job, its most; number 1 of those that wait")) {
      val queued = waits("report").copy(plan = PlanForJob(Start.Now, Some(rules), queue = JobQueue(Some("etl"), Some(full))))
      assert(why(queued, runs("load", 3))() === full)
      assert(why(queued)() === full)
      assert(why(queued.copy(onHold = true))() === JobFacts.OnHold)
      assert(queued.reason === "shortest first")
      val part = queued.copy(stages = Seq(stage.copy(running = 2, waiting = 6)), runningSlots = 2)
      assert(why(part)() === s"runs on 2 slots, waits for 6 more: ${full.stripPrefix("waits: ")}")
    }
  }

  test("a stage that can never start is named with what it needs, what there is, and what to do") {
    val gang = stage.copy(tasks = 12, waiting = 12, atOnce = 12)
    val never = gang.neverStarts("queue etl has at most 8", "raise the ceiling")
    assert(never === "stage 4.0 needs 12 slots at once, and queue etl has at most 8: raise the ceiling, make the stage smaller, or cancel the job")
    assert(stage.copy(slotsPerTask = 4, atOnce = 4).neverStarts("queue etl has at most 2", "raise the ceiling") ===
      "each task of stage 4.0 needs 4 slots, and queue etl has at most 2: raise the ceiling, give its tasks fewer cores, or cancel the job")
    val stories = new JobStories
    val job = waits("report").copy(stages = Seq(gang, stage), plan = PlanForJob(queue = JobQueue(Some("etl"), None, Seq(never))))
    stories.submitted(job.mark.key, Now)
    for (later <- 0 to 2) stories.look(job, Now + later)
    assert(stories.of(job.mark.key).map(_.text) === Seq("submitted", "waiting for slots, wants 20 slots", never), "once, beside another stage")
    stories.look(job.copy(plan = PlanForJob(queue = JobQueue(Some("etl"), Some(s"waits: $never"), Seq(never)))), Now + 9)
    assert(stories.of(job.mark.key).map(_.text).count(_.contains(never)) === 2, "the state, when nothing else of the job can start")
  }

  test("a job that does not wait says what it has") {
    val job = runs("report", 3)
    assert(why(job)() === "runs on 3 slots")
    assert(why(job.copy(heldSlots = 2, stages = Seq(stage.copy(running = 3, waiting = 1))))() ===
      "runs on 3 slots, 2 held for its next stage, waits for 1 more")
    assert(why(job.copy(stages = Nil, runningSlots = 0))() === "has no work until its program submits the next action")
    assert(why(job.copy(stages = Nil, runningSlots = 0, heldSlots = 1))() === "holds 1 slot until its program submits the next action")
    assert(why(job.copy(outcome = Some(JobFacts.Failed), times = JobTimes(Now - 7300000, None, Some(Now))))() === "failed after 2 h 1 min")
  }
}
