package schedcore
package status

import java.nio.file.Files

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import org.scalatest.funsuite.AnyFunSuite
import schedcore.ledger.SlotUse
import schedcore.marks.JobMark
import schedcore.settings.MarkWarning
import schedcore.plan.{EndForecast, JobPlan, Plan, PlanNotes, ReservationRule, Start}

/** What people are told of a job: its state, its slot time, its story, and the document on the wire. */
final class StatusSuite extends AnyFunSuite {
  private val mark = JobMark.from(Map("id" -> "1", "name" -> "nightly-report", "priority" -> "10").map {
    case (k, v) => JobMark.Prefix + k -> v
  }.get, 1)
  private val stage = StageFacts("4.0", "reduceByKey at report.py:12", 8, 3, 4, 1)
  private val job = JobFacts(
    mark.copy(user = Some("ada"), deadlineMs = Some(1760000900000L), jobClass = Some("batch")), 1,
    JobTimes(1760000000000L, Some(1760000001000L)), 10, 0.9, Seq(stage), 4, 2, 1, SlotTimes(48000, 3000, 0, 700))
  private val planned = JobPlan(0, 10, Some(ReservationRule()), reason = "first by priority 10")
  private val idle = job.copy(stages = Seq(stage.copy(running = 0, waiting = 5)), runningSlots = 0, heldSlots = 0, copiedSlots = 0)

  private def state(of: JobFacts): (String, String) = (of.state.kind, of.state.text)

  test("a job's state is why it does not run, where it does not") {
    assert(state(job) === ("running", "running"))
    assert(state(idle) === ("waiting", "waiting for slots"))
    assert(state(idle.copy(heldUpBy = Seq("b", "a"))) === ("held_back", "held back by b, a"))
    assert(state(idle.copy(heldUpBy = Seq("a", "b", "c", "d", "e"))) === ("held_back", "held back by a, b, c and 2 more"))
    assert(state(idle.copy(stages = Nil)) === ("idle", "idle between actions"))
    assert(state(idle.copy(plan = PlanForJob(Start.Spare))) === ("deferred", "deferred until slots are spare"))
    assert(state(idle.copy(plan = PlanForJob(Start.Spare, keptFor = Seq("report", "etl")))) ===
      ("deferred", "deferred until slots are spare: free ones are kept for report, etl"))
    assert(state(idle.copy(plan = PlanForJob(Start.Planned))) === ("deferred", "deferred until the next plan"))
    val later = idle.copy(plan = PlanForJob(Start.Planned, Some(planned.copy(startMs = Some(1760000040500L), deferred = true))))
    assert(state(later) === ("deferred", "deferred until 2025-10-09T08:54:00Z"))
    assert(state(job.copy(plan = PlanForJob(Start.Evicted))) === ("evicted", "evicted"))
    assert(state(job.copy(stages = Seq(stage.copy(pilotsFirst = true, gated = 3)))) === ("pilots", "pilots"))
    assert(state(job.copy(outcome = Some("ended"))) === ("ended", "ended"))
    assert(state(job.copy(outcome = Some(JobFacts.Failed))) === ("ended", "failed"))
  }

  test("slots that the plan keeps from a job are of those that it waits for") {
    assert(idle.waitingSlots === 5 && idle.deferredSlots === 0)
    assert(idle.copy(plan = PlanForJob(Start.Spare)).deferredSlots === 5)
    assert(Seq(Start.Now, Start.Spare, Start.Planned, Start.Evicted).map(s => idle.copy(plan = PlanForJob(s)).slotsForLater) === Seq(0, 0, 5, 5))
    assert(idle.copy(stages = Seq(stage.copy(waiting = 5, gated = 3, slotsPerTask = 2))).deferredSlots === 6)
  }

  test("each attempt's slot time counts once: as run, as copied, or as evicted") {
    val use = new SlotUse
    use.launched(2, copy = false, 1000)
    use.launched(1, copy = true, 2000)
    assert(use.runMs(3000) === 4000 && use.copiedMs(3000) === 1000 && use.copiedSlots === 1)
    use.ended(2, copy = false, evicted = true, 1000, 4000)
    assert(use.runMs(9000) === 0 && use.evictedMs === 6000)
    use.ended(1, copy = true, evicted = false, 2000, 5000)
    assert(use.copiedMs(9000) === 3000 && use.copiedSlots === 0 && use.evictedMs === 6000)
  }

