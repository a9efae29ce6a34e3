package schedcore
package ledger

/** What happened to a freed slot, and why, in words for people. */
final case class Decision(keep: Boolean, reason: String)

/** Whether a job keeps a slot that one of its tasks freed: HANDLETASKCOMPLETION of Algorithm 1. The twin of
  * `spark_sched_lab/enforce/ledger_decisions.py`. Pure functions of a stage's and its job's books.
  */
private[schedcore] object LedgerDecisions {

  /** A task of the stage was completed; the job's demand and deadline count it already.
    *
    * `place` is what its slots are to the next stages, where they must fit.
    */
  def onCompletion(p: LedgerStage, nowMs: Long, place: Option[LedgerFit.Place]): Decision =
    if (!p.job.mayHold) Decision(keep = false, "no isolation")
    else if (p.isLast) Decision(keep = false, "last stage") // lines 2-3
    else if (place.exists(!_.fits)) Decision(keep = false, "next stage needs other slots") // section III-C
    else if (place.fold(LedgerDemand.neededAfter(p, nowMs))(_.slots) == 0) Decision(keep = false, "fewer tasks next") // lines 9-11
    else room(p.job, nowMs, if (p.nextSlots.isEmpty) "next stage unknown" else "next stage") // lines 6-8, 12-15

  /** An attempt ended that completed no task of a stage that still runs. */
  def keepUnlessLast(p: LedgerStage, why: String, nowMs: Long, place: Option[LedgerFit.Place]): Decision =
    if (!p.job.mayHold) Decision(keep = false, "no isolation")
    else if (p.isLast) Decision(keep = false, "last stage")
    else if (place.exists(_.slots == 0)) Decision(keep = false, "enough held")
    else room(p.job, nowMs, why)

  /** The slot of a killed copy or original is freed after its stage ended: the job keeps it until the gap ends. */
  def afterStage(p: LedgerStage, nowMs: Long, place: Option[LedgerFit.Place]): Decision =
    if (p.isLast || !p.job.mayHold || place.exists(_.slots == 0)) Decision(keep = false, "stage over") else room(p.job, nowMs, "copy returned")

  /** How many of an ended attempt's slots its job keeps, if it keeps any. `completed` is whether the attempt
    * completed a task of a stage that still runs.
    */
  def slotsToKeep(a: LedgerAttempt, completed: Boolean, nowMs: Long, place: Option[LedgerFit.Place]): Int =
    place.map(_.slots).getOrElse(if (a.slots == 1) 1 else {
      val most = math.min(a.slots, a.stage.job.demand.slots - a.stage.job.running - a.stage.job.held)
      // The first m - n slots are released. A task that crosses this bound keeps its slots beyond it.
      if (completed) math.min(most, LedgerDemand.neededAfter(a.stage, nowMs)) else most
    })

  private def room(j: LedgerJob, nowMs: Long, why: String): Decision =
    if (j.deadlineMs <= nowMs) Decision(keep = false, "deadline passed")
    else if (j.running + j.held >= j.demand.slots) Decision(keep = false, "enough held")
    else Decision(keep = true, why)
}
