package org.apache.spark.sql.sparksched

import org.apache.spark.sql.catalyst.optimizer.BuildLeft
import org.apache.spark.sql.catalyst.plans._
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.adaptive.{ShufflePartitionsUtil, ShuffleQueryStageExec}
import org.apache.spark.sql.execution.exchange.ENSURE_REQUIREMENTS
import org.apache.spark.sql.execution.joins.{BroadcastHashJoinExec, ShuffledJoin}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.util.Utils

/** Divides partitions that are far larger than others into parts that a join reads, as Spark's rule `OptimizeSkewedJoin` does. */
private object SkewedJoins {

  /**
   * A shuffle that a join reads.
   *
   * @param bytes by partition
   * @param mappers tasks that wrote it
   * @param divided its larger partitions are read in parts
   */
  final case class Side(bytes: Array[Long], mappers: Int, divided: Boolean)

  /** Which of the shuffles that these operators read are read in parts where they are skewed. */
  def divided(operators: Seq[SparkPlan], shuffles: Seq[ShuffleQueryStageExec], conf: SQLConf): Seq[Boolean] = {
    def only(stages: SparkPlan*) = stages.size == shuffles.size && stages.lazyZip(shuffles).forall(_ eq _)
    // Rows of one key no longer come together: an operator above that relies on it would need one more shuffle.
    def mayBreak(join: SparkPlan) = conf.getConf(SQLConf.ADAPTIVE_FORCE_OPTIMIZE_SKEWED_JOIN) ||
      operators.filter(o => (o ne join) && o.exists(_ eq join)).forall(AdaptivePlans.takesRowsAnywhere)
    val found =
      if (!conf.getConf(SQLConf.SKEW_JOIN_ENABLED) || shuffles.exists(_.shuffle.shuffleOrigin != ENSURE_REQUIREMENTS)) None
      else operators.collectFirst {
        case join: ShuffledJoin if only(unsorted(join.left), unsorted(join.right)) && mayBreak(join) =>
          Seq(dividesLeft(join.joinType), dividesRight(join.joinType))
        case join: BroadcastHashJoinExec if !conf.getConf(SQLConf.LOCAL_SHUFFLE_READER_ENABLED) &&
            only(if (join.buildSide == BuildLeft) join.right else join.left) && mayBreak(join) =>
          Seq(true)
      }
    found.getOrElse(shuffles.map(_ => false))
  }

  private def unsorted(plan: SparkPlan): SparkPlan = plan match {
    case sort: SortExec => sort.child
    case other => other
  }

  /** Each part of one side is joined with the whole partition of the other, whose rows without a match would come up again. */
  private def dividesLeft(kind: JoinType): Boolean = kind match {
    case Inner | Cross | LeftSemi | LeftAnti | LeftOuter => true
    case _ => false
  }

  private def dividesRight(kind: JoinType): Boolean = kind match {
    case Inner | Cross | RightOuter => true
    case _ => false
  }

  /** What each task reads of the sides, which have as many partitions; None where none of them is divided. */
  def specs(sides: Seq[Side], conf: SQLConf): Option[Seq[ShufflePartitionSpec]] = {
    val parts = sides.map(partsOf(_, conf))
    val tasks = parts.head.indices.map(i => parts.map(_(i)).product)
    Option.when(tasks.exists(_ > 1))(tasks.zipWithIndex.flatMap {
      case (1, i) => Seq(CoalescedPartitionSpec(i, i + 1, None))
      case (n, i) => Seq.fill(n)(PartialReducerPartitionSpec(i, 0, 0, 0L))
    })
  }

  private def partsOf(side: Side, conf: SQLConf): Array[Int] =
    if (!side.divided || side.bytes.isEmpty) side.bytes.map(_ => 1)
    else {
      val median = Utils.median(side.bytes, alreadySorted = false)
      val most = math.max(
        conf.getConf(SQLConf.SKEW_JOIN_SKEWED_PARTITION_THRESHOLD),
        (median * conf.getConf(SQLConf.SKEW_JOIN_SKEWED_PARTITION_FACTOR)).toLong)
      val others = side.bytes.filter(_ <= most)
      val advisory = conf.getConf(SQLConf.ADVISORY_PARTITION_SIZE_IN_BYTES)
      val target = if (others.isEmpty) advisory else math.max(advisory, others.sum / others.length)
      side.bytes.map(size => if (size > most) partsOf(size, side.mappers, target) else 1)
    }

  /** A part is the output of some map tasks. Until all are done, their outputs are assumed to be of equal size. */
  private def partsOf(size: Long, mappers: Int, target: Long): Int =
    ShufflePartitionsUtil.splitSizeListByTargetSize(
      Array.fill(mappers)(size / mappers), target, ShufflePartitionsUtil.SMALL_PARTITION_FACTOR).length
}