  test("a story tells of changes only, keeps its first and its latest entries, and goes some time after the job") {
    val stories = new JobStories(keepMs = 1000, mostEnded = 2)
    def texts(key: String = mark.key) = stories.of(key).map(_.text)
    stories.submitted(mark.key, 0)
    stories.look(idle, 1000)
    stories.look(idle, 2000)
    val plan = Plan(7, 0, 9000, ordered = true, Map.empty, about = PlanNotes("3sigma"))
    stories.look(job.copy(plan = PlanForJob(rules = Some(planned))), 3000, Some(plan))
    stories.look(job.copy(plan = PlanForJob(rules = Some(planned))), 3000, Some(plan.copy(number = 8)))
    stories.look(job.copy(heldSlots = 0), 5500)
    assert(texts() === Seq(
      "submitted", "waiting for slots, wants 5 slots", "running on 4 slots", "plan 7 of 3sigma: first by priority 10",
      "holds 2 idle slots", "holds no slots any more, after 2.5 s"))
    (1 to 100).foreach(i => stories.add(mark.key, 6000L + i, s"news $i"))
    assert(texts().size === JobStories.MostFirst + 1 + JobStories.MostLatest)
    assert(texts().head === "submitted" && texts().last === "news 100" && texts().exists(_.contains("entries before this one were dropped")))
    stories.ended(job.copy(outcome = Some("ended")), 1760000010000L)
    assert(texts().last.startsWith("ended after 10.0 s, 1.0 s of it before its first task; slot time: 48.0 s run, 3.0 s held idle"))
    assert(stories.endedJobs.map(_.mark.key) === Seq(mark.key))
    stories.add(mark.key, 1760000010001L, "too late")
    assert(!texts().contains("too late"))
    stories.forgetOld(1760000010999L)
    assert(texts().nonEmpty)
    stories.forgetOld(1760000011000L)
    assert(texts().isEmpty && stories.endedJobs.isEmpty)
  }

  test("slots that a job lost are told once a second, with whom they went to") {
    val stories = new JobStories
    stories.submitted("a", 0)
    def lost(atMs: Long, slots: Int, to: String): Unit = stories.moved("a", atMs, "lost", slots, s"to $to")
    lost(100, 1, "vip")
    lost(200, 2, "other")
    lost(1099, 2, "vip")
    lost(1100, 1, "vip")
    assert(stories.of("a") === Seq(
      StoryEntry(0, "submitted"), StoryEntry(100, "lost 3 slots to vip"), StoryEntry(200, "lost 2 slots to other"),
      StoryEntry(1100, "lost 1 slot to vip")))
    (0 to 100).foreach(i => stories.add("a", 1200, s"news $i"))
    lost(1300, 1, "vip")
    assert(stories.of("a").contains(StoryEntry(1100, "lost 2 slots to vip")))
    lost(5000, 1, "vip")
    (0 to 100).foreach(i => stories.add("a", 5100, s"news $i"))
    lost(5200, 1, "vip")
    assert(stories.of("a").last === StoryEntry(5200, "lost 2 slots to vip"), "its entry was dropped, so that there is another")
    lost(5300, 1, "vip")
    assert(stories.of("a").last === StoryEntry(5200, "lost 3 slots to vip"))
  }

  test("of jobs that ended the latest are kept, so many at most") {
    val stories = new JobStories(mostEnded = 2)
    def named(key: String) = job.copy(mark = mark.copy(key = key), outcome = Some("ended"))
    Seq("a", "b", "c").foreach { key => stories.submitted(key, 0); stories.ended(named(key), 1) }
    assert(stories.endedJobs.map(_.mark.key) === Seq("b", "c"))
  }

  test("a thousand jobs that ended within the time are known, and long stories push out the oldest") {
    def named(key: String) = job.copy(mark = mark.copy(key = key), outcome = Some("ended"))
    val stories = new JobStories
    (1 to 1000).foreach { i => stories.submitted(s"j$i", i); stories.ended(named(s"j$i"), i) }
    assert(stories.endedJobs.size === 1000 && stories.of("j1").map(_.text).head === "submitted")
    val few = new JobStories(mostEntries = 7)
    Seq("a", "b", "c").foreach { key =>
      few.submitted(key, 0)
      few.add(key, 0, "stage 1.0 is ready")
      few.ended(named(key), 1) // three entries each
    }
    assert(few.endedJobs.map(_.mark.key) === Seq("b", "c"))
    few.submitted("b", 2)
    few.ended(named("b"), 3) // in place of the earlier one
    few.submitted("d", 4)
    few.ended(named("d"), 5)
    assert(few.endedJobs.map(_.mark.key) === Seq("c", "b", "d"), "3, 2 and 2 entries")
  }

  test("stages and jobs without a name of their own are shown by what they do") {
    assert(StageNames.shown("count at report.py:3", Some("SELECT 1")) === "count at report.py:3")
    assert(StageNames.shown("$anonfun$withThreadLocalCaptured$1 at CompletableFuture.java:1768", Some("SELECT 1")) === "SELECT 1")
    assert(StageNames.shown("$anonfun$withThreadLocalCaptured$1 at CompletableFuture.java:1768", None) === "part of a SQL query")
    assert(StageNames.shown("Spark Connect - session_id: \"02549076\" user_context { user_id: \"eve\" }", Some("SELECT 1")) === "SELECT 1")
    val thread = "copy_local_properties at /usr/lib/python3.11/threading.py:982"
    assert(StageNames.shown(thread, Some("SELECT 1")) === "SELECT 1")
    assert(StageNames.shown(thread, None) === thread)
    assert(StageNames.shown("run at AccessController.java:712", Some("SELECT 1")) === "SELECT 1")
  }

