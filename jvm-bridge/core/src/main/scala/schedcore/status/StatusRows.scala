package schedcore
package status

/** The rows that a page shows of a long table: rows with slots in use come first. */
object StatusRows {
  val Most = 200

  /** Executors with the most held slots first, then with the most running ones. */
  def executors(all: Seq[ExecutorFacts]): Seq[ExecutorFacts] = all.sortBy(e => (-e.heldSlots, -e.runningSlots)).take(Most)
}
