package schedcore
package status

import org.scalatest.funsuite.AnyFunSuite
import schedcore.marks.JobMark
import schedcore.plan.{EndForecast, Plan, PlanNotes}

/** Figures for metrics systems: bounded in number, with sums that never fall. */
final class StatusMetricsSuite extends AnyFunSuite {
  private def mark(id: String, jobClass: Option[String], deadlineMs: Option[Long]): JobMark =
    JobMark.from(Map(JobMark.Prefix + "id" -> id, JobMark.Prefix + "name" -> id).get, 1)
      .copy(jobClass = jobClass, deadlineMs = deadlineMs)

  private def job(id: String, jobClass: Option[String], runMs: Long = 0, deadlineMs: Option[Long] = None): JobFacts = JobFacts(
    mark(id, jobClass, deadlineMs), 1, JobTimes(1000L), 0, 0.0, Nil, 2, 1, 0, SlotTimes(runMs, 50, 0, 0))

  private def document(nowMs: Long, policy: Option[String], classes: Map[String, ClassFigures]): StatusDocument = StatusDocument(
    nowMs, ApplicationFacts("app", "app", "ada", 0L, scheduling = true, 1, 4, 2, 1),
    PlannerFacts(enabled = true, Some(1), None, 3, 0),
    PlanFacts("fair", policy.map(p => Plan(7, 0, nowMs + 500, ordered = true, Map.empty, about = PlanNotes(p, nowMs, None, Some(0.1)))), None, 5, 0, 0),
    Nil, counters = Map("holds_total" -> 9L), classes = classes)

  test("classes beyond the most share a row, and jobs without a class have one") {
    val sums = ClassSums.byClass(most = 2)
    val jobs = Seq(job("a", Some("etl")), job("b", None), job("c", Some("adhoc")), job("d", Some("more")))
    jobs.foreach(j => sums.begun(j.mark))
    sums.over(jobs(3).copy(outcome = Some("ended"), times = JobTimes(1000L, endedMs = Some(5000L))))
    val rows = sums.beside(jobs.take(3), 2000L)
    assert(rows.keySet === Set("etl", "none", "other"))
    assert(rows("other").jobs === 1 && rows("other").ended === 1 && rows("other").jctMs === 4000 && rows("other").times.heldIdleMs === 100)
    assert(rows("etl").slots === SlotKinds(running = 2, held = 1))
  }

  test("users beyond the most share a row") {
    val sums = ClassSums.byUser(most = 1)
    val jobs = Seq("ada", "bob", "cy").map(user => job(user, None)).zip(Seq("ada", "bob", "cy")).map { case (j, user) => j.copy(mark = j.mark.copy(user = Some(user))) }
    jobs.foreach(j => sums.begun(j.mark))
    assert(sums.beside(jobs, 2000L).map { case (user, s) => user -> s.jobs } === Map("ada" -> 1, "other" -> 2))
  }

  test("the sums of a queue have the jobs of the queues below it") {
    def in(queue: String, id: String) = job(id, None, runMs = 100).copy(plan = PlanForJob(queue = JobQueue(Some(queue))))
    val sums = new QueueSums
    sums.over(in("etl.nightly", "a").copy(outcome = Some("ended"), times = JobTimes(1000L, endedMs = Some(5000L))))
    sums.over(job("unqueued", None))
    val found = sums.totals.beside(Seq(in("etl.hourly", "b"), in("bi", "c"), job("d", None)), 2000L)
    assert(found.map { case (queue, s) => queue -> ((s.jobs, s.ended, s.times.runMs)) } === Map(
      "etl" -> ((1, 1L, 200L)), "etl.nightly" -> ((0, 1L, 100L)), "etl.hourly" -> ((1, 0L, 100L)), "bi" -> ((1, 0L, 100L))))
  }