  private val unknown = MarkWarning("unknown tag sched:priorty: did you mean sched:priority?", limited = false)

  test("the document on the wire is the example that Python reads") {
    val etl = JobFacts(
      mark.copy(key = "group-etl", name = "etl", user = None, priority = 0, deadlineMs = None, jobClass = None, grouping = JobMark.ByGroup),
      2, JobTimes(1760000000000L), 0, 0.0, Nil, 0, 0, 0, SlotTimes(0, 0, 0, 0),
      PlanForJob(Start.Planned, Some(planned.copy(rank = 1, startMs = Some(1760000040000L), deferred = true, reason = "starts in 210 s: its deadline allows it"))))
    val sums = ClassFigures.ofLiving(job, 1760000030000L) + ClassFigures(
      ended = 2, deadlinesMet = 1, deadlinesMissed = 1, jctMs = 90000, times = SlotTimes(10000, 0, 0, 0))
    val notes = PlanNotes("3sigma", 1760000029200L, Some(14.5), Some(0.02))
    val document = StatusDocument(
      1760000030000L, ApplicationFacts("local-1", "shared", "ada", 1759999990000L, scheduling = true, 2, 8, 4, 2, keptFreeSlots = 2),
      PlannerFacts(enabled = true, Some(4711), Some(120), 1, 0),
      PlanFacts("3sigma", Some(Plan(12, 0, 1760000039200L, ordered = true, Map.empty, about = notes)), Some(1760000029200L), 12, 0, 1),
      Seq(
        job.copy(mark = job.mark.copy(warnings = Seq(unknown)), plan = PlanForJob(Start.Now, Some(planned), Some(EndForecast(1760000050000L, 1760000060000L, 1760000090000L, Some(0.97))),
          queue = JobQueue(Some("reports.nightly")))),
        etl.copy(stages = Seq(StageFacts("5.0", "scan", 4, 0, 0, 4)))),
      executors = Seq(
        ExecutorFacts("0", "node-1", 4, 2, Seq(HeldFor("mark-1", "nightly-report", 2)), copiedSlots = 1),
        ExecutorFacts("1", "node-2", 4, 2, Nil)),
      counters = Map("offers_refused" -> 7L, "slots_held_now" -> 2L), classes = Map("batch" -> sums), users = Map("ada" -> sums),
      queues = Seq(QueueFigures("reports", Some(6), 4, 2, 6, 1, 0, 0, Some(2), 58000, Some(1.5), sums), QueueFigures("reports.nightly", None, 4, 2, 6, 1, 0, 3, sums = sums)))
    val why = new Why(document.jobs, document.application.slots, document.nowMs)
    val said = document.copy(whys = document.jobs.map(j => j.mark.key -> why.of(j)).toMap)
    assert(parsed(said.toJson) === example("status.json"))
  }

  test("a page of some rows has executors with held slots first") {
    val executors = (0 until 1000).map(i => ExecutorFacts(i.toString, "node", 4, i % 2, Nil)) :+
      ExecutorFacts("holds", "node", 4, 0, Seq(HeldFor("a", "a", 1)))
    assert(StatusRows.executors(executors).head.executor === "holds")
    assert(StatusRows.executors(executors).size === StatusRows.Most)
  }

  test("a job whose queue lets it have no slot says so before anything else") {
    val full = "waits: queue etl is at its ceiling of 8 slots"
    val waiting = idle.copy(plan = PlanForJob(Start.Now, Some(planned), queue = JobQueue(Some("etl"), Some(full))))
    assert(waiting.state === JobState("waiting", full))
    assert(waiting.reason === planned.reason, "the queue's word is no plan's")
  }

  private val mapper = new ObjectMapper()
  // Whole numbers are equal whatever their width.
  private def parsed(text: String): JsonNode = mapper.readTree(mapper.writeValueAsString(mapper.readTree(text)))
  private def example(name: String): JsonNode = parsed(Files.readString(Protocol.dir.resolve("examples").resolve(name)))

  test("a job that waits behind unknown ones says how many are before it, until it begins or its end is known") {
    val behind = PlanForJob(Start.Now, Some(planned), queuedBehind = Some(9))
    val waiting = idle.copy(times = JobTimes(1760000000000L), plan = behind)
    assert(waiting.afterJobs === Some(9))
    assert(waiting.copy(times = job.times).afterJobs === None)
    assert(waiting.copy(plan = behind.copy(forecast = Some(EndForecast(1, 2, 3, None)))).afterJobs === None)
  }
}
