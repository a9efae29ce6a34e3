package schedcore
package status

/**
 * Which jobs a page shows: those of a user, of a tenants' queue or one below it, in a state and whose name has a text in it; all where
 * a field is empty.
 *
 * @param user as people see it
 * @param state one of [[JobRows.States]]
 */
final case class JobFilter(user: String = "", state: String = "", name: String = "", queue: String = "") {
  def takes(ofUser: String, kind: String, ofName: String, ofQueue: String = ""): Boolean =
    (user.isEmpty || JobFilter.label(ofUser) == JobFilter.label(user)) && (state.isEmpty || JobRows.kindsOf(state)(kind)) &&
      (queue.isEmpty || s"${JobFilter.label(ofQueue)}.".startsWith(s"${JobFilter.label(queue)}.")) &&
      (name.isEmpty || ofName.toLowerCase.contains(name.toLowerCase))
}

object JobFilter {
  /** A user's name as a browser sends what was chosen from a list. */
  def label(user: String): String = PlainText.shown(user).trim.replaceAll("\\s+", " ")
}

/**
 * One page of a long table.
 *
 * @param number from 1 on
 * @param all rows of all pages
 */
final case class PageOf[+A](rows: Seq[A], number: Int, pages: Int, all: Int)

object PageOf {
  val Rows = 50

  /** @param asked the number of the page; one that there is not is the nearest */
  def of[A](all: IndexedSeq[A], asked: Option[String], rows: Int = Rows): PageOf[A] = {
    val pages = math.max(1, (all.size + rows - 1) / rows)
    val number = math.min(pages, math.max(1, asked.flatMap(_.toIntOption).getOrElse(1)))
    PageOf(all.slice((number - 1) * rows, number * rows), number, pages, all.size)
  }
}

/** The jobs of the live page: which come first, and which ended lately. */
object JobRows {
  private val Waiting = Set("waiting", "held_back", "deferred", "evicted")
  /** Kinds of [[JobState]] by the word that people choose. */
  private val Kinds: Seq[(String, String => Boolean)] = Seq(
    "waiting" -> Waiting, "running" -> Set("running", "pilots"), "idle" -> Set("idle", "on_hold"), "ended" -> Set("ended"),
    "not ended" -> (kind => kind != "ended"))
  val States: Seq[String] = Kinds.map(_._1)

  /** An unknown word takes none. */
  def kindsOf(state: String): String => Boolean = Kinds.collectFirst { case (`state`, kinds) => kinds }.getOrElse(_ => false)

  /**
   * Deadlines at risk, then what waits, the longest wait first, then what runs by the slots it has, then idle ones and those that
   * ended, the latest first.
   */
  def chosen(living: Seq[JobFacts], ended: Seq[JobFacts], filter: JobFilter, nowMs: Long): IndexedSeq[JobFacts] = {
    def taken(jobs: Seq[JobFacts]) =
      jobs.filter(j => filter.takes(j.mark.user.getOrElse(""), j.state.kind, j.mark.shown, j.plan.queue.name.getOrElse(""))).toIndexedSeq
    taken(living).sortBy(j =>
      (!j.atRisk(nowMs), !j.waits, j.state.kind == "idle", -waitedMs(j, nowMs), -j.runningSlots, j.arrival)) ++
      taken(ended).sortBy(j => (-j.times.endedMs.getOrElse(0L), -j.arrival))
  }

  /** How long a job that has had no slot yet waits. */
  def waitedMs(job: JobFacts, nowMs: Long): Long =
    if (job.waits && job.times.begunMs.isEmpty) math.max(0L, nowMs - job.times.submittedMs) else 0L
}

/** What the page says first of all jobs that are not over. */
final case class JobSummary(running: Int, waiting: Int, idle: Int, longest: Option[(JobFacts, Long)], deadlines: Int, atRisk: Seq[JobFacts])

object JobSummary {
  def of(living: Seq[JobFacts], nowMs: Long): JobSummary = {
    val (waiting, others) = living.partition(_.waits)
    val longest = waiting.map(j => j -> JobRows.waitedMs(j, nowMs)).filter(_._2 > 0).maxByOption(_._2)
    JobSummary(
      others.count(_.runningSlots > 0), waiting.size, others.count(_.runningSlots == 0), longest,
      living.count(_.mark.deadlineMs.isDefined), living.filter(_.atRisk(nowMs)))
  }
}
