package schedcore
package events

import com.fasterxml.jackson.core.{JsonFactory, JsonGenerator}
import schedcore.marks.JobMark
import java.io.StringWriter

/** An event for the planner. The wire form is `protocol/event-batch.schema.json`. */
sealed abstract class Event(val kind: String) {
  def timeMs: Long
  private[schedcore] def fields(out: JsonGenerator): Unit
}

object Event {
  /** @param profile its resource profile */
  final case class ExecutorAdded(timeMs: Long, executor: String, host: String, slots: Int, profile: Int = 0)
      extends Event("executor_added") {
    private[schedcore] def fields(out: JsonGenerator): Unit = {
      out.writeStringField("executor", executor)
      out.writeStringField("host", host)
      out.writeNumberField("slots", slots)
    }
  }

  final case class ExecutorRemoved(timeMs: Long, executor: String, reason: String) extends Event("executor_removed") {
    private[schedcore] def fields(out: JsonGenerator): Unit = {
      out.writeStringField("executor", executor)
      out.writeStringField("reason", reason)
    }
  }

  /**
   * @param begunMs when the job's first task started; None: it had not when the event was made
   * @param lastEndMs when the last one of its attempts that were over by then ended
   */
  final case class JobStarted(timeMs: Long, mark: JobMark, begunMs: Option[Long] = None, lastEndMs: Option[Long] = None)
      extends Event("job_started") {
    private[schedcore] def fields(out: JsonGenerator): Unit = {
      out.writeStringField("job", mark.key)
      out.writeStringField("name", mark.name)
      mark.user.fold(out.writeNullField("user"))(out.writeStringField("user", _))
      out.writeNumberField("priority", mark.priority)
      mark.isolation.fold(out.writeNullField("isolation"))(out.writeNumberField("isolation", _))
      mark.deadlineMs.fold(out.writeNullField("deadline_ms"))(out.writeNumberField("deadline_ms", _))
      mark.jobClass.fold(out.writeNullField("class"))(out.writeStringField("class", _))
      out.writeBooleanField("copies", mark.copies)
      out.writeBooleanField("marked", mark.marked)
      begunMs.foreach(out.writeNumberField("begun_ms", _))
      lastEndMs.foreach(out.writeNumberField("last_end_ms", _))
    }
  }

  /**
   * @param endedMs the job's last activity, if its end was noticed later
   * @param number the event's own in the application, which identifies the end; the queue gives it
   */
  final case class JobEnded(timeMs: Long, job: String, outcome: String, endedMs: Option[Long] = None, number: Option[Long] = None)
      extends Event("job_ended") {
    private[schedcore] def fields(out: JsonGenerator): Unit = {
      out.writeStringField("job", job)
      out.writeStringField("outcome", outcome)
      endedMs.foreach(out.writeNumberField("ended_ms", _))
      number.foreach(out.writeNumberField("number", _))
    }
  }

  /**
   * An operator changed a job's marks, or put it on hold or resumed it; the fields are the new values.
   *
   * @param by who changed them
   */
  final case class JobChanged(
      timeMs: Long, job: String, priority: Int, isolation: Option[Double], deadlineMs: Option[Long], onHold: Boolean, by: String)
      extends Event("job_changed") {
    private[schedcore] def fields(out: JsonGenerator): Unit = {
      out.writeStringField("job", job)
      out.writeNumberField("priority", priority)
      isolation.fold(out.writeNullField("isolation"))(out.writeNumberField("isolation", _))
      deadlineMs.fold(out.writeNullField("deadline_ms"))(out.writeNumberField("deadline_ms", _))
      out.writeBooleanField("on_hold", onHold)
      out.writeStringField("by", by)
    }
  }

  /** An operator cancelled the job's running Spark jobs; an event of its end follows. */
  final case class JobCancelled(timeMs: Long, job: String, by: String) extends Event("job_cancelled") {
    private[schedcore] def fields(out: JsonGenerator): Unit = {
      out.writeStringField("job", job)
      out.writeStringField("by", by)
    }
  }

