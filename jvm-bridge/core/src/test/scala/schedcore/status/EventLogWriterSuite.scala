package schedcore
package status

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite
import schedcore.events.Event
import schedcore.marks.JobMark
import schedcore.plan.{Plan, PlanNotes}

/** What the event log is told: every job once, few plans, one document a minute, and no more than there is room for. */
final class EventLogWriterSuite extends AnyFunSuite {
  private val job = JobFacts(
    JobMark.from(Map(JobMark.Prefix + "id" -> "1", JobMark.Prefix + "name" -> "etl").get, 1), 1,
    JobTimes(1000L, Some(1500L), Some(2000L)), 5, 1.0, Nil, 0, 0, 0, SlotTimes(4000, 300, 20, 10), outcome = Some("ended"))
  private val story = (1 to 100).map(i => StoryEntry(i, s"news $i"))

  private def document(nowMs: Long, policy: Option[String] = None, restarts: Long = 0): StatusDocument = StatusDocument(
    nowMs, ApplicationFacts("app", "app", "ada", 0L, scheduling = true, 1, 4, 2, 1),
    PlannerFacts(enabled = true, Some(1), Some(5), restarts, 0),
    PlanFacts("fair", policy.map(p => Plan(7, 0, nowMs + 500, ordered = true, Map.empty, about = PlanNotes(p, nowMs, None, None))), None, 5, 0, 0),
    Nil, counters = Map("holds_total" -> 9L))

  private def logged(most: Int = 10, perSecond: Int = 1)(use: EventLogWriter => Unit): Seq[LogEntry] = {
    val entries = mutable.Buffer.empty[LogEntry]
    use(new EventLogWriter(entries += _, most, perSecond))
    entries.toSeq
  }

  test("a job is logged with its slot time and the ends of its story, without what only living jobs have") {
    val entry = logged()(_.look(document(3000), EndedJobs(Seq(job -> story)))).find(_.kind == "job").get
    assert(entry.timeMs === 2000)
    assert(entry.body.get("slot_ms").get("held_idle").asLong === 300)
    assert(Seq("stages", "slots", "forecast", "rank", "reason").forall(!entry.body.has(_)))
    val texts = entry.body.get("story").elements().asScala.map(_.get("text").asText).toSeq
    assert(texts.size === EventLogWriter.MostStory && texts.head === "news 1" && texts.last === "news 100")
  }

  test("jobs that end faster than they may be logged are added up") {
    val entries = logged(most = 3, perSecond = 2) { book =>
      book.look(document(1000), EndedJobs(Seq.fill(5)(job -> Nil), lost = 2, lostTimes = SlotTimes(1, 1, 1, 1)))
      book.look(document(2000), EndedJobs(Seq.fill(5)(job -> Nil)))
      book.finish(document(3000), EndedJobs(), Nil)
    }
    assert(entries.count(_.kind == "job") === 3 + 2)
    val left = entries.last.body.get("left_out")
    assert(entries.last.kind === "end" && left.get("jobs").asLong === 2 + 2 + 3)
    assert(left.get("slot_ms").get("held_idle").asLong === 5 * 300 + 1)
  }

  test("operators' changes are logged at once, and no more than there is room for") {
    val entries = logged() { book =>
      val told = Event.JobChanged(5, "mark-1", 7, Some(0.5), None, onHold = false, "ada")
      book.changed(5, "ada", Some("mark-1"), "job etl: resumed", Some(told))
      (1 to EventLogWriter.MostChanges).foreach(book.changed(_, "ada", None, "the mode is off", None))
    }
    assert(entries.size === EventLogWriter.MostChanges && entries.forall(_.kind == "change"))
    assert(entries.head.timeMs === 5)
    assert(entries.head.body.toString ===
      """{"by":"ada","what":"job etl: resumed","job":"mark-1","event":{"type":"job_changed","time_ms":5,""" +
        """"job":"mark-1","priority":7,"isolation":0.5,"deadline_ms":null,"on_hold":false,"by":"ada"}}""")
    assert(Seq("job", "event", "queues").forall(!entries(1).body.has(_)))
    val queues = logged()(_.changed(7, "ada", None, "queue etl is gone", None, Some("")))
    assert(queues.map(_.body.toString) === Seq("""{"by":"ada","what":"queue etl is gone","queues":""}"""))
  }

  test("plans are logged when the policy in force or the planner changes, documents once a minute") {
    val entries = logged() { book =>
      (0 to 120).foreach(s => book.look(document(100000L + 1000 * s, Option.when(s >= 60)("fair"), restarts = if (s > 100) 1 else 0), EndedJobs()))
    }
    assert(entries.filter(_.kind == "plan").map(_.timeMs) === Seq(100000L, 160000L, 201000L))
    assert(entries.filter(_.kind == "status").map(_.timeMs) === Seq(100000L, 160000L, 220000L))
    assert(entries.filter(_.kind == "status").forall(e => !e.body.has("jobs") && e.body.get("counters").has("holds_total")))
    assert(entries.filter(_.kind == "plan").forall(_.body.size === 3))
  }

  test("jobs that go on are logged at the end, without an outcome") {
    val entries = logged()(_.finish(document(3000), EndedJobs(), Seq(job.copy(outcome = None, times = job.times.copy(endedMs = None)) -> story)))
    assert(entries.map(_.kind) === Seq("job", "end"))
    assert(entries.head.body.has("state_text") && entries.head.body.get("outcome").isNull && entries.head.timeMs === 3000)
  }
}
