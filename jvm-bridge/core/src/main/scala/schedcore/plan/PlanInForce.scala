package schedcore
package plan

/**
 * The plan in force, if any, as answers about jobs: who may start what, in which order, which queue is next.
 *
 * Used under its owner's lock only. `spark_sched_lab.enforce.enforcement` answers alike in the simulator.
 *
 * @param patienceMs how long a job that no plan knows may be kept waiting
 */
class PlanInForce(patienceMs: Long) {
  private var current: Option[Plan] = None
  private val queueTurns = new QueueTurns
  private var puts = 0L
  /** Who may start what under the plan in force. */
  val starts = new StartGate(patienceMs)

  /** From now on this plan is in force; None: none is. */
  def put(plan: Option[Plan]): Unit = {
    current = plan
    puts += 1
    starts.put(plan)
    queueTurns.put(plan.fold(PlanInForce.NoQueues)(_.queueWeights))
  }

  /** The plan itself. */
  def inForce: Option[Plan] = current

  /** Rises with every plan that comes into force, and when none is any more. */
  def changes: Long = puts

  /** Jobs whose running tasks the plan in force takes away. */
  def evicted: Seq[String] = current.fold(Seq.empty[String])(_.evicted)

  /** Jobs that take running tasks' slots under the plan in force, in its order, and whose these are. */
  def preemptions: Seq[(String, IndexedSeq[Long])] = current.fold(Seq.empty[(String, IndexedSeq[Long])])(_.preemptions)

  /** The pilots of a stage of a job, by its index; the same object as long as the plan is. */
  def pilots(job: String, stage: Int): IndexedSeq[Int] =
    forJob(job).flatMap(_.pilots).filter(_.stage == stage).fold(PlanInForce.NoPilots)(_.tasks)

  /** Whether jobs that the plan in force does not know wait for the next one. */
  def newJobsWait: Boolean = current.exists(_.newJobsWait)

  def forJob(job: String): Option[JobPlan] = current.flatMap(_.jobs.get(job))

  /** Whether the plan in force lets the job's tasks start on the fastest executors first. */
  def isPowerful(job: String): Boolean = forJob(job).exists(_.powerful)

  /** Whether the plan in force says that some of these executors are faster than others. */
  def differ(executors: Iterable[String]): Boolean = current.exists { plan =>
    plan.slowness.nonEmpty && executors.iterator.map(slowness).distinct.size > 1
  }

  /** A task's time on the executor over its time on an average one. */
  def slowness(executor: String): Double = current.flatMap(_.slowness.get(executor)).getOrElse(1.0)

  /** Whether the plan in force was made with the events up to this version known. */
  def knows(version: Long): Boolean = current.forall(_.snapshot >= version)

  /** Order among jobs of equal priority: the plan's, where it orders at all; jobs it does not know come last. */
  def rank(job: String): Int = current match {
    case Some(plan) if plan.ordered => plan.jobs.get(job).fold(Int.MaxValue)(_.rank)
    case _ => 0
  }

  /** The job's queue under the plan in force, if that has queues. */
  def queue(job: String): Option[Int] =
    current.filter(_.queueWeights.nonEmpty).flatMap(p => p.jobs.get(job).flatMap(_.queue).filter(_ < p.queueWeights.size))

  /** How many queues the plan in force has. */
  def queues: Int = current.fold(0)(_.queueWeights.size)

  /** Which of its queues is next at these numbers of slots in use. */
  def turnsAt(slots: Int => Int): IndexedSeq[QueueTurn] = queueTurns.turns(slots)

  /** An attempt of the job took its slots for `ranMs` until now. */
  def attemptEnded(job: String, ranMs: Long, nowMs: Long): Unit = queue(job).foreach(queueTurns.stopped(_, ranMs, nowMs))
}

object PlanInForce {
  private val NoPilots = IndexedSeq.empty[Int]
  private val NoQueues = IndexedSeq.empty[Double]
}
