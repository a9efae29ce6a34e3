package org.apache.spark.scheduler.sparksched

import org.apache.spark.{SparkConf, SparkContext}
import org.apache.spark.resource.ResourceInformation
import org.apache.spark.scheduler._
import org.apache.spark.scheduler.sparksched.offers.SchedTaskSetManager
import org.apache.spark.util.Clock

/** What differs between Spark's lines. */
private[sparksched] object SparkLine {
  type Cores = Int
  def cores(count: Double): Cores = count.toInt

  /** The addresses of one resource that a task has. */
  type Assigned = ResourceInformation

  /** Stages that hand their output to others while they run came with Spark 4.3. */
  def groupTasks(dag: DAGScheduler, taskSet: TaskSet): Option[Int] = None

  def taskSetManager(
      scheduler: SchedTaskScheduler, taskSet: TaskSet, maxTaskFailures: Int, health: Option[HealthTracker], clock: Clock): SchedTaskSetManager =
    new SchedTaskSetManager(scheduler, taskSet, maxTaskFailures, health, clock)

  /** Free parts of the executor's other resources, by name and address. Spark 3.5 lists an address once for each free part. */
  def freeResources(offer: WorkerOffer, context: SparkContext): Map[String, Map[String, Double]] = {
    val profile = context.resourceProfileManager.resourceProfileFromId(offer.resourceProfileId)
    offer.resources.map { case (name, addresses) =>
      val parts = math.max(1, profile.getNumSlotsPerAddress(name, context.conf)).toDouble
      name -> addresses.groupBy(identity).map { case (address, free) => address -> free.size / parts }
    }
  }

  /**
   * Slots that a task takes of one resource, from what the task needs of it and what a slot is. Spark 3.5 takes entries
   * of the list in `freeResources`: as many as the task needs addresses, and one for a part, whatever its size. So a
   * task that needs a whole address takes one part where the executor's own profile divides addresses.
   */
  def slotsTaken(task: Double, slot: Double): Double = entries(task) / entries(slot)
  private def entries(amount: Double): Double = if (amount < 1) math.ceil(amount) else math.floor(amount)

  /** The offer without any resource. */
  def nothingOf(offer: WorkerOffer): WorkerOffer = offer.copy(cores = 0, resources = Map.empty)

  /**
   * Has all SQL sessions of the context load our extension. By its service file Spark 3.5 finds it only for sessions that
   * Scala and Java build, and not for those of Python.
   */
  def loadSessionExtension(conf: SparkConf): Unit = {
    val others = conf.getOption(Extensions).toList.flatMap(_.split("\\s*,\\s*")).filter(_.nonEmpty)
    if (!others.contains(OurExtension)) conf.set(Extensions, (others :+ OurExtension).mkString(","))
  }
  private val Extensions = "spark.sql.extensions"
  private val OurExtension = "org.apache.spark.sql.sparksched.SessionExtensions"
}

/** With the method by which Spark 4 cancels a stage. */
private[sparksched] abstract class LineTaskSetManager(
    scheduler: TaskSchedulerImpl, taskSet: TaskSet, maxTaskFailures: Int, health: Option[HealthTracker], clock: Clock)
    extends TaskSetManager(scheduler, taskSet, maxTaskFailures, health, clock) {

  /** Starts no more tasks. */
  def suspend(): Unit = if (!isZombie) {
    isZombie = true
    if (runningTasks == 0) scheduler.taskSetFinished(this)
  }

  /** Spark 3.5 cancels a stage by giving it up. */
  override def abort(message: String, exception: Option[Throwable]): Unit = { super.abort(message, exception); suspend() }
}
