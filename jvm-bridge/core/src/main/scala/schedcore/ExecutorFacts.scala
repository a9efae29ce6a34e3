package schedcore

/** Slots of an executor that are held for a job. */
final case class HeldFor(job: String, name: String, slots: Int)

/**
 * The slots of one executor: all of them, those that run attempts, those that are held idle.
 *
 * @param runningSlots copies and pilots included
 * @param pilotSlots of pilots whose stage waits for them
 */
final case class ExecutorFacts(
    executor: String, host: String, slots: Int, runningSlots: Int, held: Seq[HeldFor], copiedSlots: Int = 0, pilotSlots: Int = 0) {
  def heldSlots: Int = held.map(_.slots).sum
}

object ExecutorFacts {

  /**
   * @param running attempts that run now
   * @param holds job, executor, slots and deadline of what is held
   * @param isPilot whether an attempt is one of a pilot whose stage waits for it
   */
  def of(
      executors: Seq[Event.ExecutorAdded], running: Seq[Event.TaskLaunched], holds: Seq[(String, String, Int, Long)],
      nameOf: String => String, isPilot: Event.TaskLaunched => Boolean): Seq[ExecutorFacts] = {
    def byExecutor(tasks: Seq[Event.TaskLaunched]) = tasks.groupMapReduce(_.executor)(_.slots)(_ + _).withDefaultValue(0)
    val (used, copied, pilots) = (byExecutor(running), byExecutor(running.filter(_.copy)), byExecutor(running.filter(isPilot)))
    val held = holds.groupMap(_._2) { case (job, _, slots, _) => HeldFor(job, nameOf(job), slots) }
    executors.map { e =>
      ExecutorFacts(
        e.executor, e.host, e.slots, used(e.executor), held.getOrElse(e.executor, Nil), copied(e.executor), pilots(e.executor))
    }
  }
}
