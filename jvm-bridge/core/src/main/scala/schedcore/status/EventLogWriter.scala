package schedcore
package status

import java.util.concurrent.atomic.AtomicInteger

import com.fasterxml.jackson.databind.ObjectMapper
import com.fasterxml.jackson.databind.node.ObjectNode
import schedcore.events.{Batch, Event}

/** One entry of the event log: what it is about, and a part of the status document. */
final case class LogEntry(kind: String, timeMs: Long, body: ObjectNode)

/**
 * What Spark's event log is to know of scheduling after the application's end: each job once, when it is over, with its slot time and
 * its story; changes of the planner and the plan in force; what operators changed; the document without jobs every minute; and all of it at the end.
 *
 * The log grows by one entry a minute and a bounded number of jobs a second. Jobs beyond that are added up in the next document as
 * `left_out`. Called by one thread after another, without the scheduler's lock.
 */
final class EventLogWriter(post: LogEntry => Unit, mostJobs: Int = EventLogWriter.MostJobs, jobsPerSecond: Int = EventLogWriter.JobsPerSecond) {
  import EventLogWriter._

  private var mayPost = mostJobs.toDouble
  private var lastMs = 0L
  private var documentMs = 0L
  private var planSeen = ""
  private var plansLeft = MostPlans
  private val changes = new AtomicInteger
  private var left = 0L
  private var leftTimes = SlotTimes.Zero

  /**
   * An operator changed something. Does not block: it is called under the scheduler's lock.
   *
   * @param job the key of the job that it concerns; None: all
   * @param event the planner's event about it, for programs; None: there is none
   * @param queues the setting that the tenants' queues are from now on; None: they are as before
   */
  def changed(atMs: Long, by: String, job: Option[String], what: String, event: Option[Event], queues: Option[String] = None): Unit =
    if (changes.getAndIncrement() < MostChanges) {
      val body = mapper.createObjectNode().put("by", by).put("what", what)
      job.foreach(body.put("job", _))
      queues.foreach(body.put("queues", _))
      event.foreach(e => body.set[ObjectNode]("event", parsed(Batch.toJson(e))))
      post(LogEntry("change", atMs, body))
    }

  /** @param ended jobs that ended since the last call */
  def look(document: StatusDocument, ended: EndedJobs): Unit = synchronized {
    noteEnded(document, ended)
    notePlan(document)
    if (document.nowMs - documentMs >= DocumentEveryMs) noteDocument("status", document)
  }

  private def noteEnded(document: StatusDocument, ended: EndedJobs): Unit = {
    val nowMs = document.nowMs
    if (lastMs > 0) mayPost = math.min(mostJobs.toDouble, mayPost + jobsPerSecond * math.max(0L, nowMs - lastMs) / 1000.0)
    lastMs = nowMs
    left += ended.lost
    leftTimes += ended.lostTimes
    ended.jobs.foreach { case (job, story) =>
      if (mayPost >= 1.0) {
        mayPost -= 1.0
        post(jobEntry(document, job, story))
      } else {
        left += 1
        leftTimes += job.slotTimes
      }
    }
  }

  /**
   * The application ends, and its planner was stopped for that.
   *
   * @param ended jobs that ended since the last call
   * @param living jobs that are not over, with their stories
   */
  def finish(document: StatusDocument, ended: EndedJobs, living: Seq[(JobFacts, Seq[StoryEntry])]): Unit = synchronized {
    noteEnded(document, ended)
    living.take(mostJobs).foreach { case (job, story) => post(jobEntry(document, job, story)) }
    living.drop(mostJobs).foreach { case (job, _) => left += 1; leftTimes += job.slotTimes }
    noteDocument("end", document)
  }

  private def notePlan(document: StatusDocument): Unit = {
    val planner = document.planner
    val seen = s"${document.plans.inForce.map(_.about.policy)} ${planner.alive} ${planner.restarts}"
    if (seen != planSeen && plansLeft > 0) {
      planSeen = seen
      plansLeft -= 1
      val node = document.copy(
        jobs = Nil, executors = Nil, counters = Map.empty, classes = Map.empty, users = Map.empty, queues = Nil).toNode
      post(LogEntry("plan", document.nowMs, node.retain("policy", "planner", "plan")))
    }
  }

  private def noteDocument(kind: String, document: StatusDocument): Unit = {
    documentMs = document.nowMs
    val node = document.copy(jobs = Nil).toNode
    Seq("schema", "now_ms", "jobs").foreach(node.remove(_))
    val times = node.putObject("left_out").put("jobs", left).putObject("slot_ms")
    leftTimes.byName.foreach { case (name, ms) => times.put(name, ms) }
    post(LogEntry(kind, document.nowMs, node))
  }
}

object EventLogWriter {
  /** Of the layout of entries. New fields do not change it. */
  val Schema = 1
  val MostJobs = 1000
  val JobsPerSecond = 10
  val MostPlans = 1000
  val MostChanges = 1000
  val DocumentEveryMs: Long = 60 * 1000L
  /** Entries of a story that are logged: the first ones and the latest. */
  val MostStory: Int = 30
  private val mapper = new ObjectMapper()
  // Fields of the present state have no meaning after the job's end.
  private val OfLiving = Seq("rank", "queue", "tasks", "tasks_done", "stages", "slots", "forecast")
  private val OfUnfinished = Seq("state", "state_text", "reason", "why")

  private def jobEntry(document: StatusDocument, job: JobFacts, story: Seq[StoryEntry]): LogEntry = {
    val one = document.copy(
      jobs = Seq(job), stories = Map(job.mark.key -> shortened(story)), executors = Nil, counters = Map.empty, classes = Map.empty,
      users = Map.empty, queues = Nil)
    val node = one.toNode.get("jobs").get(0).asInstanceOf[ObjectNode]
    (if (job.outcome.isDefined) OfLiving ++ OfUnfinished else OfLiving).foreach(node.remove(_))
    LogEntry("job", job.times.endedMs.getOrElse(document.nowMs), node)
  }

  private def shortened(story: Seq[StoryEntry]): Seq[StoryEntry] =
    if (story.size <= MostStory) story else story.take(JobStories.MostFirst) ++ story.takeRight(MostStory - JobStories.MostFirst)

  def parsed(json: String): ObjectNode = mapper.readTree(json).asInstanceOf[ObjectNode]
}

/** Jobs that ended lately with their stories, and how many more there were than anybody keeps. */
final case class EndedJobs(jobs: Seq[(JobFacts, Seq[StoryEntry])] = Nil, lost: Long = 0L, lostTimes: SlotTimes = SlotTimes.Zero)
