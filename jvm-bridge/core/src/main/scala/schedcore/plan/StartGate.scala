package schedcore
package plan

import scala.collection.mutable

/** What a job's waiting tasks may do under the plan in force. */
sealed trait Start

object Start {
  /** Take any slot that their place in the order gives them. */
  case object Now extends Start

  /** Take slots that nobody with a planned start waits for: the plan has no start for them, or no further slots. */
  case object Spare extends Start

  /** Start nothing yet; slots are kept for them from those that may only take spare ones. */
  case object Planned extends Start

  /**
   * Take slots that nobody with a start waits for until a plan knows the job; slots are kept for them from those that may only take
   * spare ones. What they take, the next plan would give them, too: nobody else wants it.
   */
  case object Unplanned extends Start

  /** Start nothing before the next plan, and nothing is kept for them: they gave their slots to others just now. */
  case object Evicted extends Start
}

/**
 * Start times, shares and new jobs of the plan in force, as answers to "may this job's tasks start now?".
 *
 * A plan is obeyed as long as it is valid. Without a plan every job may start, so a planner that is dead or does not
 * answer delays a job it has planned by one plan's validity at most. A job that the plan does not know waits only for slots that
 * others want, and for `patienceMs` at most, whatever the planner does. Used under its owner's lock only.
 *
 * @param patienceMs how long a job that no plan knows may be kept waiting
 */
final class StartGate(patienceMs: Long) {
  private var plan: Option[Plan] = None
  private var holdsBack = false
  // By job, versions of the events that report launches which the plan in force does not know yet.
  private val launches = mutable.HashMap.empty[String, mutable.Queue[Long]]
  // Jobs that asked while no plan knew them, and when each first asked.
  private val unknownSinceMs = mutable.HashMap.empty[String, Long]

  /** Whether any job may have to wait. */
  def active: Boolean = holdsBack

  /** From now on this plan is in force; None: none is. */
  def put(next: Option[Plan]): Unit = {
    plan = next
    holdsBack = next.exists(_.holdsBack)
    if (holdsBack) {
      val known = next.fold(Long.MaxValue)(_.snapshot)
      launches.filterInPlace { (_, versions) =>
        while (versions.headOption.exists(_ <= known)) versions.dequeue()
        versions.nonEmpty
      }
      unknownSinceMs.filterInPlace((job, _) => next.exists(!_.jobs.contains(job)))
    } else {
      launches.clear()
      unknownSinceMs.clear()
    }
  }

  /** The job is over: its state is dropped. */
  def jobEnded(job: String): Unit = {
    launches -= job
    unknownSinceMs -= job
  }

  /** Jobs with state here. */
  def remembered: Int = (launches.keySet ++ unknownSinceMs.keySet).size

  def of(job: String, nowMs: Long): Start = answer(job, nowMs, unknownSinceMs.getOrElseUpdate(job, nowMs))

  /** The same for the status page: unlike `of`, it does not start the job's patience. */
  def peek(job: String, nowMs: Long): Start = answer(job, nowMs, unknownSinceMs.getOrElse(job, nowMs))

  private def answer(job: String, nowMs: Long, unknownSince: => Long): Start = plan match {
    case None => Start.Now
    case Some(p) => p.jobs.get(job) match {
      case None =>
        val waits = p.newJobsWait && nowMs - unknownSince < patienceMs
        if (waits) Start.Unplanned else Start.Now
      case Some(entry) if entry.evict => Start.Evicted
      case Some(entry) if entry.deferred =>
        entry.startMs.fold[Start](Start.Spare)(at => if (nowMs >= at) Start.Now else Start.Planned)
      case Some(entry) => if (entry.share.exists(launchedUnderPlan(job) >= _)) Start.Spare else Start.Now
    }
  }

  /** A task of the job takes slots; `version` numbers the event that tells of it. */
  def launched(job: String, version: Long, slots: Int = 1): Unit =
    if (holdsBack) launches.getOrElseUpdate(job, mutable.Queue.empty) ++= Iterator.fill(slots)(version)

  /** The plan in force was made without knowing of these. */
  private def launchedUnderPlan(job: String): Int = launches.get(job).fold(0)(_.size)

  /** The next time at which a job that waits may start, for nothing else triggers an offer then. */
  def nextStartMs(nowMs: Long): Option[Long] =
    if (!holdsBack) None
    else {
      val planned = plan.iterator.flatMap(_.startsMs).dropWhile(_ <= nowMs).take(1)
      (planned ++ unknownSinceMs.valuesIterator.map(_ + patienceMs).filter(_ > nowMs)).minOption
    }
}
