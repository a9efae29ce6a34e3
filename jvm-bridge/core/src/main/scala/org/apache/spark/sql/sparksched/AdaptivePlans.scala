package org.apache.spark.sql.sparksched

import org.apache.spark.MapOutputStatistics
import org.apache.spark.sql.catalyst.optimizer.BuildLeft
import org.apache.spark.sql.catalyst.plans.physical.{BroadcastDistribution, RangePartitioning, SinglePartition, UnspecifiedDistribution}
import org.apache.spark.sql.execution.{CoalesceExec, CollectLimitExec, CollectTailExec, ReusedSubqueryExec, SQLExecution, ShufflePartitionSpec, SparkPlan, UnionExec}
import org.apache.spark.sql.execution.adaptive._
import org.apache.spark.sql.execution.exchange._
import org.apache.spark.sql.execution.joins.{BroadcastHashJoinExec, BroadcastNestedLoopJoinExec, CartesianProductExec}
import org.apache.spark.sql.internal.SQLConf

/**
 * Predicts the next steps of adaptive execution from a query's current plan.
 *
 * Call it on a thread that nobody waits for: it waits for plans that are not ready, and a plan may itself wait for a Spark job.
 * It keeps no reference to a plan.
 */
private[spark] object AdaptivePlans {

  /**
   * The stage that reads a shuffle.
   *
   * @param name the same for all shuffles that it reads, as long as the query runs
   * @param tasks the number of its tasks; None while it is unknown
   * @param ready whether all its other inputs have begun or ended
   * @param shuffles that it reads, as far as they have begun, and those that its broadcasts are made of
   * @param broadcasts that it reads and that have begun, by the tags of their Spark jobs
   */
  final case class Reader(name: String, tasks: Option[Int], ready: Boolean, shuffles: Seq[Int], broadcasts: Seq[String])

  /**
   * Whether only the last stage of a query is left; None where the plan does not say. An adaptive plan calls itself final only
   * when its result is ready: until then its result is a stage like any other.
   *
   * A subquery that only the result needs runs when the result is a stage already. Spark waits for all of them before it
   * submits the tasks of the result, so that these find every subquery's plan final.
   */
  def isFinal(execution: Long): Option[Boolean] = planOf(execution).flatMap { root =>
    val (subqueries, mains) = adaptive(root).partition(_.isSubquery)
    if (mains.isEmpty) Option.when(hasOtherResults(root))(false) // the plan does not say which result is computed now
    else Some(
      mains.forall(a => a.isFinalPlan || SqlLine.isResult(a.executedPlan)) && subqueries.forall(_.isFinalPlan))
  }

  /** Whether subqueries, or samples of what is sorted, are computed before the result of a query that is not adaptive. */
  private def hasOtherResults(root: SparkPlan): Boolean = WholePlan.find(root) {
    case exchange: ShuffleExchangeLike => exchange.outputPartitioning match {
      // Reading the exchange's own number of partitions would wait for the sample.
      case RangePartitioning(_, partitions) => partitions > 1
      case _ => false
    }
    case other => other.subqueries.nonEmpty
  }.isDefined

  /**
   * The stage that reads a shuffle while it is being written; None where the plan does not say, or several stages read it.
   *
   * @param sizes bytes by partition that a shuffle will have, where enough of it is written
   */
  def readerOf(execution: Long, shuffle: Int, sizes: Int => Option[Array[Long]]): Option[Reader] = {
    val found = for {
      root <- planOf(execution).toList
      plan <- adaptive(root)
      group <- groups(plan.executedPlan)
      shuffles = group.leaves.collect { case s: ShuffleQueryStageExec => s }
      if shuffles.exists(idOf(_).contains(shuffle))
    } yield {
      val broadcasts = group.leaves.flatMap(broadcast)
      // Read before the tasks are: shuffles begin meanwhile, and the tasks must consider every shuffle that is listed here.
      val begun = (shuffles ++ broadcasts.flatMap(b => shufflesAt(b.child))).flatMap(idOf)
      // Numbers of query stages grow: those that join a group later do not change its name.
      Reader(
        s"${plan.id}-${shuffles.map(_.id).min}", tasksOf(group, shuffles, sizes, root.conf),
        !group.leaves.exists(_.isInstanceOf[Exchange]), begun, broadcasts.map(_.jobTag))
    }
    Option.when(found.size == 1)(found.head)
  }

  private def planOf(execution: Long): Option[SparkPlan] =
    Option(SQLExecution.getQueryExecution(execution)).map(_.executedPlan)

  /** Plans that are executed adaptively: the query's own, and those of its subqueries, each once. */
  private def adaptive(root: SparkPlan): Seq[AdaptiveSparkPlanExec] =
    WholePlan.collectWithSubqueries(root) { case a: AdaptiveSparkPlanExec => a }.distinctBy(_.id)

  /** The operators of one stage: those between exchanges. */
  private final case class Group(operators: Seq[SparkPlan], leaves: Seq[SparkPlan])

  private def groups(root: SparkPlan): Seq[Group] = {
    val group = groupAt(root)
    group +: group.leaves.collect { case e: Exchange => e.child }.flatMap(groups)
  }

  private def groupAt(plan: SparkPlan): Group = plan match {
    case _: QueryStageExec | _: Exchange => Group(Nil, Seq(plan))
    case _ if plan.children.isEmpty => Group(Nil, Seq(plan))
    case _ =>
      val below = plan.children.map(groupAt)
      Group(plan +: below.flatMap(_.operators), below.flatMap(_.leaves))
  }

  /** What has been planned as a broadcast for good: all that it reads is written. */
  private def broadcast(leaf: SparkPlan): Option[BroadcastExchangeLike] = leaf match {
    case stage: BroadcastQueryStageExec => Some(stage.broadcast)
    case _ => None
  }

  private def shufflesAt(plan: SparkPlan): Seq[ShuffleQueryStageExec] =
    groupAt(plan).leaves.collect { case s: ShuffleQueryStageExec => s }

  private def idOf(stage: ShuffleQueryStageExec): Option[Int] = SqlLine.submitted(stage.shuffle)

  private def tasksOf(
      group: Group, shuffles: Seq[ShuffleQueryStageExec], sizes: Int => Option[Array[Long]], conf: SQLConf): Option[Int] = {
    // Reading the number from a shuffle that has not begun would start it, and its sample if it sorts.
    val partitions = shuffles.map(_.shuffle.outputPartitioning.numPartitions).distinct
    val known = group.leaves.forall(l => l.isInstanceOf[QueryStageExec] || l.isInstanceOf[Exchange])
    // These have another number of tasks than their input has partitions.
    val mixes = group.operators.exists {
      case _: UnionExec | _: CartesianProductExec | _: CoalesceExec => true
      case _ => false
    }
    if (!known || mixes || partitions.size != 1) None
    else {
      // A cached table is read as it is, and so is what it is joined with.
      val fixed = group.leaves.exists(_.isInstanceOf[TableCacheQueryStageExec])
      val coalesces = conf.coalesceShufflePartitionsEnabled && !fixed && shuffles.forall(mayCoalesce)
      val divided = SkewedJoins.divided(group.operators, shuffles, conf)
      val bytes =
        if (!coalesces && !divided.contains(true)) None
        else allOf(shuffles.map(s => if (s.isMaterialized) s.mapStats.map(_.bytesByPartitionId) else idOf(s).flatMap(sizes)))
      val read = bytes.map { all =>
        val sides = shuffles.indices.map(i => SkewedJoins.Side(all(i), shuffles(i).shuffle.numMappers, divided(i)))
        val specs = SkewedJoins.specs(sides, conf)
        val fewer = if (coalesces) coalesced(group, shuffles, all, specs, conf) else None
        fewer.getOrElse(specs.fold(partitions.head)(_.size))
      }.orElse(Option.unless(coalesces)(partitions.head))
      val all = if (shuffles.size == 1 && readsLocally(group, shuffles.head, conf)) read.map(locally(shuffles.head, _)) else read
      if (takesSome(group)) Some(all.fold(conf.limitInitialNumPartitions)(math.min(_, conf.limitInitialNumPartitions))) else all
    }
  }

  /** Whether what wants the rows begins with some partitions and asks for others where these have too few. */
  private def takesSome(group: Group): Boolean = group.operators.headOption.exists {
    case first: CollectLimitExec => first.limit >= 0 // else it only leaves out the first rows
    case _: CollectTailExec => true
    case _ => false
  }

  private def allOf[A](values: Seq[Option[A]]): Option[Seq[A]] = Option.when(values.forall(_.isDefined))(values.flatten)

  /** Whether what one map task wrote is read as a whole, since the join no longer needs rows of one key together. */
  private def readsLocally(group: Group, shuffle: ShuffleQueryStageExec, conf: SQLConf): Boolean =
    conf.getConf(SQLConf.LOCAL_SHUFFLE_READER_ENABLED) && shuffle.shuffle.shuffleOrigin == ENSURE_REQUIREMENTS &&
      shuffle.shuffle.outputPartitioning != SinglePartition &&
      group.operators.exists {
        case join: BroadcastHashJoinExec => (if (join.buildSide == BuildLeft) join.right else join.left) eq shuffle
        case _ => false
      } &&
      group.operators.forall(takesRowsAnywhere)

  /** Whether the operator does not depend on which rows are in one task. */
  private[sparksched] def takesRowsAnywhere(operator: SparkPlan): Boolean = operator.requiredChildDistribution.forall {
    case UnspecifiedDistribution | _: BroadcastDistribution => true
    case _ => false
  }

  /** As many tasks as partitions at most, each with the whole output of map tasks or an equal part of one. */
  private def locally(shuffle: ShuffleQueryStageExec, partitions: Int): Int = {
    val mappers = math.max(1, shuffle.shuffle.numMappers)
    partitions - (if (partitions > mappers) partitions % mappers else 0)
  }

  private def mayCoalesce(stage: ShuffleQueryStageExec): Boolean =
    stage.shuffle.outputPartitioning != SinglePartition && (stage.shuffle.shuffleOrigin match {
      case ENSURE_REQUIREMENTS | REPARTITION_BY_COL | REBALANCE_PARTITIONS_BY_NONE | REBALANCE_PARTITIONS_BY_COL => true
      case _ => false
    })

  /** Partitions after Spark's own rule, of what is read by `specs`; None where it leaves them as they are. */
  private def coalesced(
      group: Group, shuffles: Seq[ShuffleQueryStageExec], bytes: Seq[Array[Long]], specs: Option[Seq[ShufflePartitionSpec]],
      conf: SQLConf): Option[Int] = {
    val least = conf.getConf(SQLConf.COALESCE_PARTITIONS_MIN_PARTITION_NUM).getOrElse {
      if (conf.getConf(SQLConf.COALESCE_PARTITIONS_PARALLELISM_FIRST))
        shuffles.head.session.sparkContext.defaultParallelism
      else 1
    }
    val smallest = conf.getConf(SQLConf.COALESCE_PARTITIONS_MIN_PARTITION_SIZE)
    val advised = if (shuffles.size == 1) shuffles.head.advisoryPartitionSize else None
    val wanted =
      // The operator may produce many rows from few.
      if (group.operators.exists(_.isInstanceOf[BroadcastNestedLoopJoinExec])) smallest
      else advised.getOrElse(conf.getConf(SQLConf.ADVISORY_PARTITION_SIZE_IN_BYTES))
    val statistics = bytes.zipWithIndex.map { case (b, i) => Option(new MapOutputStatistics(i, b)) }
    ShufflePartitionsUtil.coalescePartitions(
      statistics, Seq.fill(bytes.size)(specs), wanted, math.max(1, least), smallest).headOption.map(_.size).filter(_ > 0)
  }
}

/** Visits all of a plan, also inside its stages, which Spark's own traversal treats as leaves. */
private object WholePlan extends AdaptiveSparkPlanHelper {
  override protected def allChildren(plan: SparkPlan): Seq[SparkPlan] = plan match {
    // The part that had the subquery first may have left the plan since.
    case reused: ReusedSubqueryExec => Seq(reused.child)
    case other => super.allChildren(other)
  }
}
