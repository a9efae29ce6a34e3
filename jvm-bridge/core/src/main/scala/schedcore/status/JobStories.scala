package schedcore
package status

import java.util.Locale

import scala.collection.mutable

import schedcore.plan.Plan

/** Something that happened to a job, in a sentence. */
final case class StoryEntry(atMs: Long, text: String)

/**
 * What happened to each job from its submission on: its stages, and every change of its state, of what it holds and of the
 * plan's reason that a look at it found.
 *
 * Looks are seconds apart, so a change that begins and ends between two of them is missing. Submission, stages, evictions
 * and the end are reported as they happen. A job's story keeps its beginning and its latest entries, and is dropped some time after the job. Safe from any
 * thread: its lock is held for one job at a time and no other is taken under it.
 */
final class JobStories(
    keepMs: Long = JobStories.KeepMs, mostEnded: Int = JobStories.MostEnded, mostEntries: Int = JobStories.MostEntries) {
  import JobStories._

  private val living = mutable.HashMap.empty[String, Story]
  private val over = mutable.LinkedHashMap.empty[String, Ended]
  // Of the stories of those that ended.
  private var entriesOver = 0
  // Jobs that ended since the event log last took them.
  private val fresh = mutable.ArrayBuffer.empty[Ended]
  private var lost = 0L
  private var lostTimes = SlotTimes.Zero

  def submitted(job: String, atMs: Long): Unit = synchronized {
    val story = new Story
    story.add(atMs, "submitted")
    living(job) = story
  }

  def add(job: String, atMs: Long, text: => String): Unit = synchronized(living.get(job).foreach(_.add(atMs, text)))

  /**
   * The job lost slots to others or took theirs; moves within one second are one entry.
   *
   * @param what and `where` stand before and after the number of slots
   */
  def moved(job: String, atMs: Long, what: String, slots: Int, where: String): Unit =
    synchronized(living.get(job).foreach(_.moved(atMs, what, slots, where)))

  /**
   * Compares the job with what the last look at it found.
   *
   * @param plan the one in force
   */
  def look(job: JobFacts, atMs: Long, plan: Option[Plan] = None): Unit =
    synchronized(living.get(job.mark.key).foreach(_.look(job, atMs, plan)))

  /**
   * @param last the job at its end, with its outcome
   * @param atMs when that was seen, which may be later
   */
  def ended(last: JobFacts, atMs: Long): Unit = synchronized(living.remove(last.mark.key).foreach { story =>
    story.add(atMs, summary(last, last.times.endedMs.getOrElse(atMs)))
    drop(last.mark.key) // A key that is used again counts as the latest.
    over(last.mark.key) = new Ended(last, story, atMs)
    entriesOver += story.size
    if (fresh.size < MostFresh) fresh += over(last.mark.key)
    else {
      lost += 1
      lostTimes += last.slotTimes
    }
    while (over.size > mostEnded || (entriesOver > mostEntries && over.size > 1)) drop(over.head._1)
  })

  private def drop(job: String): Unit = over.remove(job).foreach(entriesOver -= _.story.size)

  /** Jobs that ended since the last call. */
  def takeEnded(): EndedJobs = synchronized {
    val taken = EndedJobs(fresh.map(e => e.job -> e.story.entries).toList, lost, lostTimes)
    fresh.clear()
    lost = 0L
    lostTimes = SlotTimes.Zero
    taken
  }

  def forgetOld(nowMs: Long): Unit = synchronized {
    while (over.headOption.exists(_._2.atMs + keepMs <= nowMs)) drop(over.head._1)
  }

  def of(job: String): Seq[StoryEntry] = synchronized {
    living.get(job).orElse(over.get(job).map(_.story)).fold(Seq.empty[StoryEntry])(_.entries)
  }

  /** Jobs that ended lately, the latest last. */
  def endedJobs: Seq[JobFacts] = synchronized(over.valuesIterator.map(_.job).toList)
}

object JobStories {
  val KeepMs: Long = 15 * 60 * 1000L
  /** More than end within that time in most applications: 5 a second. */
  val MostEnded = 5000
  /** Of the stories of all of them, about 100 bytes each. */
  val MostEntries = 100000
  val MostFresh = 2000
  /** Entries of one job: its first ones stay, of the others the latest. */
  val MostFirst = 10
  val MostLatest = 50

