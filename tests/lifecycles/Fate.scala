package org.apache.spark.scheduler.sparksched.lifecycles

import java.util.Properties
import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.{HashPartitioner, Partition, ShuffleDependency, SparkContext, TaskContext}
import org.apache.spark.rdd.{DeterministicLevel, RDD}
import org.apache.spark.resource.ResourceProfile
import org.apache.spark.scheduler.{TaskDescription, TaskSet}

/**
 * What becomes of an attempt: all of it follows from the seed of its action, its place and its number.
 *
 * @param reads shuffles, with the number of their map tasks
 * @param writes partitions of the map output; None: the attempt gives `result`
 * @param missesKills it ends by itself before a kill reaches it
 * @param cannotFetch it finds an output that it reads on no executor, though Spark knows one
 * @param sends what its result is to the driver, one of [[Fate]]'s
 */
final case class Fate(
    lastsMs: Long, fails: Boolean, missesKills: Boolean, reads: Seq[(Int, Int)], writes: Option[Int], result: Long,
    cannotFetch: Boolean, sends: String)

object Fate {
  private val Seed = "lifecycles.seed"
  private val LongestMs = "lifecycles.longestMs"
  private val FailingPartition = "lifecycles.failingPartition"
  private val Failures = "lifecycles.failures"
  private val Reads = "lifecycles.reads"
  private val Sends = "lifecycles.sends"

  /** Ways in which results reach the driver, or do not. */
  val Plain = "plain"
  val Lost = "lost"
  val TooLarge = "too large"
  val Unreadable = "unreadable"

  /** The local properties of an action. */
  def put(properties: Properties, action: Action): Unit = {
    properties.setProperty(Seed, action.seed.toString)
    properties.setProperty(LongestMs, action.longestMs.toString)
    properties.setProperty(FailingPartition, action.failingPartition.toString)
    properties.setProperty(Failures, action.failures.toString)
    properties.setProperty(Sends, action.sends)
    properties.setProperty(Reads, SimulatedRdd.reads(action.rdd).map { case (s, maps) => s"$s:$maps" }.mkString(","))
  }

  def result(seed: Long, partition: Int): Long = seed * 31 + partition

  def of(task: TaskDescription, taskSet: TaskSet): Fate = {
    val p = task.properties
    val seed = p.getProperty(Seed).toLong
    val dice = new scala.util.Random(seed * 7919 + taskSet.stageId * 1009 + task.partitionId * 31 + task.attemptNumber)
    dice.nextInt()
    val straggles = dice.nextInt(16) == 0
    val lastsMs = dice.nextInt(p.getProperty(LongestMs).toInt + 1) * (if (straggles) 5 else 1)
    val fails = task.partitionId == p.getProperty(FailingPartition).toInt && task.attemptNumber < p.getProperty(Failures).toInt
    val written = taskSet.shuffleId.map(SimulatedRdd.shuffles.get(_))
    val reads = written.fold(parse(p.getProperty(Reads)))(_.reads)
    val missesKills = dice.nextInt(4) == 0
    // Not often, so that no task fails as often as it may, and stages end.
    val first = task.attemptNumber == 0 && p.getProperty(Failures).toInt == 0
    val cannotFetch = first && taskSet.stageAttemptId < 2 && dice.nextInt(60) == 0
    val isLost = first && dice.nextInt(60) == 0
    val sends = if (written.isEmpty && p.getProperty(Sends) != Plain) p.getProperty(Sends) else if (isLost) Lost else Plain
    Fate(lastsMs, fails, missesKills, reads, written.map(_.partitions), result(seed, task.partitionId), cannotFetch, sends)
  }

  private def parse(reads: String): Seq[(Int, Int)] =
    reads.split(',').toSeq.filter(_.nonEmpty).map(_.split(':')).map(pair => pair(0).toInt -> pair(1).toInt)
}

/** A stage's output that is never computed. */
final class SimulatedRdd(
    @transient context: SparkContext, width: Int, shuffles: Seq[ShuffleDependency[Int, Int, Int]], hosts: Seq[String],
    barrier: Boolean, profile: Option[ResourceProfile] = None, indeterminate: Boolean = false)
    extends RDD[(Int, Int)](context, shuffles) {

  override protected def getPartitions: Array[Partition] =
    Array.tabulate(width)(i => new Partition { override def index: Int = i })

  override protected def getPreferredLocations(split: Partition): Seq[String] =
    if (hosts.isEmpty) Nil else Seq(hosts(split.index % hosts.size))

  override def getResourceProfile(): ResourceProfile = profile.orNull

  /** If outputs of it are lost, all that was made of the others is made again. */
  override protected def getOutputDeterministicLevel: DeterministicLevel.Value =
    if (indeterminate) DeterministicLevel.INDETERMINATE else super.getOutputDeterministicLevel

  @transient override protected lazy val isBarrier_ : Boolean = barrier

  override def compute(split: Partition, context: TaskContext): Iterator[(Int, Int)] =
    throw new IllegalStateException("simulated tasks compute nothing")
}

object SimulatedRdd {
  final case class Written(partitions: Int, reads: Seq[(Int, Int)])

  /** By shuffle id: the task descriptions that executors get do not tell. */
  val shuffles = new ConcurrentHashMap[Int, Written]

  def shuffle(rdd: SimulatedRdd, partitions: Int): ShuffleDependency[Int, Int, Int] = {
    val dependency = new ShuffleDependency[Int, Int, Int](rdd, new HashPartitioner(partitions))
    shuffles.put(dependency.shuffleId, Written(partitions, reads(rdd)))
    dependency
  }

  def reads(rdd: RDD[_]): Seq[(Int, Int)] = rdd.dependencies.collect {
    case s: ShuffleDependency[_, _, _] => s.shuffleId -> s.rdd.getNumPartitions
  }
}