  /** An operator changed the policy, the mode, or whether jobs may reserve slots. */
  final case class SchedulingChanged(timeMs: Long, policy: String, mode: String, reservationsPaused: Boolean, by: String)
      extends Event("scheduling_changed") {
    private[schedcore] def fields(out: JsonGenerator): Unit = {
      out.writeStringField("policy", policy)
      out.writeStringField("mode", mode)
      out.writeBooleanField("reservations_paused", reservationsPaused)
      out.writeStringField("by", by)
    }
  }

  /**
   * @param restartable a task of it may run again for our own ends: as a copy, or after an eviction
   * @param slotsPerTask slots that each of its tasks takes
   * @param nextAtMost most tasks that the stage after it can have, where adaptive execution decides that later
   * @param done indices of its tasks that were done when the planner started
   */
  final case class StageStarted(
      timeMs: Long, job: String, stage: String, name: String, index: Int, tasks: Int, nextTasks: Option[Int],
      last: Boolean, barrier: Boolean, restartable: Boolean = true, slotsPerTask: Int = 1, nextAtMost: Option[Int] = None,
      done: Seq[Int] = Nil)
      extends Event("stage_started") {
    private[schedcore] def fields(out: JsonGenerator): Unit = {
      out.writeStringField("job", job)
      out.writeStringField("stage", stage)
      out.writeStringField("name", name)
      out.writeNumberField("index", index)
      out.writeNumberField("tasks", tasks)
      nextTasks.fold(out.writeNullField("next_tasks"))(out.writeNumberField("next_tasks", _))
      out.writeBooleanField("last", last)
      out.writeBooleanField("barrier", barrier)
      if (!restartable) out.writeBooleanField("restartable", false)
      if (slotsPerTask != 1) out.writeNumberField("slots_per_task", slotsPerTask)
      nextAtMost.foreach(out.writeNumberField("next_at_most", _))
      if (done.nonEmpty) {
        out.writeArrayFieldStart("done")
        done.foreach(out.writeNumber(_))
        out.writeEndArray()
      }
    }
  }

  final case class StageEnded(timeMs: Long, job: String, stage: String, completed: Boolean) extends Event("stage_ended") {
    private[schedcore] def fields(out: JsonGenerator): Unit = {
      out.writeStringField("job", job)
      out.writeStringField("stage", stage)
      out.writeBooleanField("completed", completed)
    }
  }

  /**
   * @param slots that it takes; its stage tells the planner
   * @param evictions how often attempts of its task were evicted before
   */
  final case class TaskLaunched(
      timeMs: Long, job: String, stage: String, task: Long, index: Int, executor: String, copy: Boolean, slots: Int = 1,
      evictions: Int = 0) extends Event("task_launched") {
    private[schedcore] def fields(out: JsonGenerator): Unit = {
      out.writeStringField("job", job)
      out.writeStringField("stage", stage)
      out.writeNumberField("task", task)
      out.writeNumberField("index", index)
      out.writeStringField("executor", executor)
      out.writeBooleanField("copy", copy)
      if (evictions > 0) out.writeNumberField("evictions", evictions)
    }
  }

  /** @param evictedFor the job whose waiting tasks got its slot, if it was killed for that */
  final case class TaskEnded(
      timeMs: Long, job: String, stage: String, task: Long, index: Int, executor: String, durationMs: Long,
      outcome: String, copy: Boolean, evictedFor: Option[String] = None) extends Event("task_ended") {
    private[schedcore] def fields(out: JsonGenerator): Unit = {
      out.writeStringField("job", job)
      out.writeStringField("stage", stage)
      out.writeNumberField("task", task)
      out.writeNumberField("index", index)
      out.writeStringField("executor", executor)
      out.writeNumberField("duration_ms", durationMs)
      out.writeStringField("outcome", outcome)
      out.writeBooleanField("copy", copy)
      evictedFor.foreach(out.writeStringField("evicted_for", _))
    }
  }

