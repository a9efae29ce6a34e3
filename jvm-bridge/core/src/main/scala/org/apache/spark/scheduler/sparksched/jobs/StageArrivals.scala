package org.apache.spark.scheduler.sparksched
package jobs

import org.apache.spark.SparkContext
import org.apache.spark.scheduler.{DAGScheduler, SchedulingMode, TaskSet}
import org.apache.spark.scheduler.sparksched.sql.{MapOutput, SqlOutlook}
import schedcore.ledger.{PoolShare, TaskShape}
import schedcore.marks.{JobMark, MarkSources}

/**
 * Finds out what is known of a stage when its task set is made, and enters it into the records. Used under the scheduler's
 * lock only.
 *
 * @param shapeOf the slots and the executors that a task of a resource profile takes
 * @param afterChange applies a change of the ledger and offers what it frees
 * @param groupTasks of a pipelined stage, tasks of all stages of its group
 */
private[sparksched] final class StageArrivals(
    scheduler: SchedTaskScheduler, records: SchedRecords, shapeOf: Int => TaskShape, afterChange: (=> Unit) => Unit,
    groupTasks: (DAGScheduler, TaskSet) => Option[Int]) {
  import records.{ledger, plans, registry, waitingQueries}

  /** What adaptive execution makes of the stages' outputs. */
  val sqlOutlook: SqlOutlook = new SqlOutlook(
    (stage, name, slots, ready, inputs) => afterChange(ledger.nextLearned(stage, name, slots, ready, scheduler.nowMs, inputs)),
    (stage, last) => afterChange(ledger.lastLearned(stage, last, scheduler.nowMs)))

  /** The user of a task set that is yet to arrive. */
  def userOf(taskSet: TaskSet): String = {
    val property = (key: String) => Option(taskSet.properties).flatMap(p => Option(p.getProperty(key)))
    registry.userOf(registry.markOf(
      taskSet.priority, property, taskSet.properties, scheduler.nowMs - scheduler.steadyClock.aheadMs, records.origins.of(taskSet.properties)))
  }

  /** Called in the DAGScheduler's event loop. */
  def place(stage: String, taskSet: TaskSet, barrier: Boolean): StagePlace = {
    val dagScheduler = scheduler.dagScheduler
    val shape = shapeOf(taskSet.resourceProfileId)
    val group = groupTasks(dagScheduler, taskSet)
    val outlook = DagOutlook.of(dagScheduler, taskSet.stageId, taskSet.priority, shapeOf)
    val name = dagScheduler.stageIdToStage.get(taskSet.stageId).fold("")(_.name)
    val property = (key: String) => Option(taskSet.properties).flatMap(p => Option(p.getProperty(key)))
    // One time for all: a deadline that is a length of time counts from the start that the status shows.
    val (startMs, aheadMs) = (scheduler.nowMs, scheduler.steadyClock.aheadMs)
    val origin = records.origins.of(taskSet.properties)
    val given = origin.given(property) // nobody's plan is read for another's stages
    val mark = registry.markOf(taskSet.priority, property, taskSet.properties, startMs - aheadMs, origin).laterBy(aheadMs)
    val place = registry.stageStarted(
      mark, plans, taskSet.priority, stage, name, taskSet.tasks.length, outlook, barrier,
      restartable = !barrier && group.isEmpty, shape, fairPool(property), given, startMs)
    waitingQueries.stageStarted(
      stage, mark.key, mark.name, taskSet.priority, given(MarkSources.GroupId).exists(registry.users.ofGroup(_).isDefined), given, startMs)
    val query = given(SqlOutlook.ExecutionId).flatMap(_.toLongOption)
    // A later attempt of a stage starts with some outputs present.
    val output = for (q <- query; w <- outlook.written if taskSet.stageAttemptId == 0)
      yield new MapOutput(stage, q, w.id, taskSet.tasks.length, w.partitions, shape.slots)
    output.foreach(sqlOutlook.began)
    if (registry.mayHold(mark.key) && outlook.finalOfSparkJob && !outlook.mapStageJob && !outlook.partial) {
      // A marked job may run more queries after this one.
      val ends = mark.grouping == JobMark.BySqlExecution
      query.foreach(sqlOutlook.resultBegan(stage, _, SqlOutlook.broadcasts(given), ends, place.last))
    }
    place.copy(slotsPerTask = shape.slots, executorProfile = shape.profile, output = output, onlyShuffles = outlook.onlyShuffles, groupTasks = group)
  }

  /** The pool that a task set with these properties waits in, where pools share the slots fairly. */
  private def fairPool(property: String => Option[String]): Option[PoolShare] =
    Option.when(scheduler.schedulingMode == SchedulingMode.FAIR) {
      val name = property(SparkContext.SPARK_SCHEDULER_POOL).getOrElse("default")
      // Spark creates an undeclared pool, with its defaults, only after the pool's first task set.
      Option(scheduler.rootPool.getSchedulableByName(name)).fold(PoolShare(name)) { p =>
        PoolShare(name, p.weight, p.minShare, p.schedulingMode == SchedulingMode.FAIR)
      }
    }
}
