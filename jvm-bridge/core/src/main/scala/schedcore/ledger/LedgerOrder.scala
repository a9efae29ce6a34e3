package schedcore
package ledger

import scala.collection.mutable

/** A job's place among jobs of equal priority: lower is first, and of equal ranks the earlier arrival. */
private[schedcore] final case class JobPlace(rank: Int, arrival: Int) {
  def isBefore(other: JobPlace): Boolean = if (rank != other.rank) rank < other.rank else arrival < other.arrival
}

/** What the order of the tenants' queues says about held slots. */
trait HoldShares {
  /**
   * How many of the `slots` that `holder` holds `asker`, to which `taken` are promised, may take where it may take `asks` by the order of
   * jobs. Both are jobs' keys.
   */
  def ceded(holder: String, asker: String, slots: Int, asks: Int, taken: Int): Int
}

/** A job's place among jobs of equal priority, and how long its stages waited behind other jobs. */
private[schedcore] final class JobOrder(arrival: Int) {
  /** Floors and weights of the tenants' queues; None: no queue has one. */
  var shares: Option[HoldShares] = None
  var place: JobPlace = JobPlace(0, arrival)
  private var sinceMs = -1L // its first stage is ready
  private var waitedMs = 0L
  private var lent = false
  // Stages whose first task waits behind another job's, and since when.
  private val behindSinceMs = mutable.HashMap.empty[String, Long]

  /** The job waited for so long that later equals may take its held slots. */
  def lends: Boolean = lent

  def stageReady(stage: String, behind: Boolean, nowMs: Long): Unit = {
    if (sinceMs < 0) sinceMs = nowMs
    if (behind) behindSinceMs(stage) = nowMs
  }

  /** A task of the stage starts: if it is the first, the stage waits no more. */
  def launched(stage: String, nowMs: Long): Unit = if (behindSinceMs.nonEmpty) behindSinceMs.remove(stage).foreach { since =>
    waitedMs += nowMs - since
    look(nowMs)
  }

  def stageOver(stage: String): Unit = behindSinceMs -= stage

  /** Tasks of the job start or end: the answer changes at no other time. */
  def look(nowMs: Long): Unit = if (waitedMs > 0) lent = waitedMs * JobOrder.LentPart > nowMs - sinceMs
}

private object JobOrder {
  /** A job that waited for more than this part of its life, a tenth of the rest of it, lends its held slots. */
  val LentPart = 11
}

/**
 * Who comes first: whose claim to a slot is stronger, and whose held slots are safe from whom.
 *
 * By priority, then by FAIR order where pools decide, else by place: the plan's rank, then the arrival
 * (`docs/adr/0038-order-among-equals.md`). Where tenants' queues have floors or weights, these decide between jobs
 * of two queues (`docs/adr/0061-held-slots-follow-weights.md`). `spark_sched_lab/enforce/ledger_order.py` has the same.
 */
private[schedcore] object LedgerOrder {

  /** How many of the `slots` that `holder` holds `asker` cannot take, if `taken` are promised to `asker` (Algorithm 1, line 19). */
  def refuses(holder: LedgerJob, asker: LedgerJob, slots: Int, taken: Int): Int =
    if (asker eq holder) 0
    else {
      val refused = refusesByOrder(holder, asker, slots, taken)
      holder.order.shares.fold(refused)(s => slots - s.ceded(holder.key, asker.key, slots, slots - refused, taken))
    }

  private def refusesByOrder(holder: LedgerJob, asker: LedgerJob, slots: Int, taken: Int): Int =
    if (holder.rule.priority != asker.rule.priority) { if (holder.rule.priority > asker.rule.priority) slots else 0 }
    else FairShares.ceded(holder, asker, slots, taken) match {
      case Some(given) => slots - given
      case None => if (keepsFrom(holder, asker)) slots else 0
    }

  /** Whether the claim of `a` to a slot comes before that of `b`, if the pool of each used `less` slots fewer. */
  def outranks(a: LedgerJob, b: LedgerJob, less: Int = 0): Boolean =
    if (a.rule.priority != b.rule.priority) a.rule.priority > b.rule.priority
    else FairShares.isBefore(a, b, less).getOrElse(a.order.place.isBefore(b.order.place))

  /**
   * Whether its held slots are safe from `asker` however many both use: no pool is asked. Of jobs of two queues these decide by what they
   * use, beside `taken` slots of the asker.
   */
  def protects(holder: LedgerJob, asker: LedgerJob, taken: Int = 0): Boolean = {
    val safe = protectsByOrder(holder, asker)
    holder.order.shares.fold(safe)(_.ceded(holder.key, asker.key, 1, if (safe) 0 else 1, taken) == 0)
  }

  private def protectsByOrder(holder: LedgerJob, asker: LedgerJob): Boolean =
    if (holder.rule.priority != asker.rule.priority) holder.rule.priority > asker.rule.priority
    else FairShares.isBefore(holder, asker).isEmpty && keepsFrom(holder, asker)

  /**
   * Whether one of the others comes before the job and may hold what it needs. Where pools decide, nobody comes before others for
   * good.
   */
  def waitsBehind(job: LedgerJob, others: Iterator[LedgerJob]): Boolean = job.mayHold && others.exists { other =>
    other.mayHold && (other.stages.nonEmpty || other.held > 0) && {
      if (other.rule.priority != job.rule.priority) other.rule.priority > job.rule.priority
      else other.order.place.isBefore(job.order.place) && FairShares.isBefore(other, job).isEmpty
    }
  }

  /** Whether it keeps its held slots from a job of equal priority, where no pool decides. */
  private def keepsFrom(holder: LedgerJob, equal: LedgerJob): Boolean =
    !equal.order.place.isBefore(holder.order.place) && !holder.order.lends
}