  test("queues are figures, as many as may be, those at the top of the tree first") {
    val queues = QueueFigures("etl", Some(8), 3, 1, 6, 2, 1, 4, Some(2), 90, Some(1.5), ClassFigures(jobs = 3, ended = 7, times = SlotTimes(70, 0, 0, 0))) +:
      QueueFigures("etl.x", None, 3, 1, 6, 2, 1, 4) +: (1 until StatusMetrics.MostQueues).map(n => QueueFigures(s"q$n", None, 0, 0, 0, 0, 0, 0))
    val figures = new StatusMetrics().sample(document(1000, None, Map.empty).copy(queues = queues))
    assert(Seq("floor_slots", "ceiling_slots", "weight", "peak_slots", "jobs", "jobs_ended", "slot_ms.run", "admission.running_jobs",
      "admission.waiting_jobs", "admission.refused_jobs").map(name => figures(s"queue.etl.$name")) === Seq(2, 8, 1.5, 6, 3, 7, 70, 2, 1, 4))
    assert(!figures.contains("queue.etl_x.jobs") && figures.contains(s"queue.q${StatusMetrics.MostQueues - 1}.jobs"))
    assert(Seq("queue.etl.jobs_ended", "queue.etl.slot_ms.run", "queue.etl.admission.refused_jobs").forall(StatusMetrics.isSum))
    assert(!StatusMetrics.isSum("queue.etl.peak_slots") && !StatusMetrics.matters("queue.etl.jobs", 0.0))
  }

  test("groups whose names are one for metrics systems are added up") {
    val one = ClassFigures(jobs = 1)
    val same = Map("a-b" -> one, "a.b" -> one, "c" -> one)
    val queues = Seq("a-b", "a_b", "a.b").map(QueueFigures(_, Some(2), 0, 0, 0, 0, 0, 0, sums = one))
    val figures = new StatusMetrics().sample(document(1000, None, same).copy(users = same, queues = queues))
    assert(Seq("class.a_b.jobs", "user.a_b.jobs", "class.c.jobs", "queue.a_b.jobs", "queue.a_b.ceiling_slots").map(figures) === Seq(2, 2, 1, 3, 6))
    assert(figures("total.jobs") === 3)
  }

  test("deadlines of jobs that ended were met or missed, those of others are at risk when missing is likelier") {
    val sums = ClassSums.byClass()
    val late = job("a", None, deadlineMs = Some(3000L))
    sums.begun(late.mark)
    Seq(2999L, 3000L, 3001L).foreach(end => sums.over(late.copy(outcome = Some("ended"), times = JobTimes(1000L, endedMs = Some(end)))))
    Seq(JobFacts.Failed -> 2000L, JobFacts.Cancelled -> 2000L, JobFacts.Cancelled -> 3001L).foreach { case (outcome, end) =>
      sums.over(late.copy(outcome = Some(outcome), times = JobTimes(1000L, endedMs = Some(end))))
    }
    val risky = late.copy(plan = PlanForJob(forecast = Some(EndForecast(1, 2, 3, Some(0.4)))))
    val row = sums.beside(Seq(late, risky), 2000L)("none")
    assert((row.deadlinesMet, row.deadlinesMissed, row.jobs, row.atRisk) === (2, 3, 2, 1))
    assert(late.atRisk(3001L) && !late.atRisk(3000L))
  }

  test("every number of the document but those of jobs and executors is a figure") {
    val figures = new StatusMetrics().sample(document(1000, Some("fair"), Map("e-t.l" -> ClassFigures(jobs = 2))))
    assert(figures("application.slots") === 4 && figures("application.scheduling") === 1 && figures("planner.restarts") === 3)
    assert(figures("plan.in_force") === 1 && figures("plan.gap") === 0.1 && figures("plan.solve_ms").isNaN)
    assert(figures("counters.holds_total") === 9 && figures("class.e_t_l.jobs") === 2 && figures("total.jobs") === 2)
    assert(figures("planner.silent_ms").isNaN && figures("planner.alive") === 0)
    assert(figures.keys.forall(_.matches("[a-z0-9_.]+")))
    val users = document(1000, None, Map.empty).copy(users = Map("ada" -> ClassFigures(ended = 3, times = SlotTimes(70, 0, 0, 0))))
    val ofUsers = new StatusMetrics().sample(users)
    assert(ofUsers("user.ada.jobs_ended") === 3 && ofUsers("user.ada.slot_ms.run") === 70)
    assert(StatusMetrics.isSum("user.ada.slot_ms.run") && !StatusMetrics.isSum("user.ada.waiting_jobs"))
    assert(StatusMetrics.matters("user.ada.jobs_ended", 3) && !StatusMetrics.matters("user.ada.jobs_ended", 0))
  }