  /**
   * Attempts of one stage on one executor that were launched and succeeded within one batch, as columns.
   *
   * A stage of thousands of short tasks would otherwise keep the planner busy with events that change nothing.
   */
  final case class ShortTasks(
      timeMs: Long, job: String, stage: String, executor: String,
      tasks: collection.Seq[Long], indices: collection.Seq[Int], durationsMs: collection.Seq[Long])
      extends Event("short_tasks") {
    private[schedcore] def fields(out: JsonGenerator): Unit = {
      out.writeStringField("job", job)
      out.writeStringField("stage", stage)
      out.writeStringField("executor", executor)
      out.writeArrayFieldStart("tasks")
      tasks.foreach(out.writeNumber(_))
      out.writeEndArray()
      out.writeArrayFieldStart("indices")
      indices.foreach(out.writeNumber(_))
      out.writeEndArray()
      out.writeArrayFieldStart("durations_ms")
      durationsMs.foreach(out.writeNumber(_))
      out.writeEndArray()
    }
  }

  final case class SlotHeld(timeMs: Long, job: String, stage: String, executor: String, deadlineMs: Long)
      extends Event("slot_held") {
    private[schedcore] def fields(out: JsonGenerator): Unit = {
      out.writeStringField("job", job)
      out.writeStringField("stage", stage)
      out.writeStringField("executor", executor)
      out.writeNumberField("deadline_ms", deadlineMs)
    }
  }

  /** An event of a job that is over, or of a stage that is, told again to a planner that may have missed it. */
  final case class Past(event: Event) extends Event(event.kind) {
    def timeMs: Long = event.timeMs
    private[schedcore] def fields(out: JsonGenerator): Unit = {
      event.fields(out)
      out.writeBooleanField("past", true)
    }
  }

  final case class SlotFreed(timeMs: Long, job: String, executor: String, reason: String) extends Event("slot_freed") {
    private[schedcore] def fields(out: JsonGenerator): Unit = {
      out.writeStringField("job", job)
      out.writeStringField("executor", executor)
      out.writeStringField("reason", reason)
    }
  }
}

/**
 * @param version number of the batch's last event
 * @param reset the events rebuild the whole state
 * @param asked somebody asks the planner something
 * @param stopping the application ends, and this is the last batch
 */
final case class Batch(
    version: Long, reset: Boolean, dropped: Long, nowMs: Long, events: Seq[Event], asked: Boolean = false,
    stopping: Boolean = false)

object Batch {
  val Schema = 1
  private val factory = new JsonFactory()

  def toJson(batch: Batch): String = {
    val text = new StringWriter(256 + 160 * batch.events.size)
    val out = factory.createGenerator(text)
    out.writeStartObject()
    out.writeNumberField("schema", Schema)
    out.writeNumberField("version", batch.version)
    out.writeBooleanField("reset", batch.reset)
    out.writeNumberField("dropped", batch.dropped)
    out.writeNumberField("now_ms", batch.nowMs)
    if (batch.asked) out.writeBooleanField("asked", true)
    if (batch.stopping) out.writeBooleanField("stopping", true)
    out.writeArrayFieldStart("events")
    batch.events.foreach(write(_, out))
    out.writeEndArray()
    out.writeEndObject()
    out.close()
    text.toString
  }

  /** One event as batches have it. */
  def toJson(event: Event): String = {
    val text = new StringWriter(256)
    val out = factory.createGenerator(text)
    write(event, out)
    out.close()
    text.toString
  }

  private def write(event: Event, out: JsonGenerator): Unit = {
    out.writeStartObject()
    out.writeStringField("type", event.kind)
    out.writeNumberField("time_ms", event.timeMs)
    event.fields(out)
    out.writeEndObject()
  }
}
