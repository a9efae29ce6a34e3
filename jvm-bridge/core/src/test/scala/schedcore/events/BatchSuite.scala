package schedcore
package events

import com.fasterxml.jackson.databind.JsonNode
import org.scalatest.funsuite.AnyFunSuite
import schedcore.marks.JobMark
import scala.jdk.CollectionConverters._

final class BatchSuite extends AnyFunSuite {
  import Event._

  private val t = 1789000000000L

  private def mark(key: String, name: String): JobMark =
    JobMark(key, name, None, 0, None, None, None, copies = true, JobMark.BySparkJob, endsByCall = false, Nil)

  test("a reset batch is written as the example says") {
    val fg = mark("mark-7f3a", "nightly-kmeans").copy(
      user = Some("ana"), priority = 10, isolation = Some(0.9), deadlineMs = Some(t + 900000), jobClass = Some("etl"),
      grouping = JobMark.ByMark)
    val batch = Batch(14, reset = true, 0, t + 2600, Seq(
      ExecutorAdded(t, "0", "127.0.0.2", 2),
      ExecutorAdded(t + 5, "1", "127.0.0.3", 2),
      JobStarted(t + 100, fg),
      StageStarted(t + 110, "mark-7f3a", "4.0", "map at kmeans.py:31", 0, 2, Some(3), last = false, barrier = false),
      TaskLaunched(t + 120, "mark-7f3a", "4.0", 17, 0, "0", copy = false),
      TaskLaunched(t + 121, "mark-7f3a", "4.0", 18, 1, "1", copy = false),
      JobStarted(t + 200, mark("spark-3", "spark-3")),
      StageStarted(
        t + 205, "spark-3", "5.0", "count at load.py:8", 0, 40, None, last = true, barrier = false, restartable = false,
        done = Seq(3, 7)),
      TaskEnded(t + 1120, "mark-7f3a", "4.0", 17, 0, "0", 1000, "success", copy = false),
      SlotHeld(t + 1120, "mark-7f3a", "4.0", "0", t + 9000),
      SlotFreed(t + 1300, "mark-7f3a", "0", "used"),
      TaskLaunched(t + 1300, "mark-7f3a", "4.0", 19, 1, "0", copy = true),
      TaskEnded(t + 2500, "mark-7f3a", "4.0", 19, 1, "0", 1200, "success", copy = true),
      StageEnded(t + 2500, "mark-7f3a", "4.0", completed = true)))
    assert(Protocol.parse(Batch.toJson(batch)) === Protocol.json("examples/event-batch.reset.json"))
  }

  test("the batch that follows is written as the example says, but for a type that is not ours") {
    val batch = Batch(21, reset = false, 3, t + 9000, Seq(
      TaskEnded(t + 2510, "mark-7f3a", "4.0", 18, 1, "1", 2389, "killed", copy = false),
      ShortTasks(t + 2590, "spark-3", "5.0", "0", Seq(20L, 21L), Seq(0, 1), Seq(41L, 38L)),
      ExecutorRemoved(t + 4000, "1", "idle for 60 s"),
      JobEnded(t + 8000, "mark-7f3a", "ended"),
      JobEnded(t + 8900, "spark-3", "idle", Some(t - 1200)),
      JobChanged(t + 9000, "group-etl", 7, Some(0.5), Some(t + 600000), onHold = true, "ada at 10.0.0.1"),
      SchedulingChanged(t + 9010, "fair", "shadow", reservationsPaused = true, "ada at 10.0.0.1"),
      JobCancelled(t + 9020, "group-etl", "ada at 10.0.0.1")))
    val wanted = Protocol.json("examples/event-batch.more.json")
    val events = wanted.path("events").elements()
    while (events.hasNext) if (events.next().path("type").asText == "a_type_of_a_later_version") events.remove()
    assert(Protocol.parse(Batch.toJson(batch)) === wanted)
  }

  test("every type of event is one that the schema knows, with the fields that it requires") {
    val schema = Protocol.json("event-batch.schema.json")
    val required = requiredByType(schema)
    val samples: Seq[Event] = Seq(
      ExecutorAdded(t, "0", "h", 2), ExecutorRemoved(t, "0", "r"), JobStarted(t, mark("a", "a")), JobEnded(t, "a", "ended"),
      StageStarted(t, "a", "1.0", "p", 0, 2, None, last = false, barrier = true), StageEnded(t, "a", "1.0", completed = false),
      TaskLaunched(t, "a", "1.0", 1, 0, "0", copy = false), TaskEnded(t, "a", "1.0", 1, 0, "0", 5, "lost", copy = false),
      ShortTasks(t, "a", "1.0", "0", Seq(1L), Seq(0), Seq(5L)), SlotHeld(t, "a", "1.0", "0", t), SlotFreed(t, "a", "0", "expired"),
      JobChanged(t, "a", 1, None, None, onHold = false, ""), JobCancelled(t, "a", ""), SchedulingChanged(t, "p", "on", reservationsPaused = false, ""))
    assert(samples.map(_.kind).toSet === required.keySet)
    val written = Protocol.parse(Batch.toJson(Batch(1, reset = false, 0, t, samples))).path("events").elements().asScala
    written.foreach { event =>
      val missing = required(event.path("type").asText).filterNot(event.has)
      assert(missing.isEmpty, event)
    }
  }

  test("text of any kind survives") {
    val odd = "\"quoted\"\n\t\\ ünï\u0000code \uD83D\uDE00"
    val json = Batch.toJson(Batch(1, reset = false, 0, t, Seq(ExecutorRemoved(t, odd, odd))))
    assert(Protocol.parse(json).path("events").path(0).path("reason").asText === odd)
  }

  private def requiredByType(schema: JsonNode): Map[String, Seq[String]] =
    schema.path("$defs").properties().asScala.filter(_.getKey != "event").map { d =>
      d.getKey -> d.getValue.path("required").elements().asScala.map(_.asText).toSeq
    }.toMap
}