  test("sums that only grow are told from what goes up and down, and a number is one figure only") {
    val found = new StatusMetrics().sample(document(1000, Some("fair"), Map("etl" -> ClassFigures(jobs = 2))).copy(
      counters = Map("holds_total" -> 9L, "slots_held_now" -> 1L, "plans_accepted" -> 5L)))
    val sums = found.keySet.filter(StatusMetrics.isSum)
    assert(Set("counters.holds_total", "planner.plans_accepted", "class.etl.slot_ms.run", "total.jct_ms", "policy.fair.in_force_ms").subsetOf(sums))
    assert((sums & Set("application.slots", "total.jobs", "class.etl.slots.held", "planner.silent_ms", "plan.age_ms", "policy.fair.in_force")) === Set())
    assert((found.keySet & Set("planner.pid", "application.held_slots", "counters.slots_held_now", "counters.plans_accepted")) === Set())
  }

  test("slots that would be held now go up and down: they are no sum, and no highest value is kept") {
    val metrics = new StatusMetrics
    def held(now: Long) = metrics.sample(document(1000, None, Map.empty).copy(
      counters = Map("would_have_slots_held_now" -> now, "would_have_holds_total" -> 9L)))
    held(3)
    assert(held(0)("counters.would_have_slots_held_now") === 0)
    assert(!StatusMetrics.isSum("counters.would_have_slots_held_now") && StatusMetrics.isSum("counters.would_have_holds_total"))
  }

  test("what never happened to a class, a policy or a counter does not matter, nor what is unknown") {
    assert(StatusMetrics.matters("total.jobs", 0) && StatusMetrics.matters("planner.alive", 0))
    assert(!StatusMetrics.matters("counters.evictions", 0) && StatusMetrics.matters("counters.evictions", 1))
    assert(!StatusMetrics.matters("class.etl.slots.pilot", 0) && !StatusMetrics.matters("policy.fair.slot_ms.copied", 0))
    assert(!StatusMetrics.matters("plan.gap", Double.NaN) && StatusMetrics.matters("plan.gap", 0))
  }

  test("time and slot time count for the policy in force, and sums of slot time never fall") {
    val metrics = new StatusMetrics(mostPolicies = 2)
    def at(nowMs: Long, policy: Option[String], runMs: Long) =
      metrics.sample(document(nowMs, policy, Map("none" -> ClassFigures(times = SlotTimes(runMs, 0, 0, 0)))))
    at(1000, Some("fair"), 10)
    at(2000, Some("fair"), 500)
    val without = at(3000, None, 400) // An attempt was evicted: its time counts elsewhere now.
    assert(without("policy.fair.in_force_ms") === 1000 && without("policy.fair.slot_ms.run") === 500)
    assert(without("policy.configured_rules.in_force") === 1 && without("policy.fair.in_force") === 0)
    assert(without("policy.configured_rules.slot_ms.run") === 0 && without("total.slot_ms.run") === 500)
    val third = at(4000, Some("3sigma"), 900)
    assert(third("policy.other.slot_ms.run") === 400 && !third.contains("policy.3sigma.in_force"))
    assert(third("total.slot_ms.run") === third.collect { case (k, v) if k.matches("policy\\..*\\.slot_ms\\.run") => v }.sum)
  }
}
