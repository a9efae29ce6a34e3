package org.apache.spark.scheduler.sparksched

import scala.collection.mutable

import org.apache.spark.PipelinedShuffleDependency
import org.apache.spark.scheduler.{DAGScheduler, ShuffleMapStage, Stage, TaskSet}

/** What differs between Spark's lines. */
private[sparksched] object SparkLine extends Spark4 with StreamingIds {
  type Cores = BigDecimal
  def cores(count: Double): Cores = BigDecimal(count)

  /**
   * Tasks of all stages that run at the same time as this one, itself among them, if it hands its output to others while it runs, or reads
   * such an output: no task of it can be run again by itself. Spark runs no job of which only some shuffles are pipelined. Only to be called
   * from the DAGScheduler's event loop.
   */
  def groupTasks(dag: DAGScheduler, taskSet: TaskSet): Option[Int] =
    dag.jobIdToActiveJob.get(taskSet.priority).filter(_.finalStage.parents.exists(isPipelined)).map { job =>
      val writers = mutable.LinkedHashSet.empty[Stage]
      def add(stages: List[Stage]): Unit = stages.foreach(stage => if (isPipelined(stage) && writers.add(stage)) add(stage.parents))
      add(job.finalStage.parents)
      job.numPartitions + writers.iterator.map(_.numTasks).sum
    }.orElse(Option.when(taskSet.isPipelined)(taskSet.tasks.length))

  private def isPipelined(stage: Stage): Boolean = stage match {
    case map: ShuffleMapStage => map.shuffleDep.isInstanceOf[PipelinedShuffleDependency[_, _, _]]
    case _ => false
  }
}
