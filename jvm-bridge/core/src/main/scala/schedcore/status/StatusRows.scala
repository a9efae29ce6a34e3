package schedcore
package status

/** The rows that a page shows of a long table: rows with slots in use come first. */
object StatusRows {
  val Most = 200

  /** Jobs that run or wait before those without work now; in the plan's order, then by arrival. */
  def jobs(all: Seq[JobFacts]): Seq[JobFacts] =
    all.sortBy(j => (j.state.kind == "idle", j.plan.rules.fold(Int.MaxValue)(_.rank), j.arrival)).take(Most)

  /** Executors with the most held slots first, then with the most running ones. */
  def executors(all: Seq[ExecutorFacts]): Seq[ExecutorFacts] = all.sortBy(e => (-e.heldSlots, -e.runningSlots)).take(Most)
}