  /** Slots that move within this time are one entry. */
  private val MoveMs = 1000L

  /** @param slots that moved so far */
  private final case class Move(entry: StoryEntry, slots: Int)

  private final class Ended(val job: JobFacts, val story: Story, val atMs: Long)

  private final class Story {
    private val first = mutable.ArrayBuffer.empty[StoryEntry]
    private val latest = mutable.Queue.empty[StoryEntry]
    private var left = 0
    private var state = ""
    private var reason = ""
    private var never = Set.empty[String]
    private var held = 0
    private var heldSinceMs = 0L
    private var moves = Map.empty[(String, String), Move] // of the second of the last one, by what stands around the number

    def add(atMs: Long, text: String): Unit = {
      val entry = StoryEntry(atMs, PlainText.of(text))
      if (first.size < MostFirst) first += entry
      else {
        latest += entry
        if (latest.size > MostLatest) { latest.dequeue(); left += 1 }
      }
    }

    def moved(atMs: Long, what: String, slots: Int, where: String): Unit = {
      moves = moves.filter { case (_, move) => atMs - move.entry.atMs < MoveMs }
      val before = moves.get((what, where))
      val sum = slots + before.fold(0)(_.slots)
      val text = s"$what $sum slot${if (sum == 1) "" else "s"} $where"
      val entry = before.map(_.entry).filter(old => replaced(old, old.copy(text = PlainText.of(text)))).fold {
        add(atMs, text)
        StoryEntry(atMs, PlainText.of(text))
      }(_.copy(text = PlainText.of(text)))
      moves += (what, where) -> Move(entry, sum)
    }

    /** Whether the old entry was there. */
    private def replaced(old: StoryEntry, entry: StoryEntry): Boolean = Seq(latest, first).exists { entries =>
      val at = entries.lastIndexOf(old)
      if (at >= 0) entries(at) = entry
      at >= 0
    }

    def look(job: JobFacts, atMs: Long, plan: Option[Plan]): Unit = {
      // Its place in the admission queue changes with each job before it: that is no news.
      val stateNow = job.state.text.stripSuffix(JobQueue.placed(job.plan.queue.place))
      if (stateNow != state) {
        state = stateNow
        add(atMs, stateNow + slotsOf(job))
      }
      job.plan.queue.never.filterNot(said => never(said) || stateNow.contains(said)).foreach(add(atMs, _))
      never = job.plan.queue.never.toSet
      job.plan.rules.map(_.reason).filter(r => r.nonEmpty && r != reason).foreach { why =>
        reason = why
        add(atMs, s"${plan.fold("the plan")(p => s"plan ${p.number} of ${p.about.policy}")}: $why")
      }
      if (held == 0 && job.heldSlots > 0) {
        heldSinceMs = atMs
        add(atMs, s"holds ${job.heldSlots} idle slots")
      } else if (held > 0 && job.heldSlots == 0) {
        add(atMs, s"holds no slots any more, after ${seconds(atMs - heldSinceMs)}")
      }
      held = job.heldSlots
    }

    private def slotsOf(job: JobFacts): String =
      if (job.runningSlots > 0) s" on ${job.runningSlots} slots" else if (job.waitingSlots > 0) s", wants ${job.waitingSlots} slots" else ""

    def size: Int = first.size + latest.size

    def entries: Seq[StoryEntry] = {
      val gap = if (left == 0) Nil else Seq(StoryEntry(latest.head.atMs, s"$left entries before this one were dropped"))
      first.toList ++ gap ++ latest
    }
  }

  private def summary(job: JobFacts, endedMs: Long): String = {
    val submittedMs = job.times.submittedMs
    val waitedMs = job.times.begunMs.getOrElse(endedMs) - submittedMs
    s"${job.outcome.getOrElse("ended")} after ${seconds(endedMs - submittedMs)}, ${seconds(waitedMs)} of it before its first task; " +
      s"slot time: ${job.slotTimes.inWords(seconds)}"
  }

  private def seconds(ms: Long): String = "%.1f s".formatLocal(Locale.ROOT, ms / 1000.0)
}
