package org.apache.spark.scheduler.sparksched
package jobs

import org.apache.spark.scheduler._
import schedcore.ledger.{NextStage, TaskShape}
import scala.collection.mutable

/**
 * What Spark's DAG says about the stages after one.
 *
 * @param nextTasks tasks of the stages that read this one's output; None where the DAG does not tell
 * @param next these stages, with the slots that their tasks take
 * @param finalOfSparkJob nothing of the same Spark job follows
 * @param mapStageJob the Spark job ends with a shuffle: adaptive execution decides what reads it
 * @param written the shuffle that such a stage writes, and its partitions: as many tasks read it at most
 * @param killMs how long a killed attempt of this stage may keep its slots
 * @param reads the shuffles that the stage itself reads
 * @param onlyShuffles whether this stage reads nothing else
 * @param partial the Spark job asks for some partitions of a result; others may follow in Spark jobs of their own
 */
private[sparksched] final case class DagOutlook(
    nextTasks: Option[Int], next: Seq[NextStage], finalOfSparkJob: Boolean, mapStageJob: Boolean,
    written: Option[DagOutlook.Shuffle] = None, partial: Boolean = false,
    killMs: Long = 0L, reads: Set[Int] = Set.empty, onlyShuffles: Boolean = false) {
  def nextSlots: Option[Int] = Option.when(next.nonEmpty)(next.map(_.slots).sum)
}

private[sparksched] object DagOutlook {
  final case class Shuffle(id: Int, partitions: Int)

  private val unknown = DagOutlook(None, Nil, finalOfSparkJob = false, mapStageJob = false)

  /**
   * Only to be called from the DAGScheduler's event loop, whose structures it reads.
   *
   * @param shapeOf what a task of a resource profile needs of its executor
   */
  def of(dag: DAGScheduler, stageId: Int, sparkJobId: Int, shapeOf: Int => TaskShape): DagOutlook =
    dag.stageIdToStage.get(stageId).fold(unknown) { stage =>
      val reads = stage.parents.collect { case map: ShuffleMapStage => map.shuffleDep.shuffleId }.toSet
      follows(dag, stageId, sparkJobId, shapeOf).copy(
        killMs = PythonTasks.killMs(stage.rdd), reads = reads, onlyShuffles = StageLineage.readsOnlyShuffles(stage.rdd))
    }

  private def follows(dag: DAGScheduler, stageId: Int, sparkJobId: Int, shapeOf: Int => TaskShape): DagOutlook =
    (dag.stageIdToStage.get(stageId), dag.jobIdToActiveJob.get(sparkJobId)) match {
      case (Some(stage), Some(job)) if job.finalStage eq stage =>
        stage match {
          case map: ShuffleMapStage =>
            val written = Shuffle(map.shuffleDep.shuffleId, map.shuffleDep.partitioner.numPartitions)
            DagOutlook(None, Nil, finalOfSparkJob = true, mapStageJob = true, Some(written))
          case _ =>
            // The partitions of its RDD are known: its tasks were made of them.
            DagOutlook(
              None, Nil, finalOfSparkJob = true, mapStageJob = false, partial = job.numPartitions < stage.rdd.getNumPartitions)
        }
      case (Some(stage), Some(job)) =>
        val readers = readersOf(stage, job.finalStage)
        val next = readers.map { case (s, tasks) =>
          val shape = shapeOf(s.resourceProfileId)
          NextStage(s.id.toString, tasks * shape.slots, isReady(dag, s, beside = stage), Some(shape))
        }
        DagOutlook(Option.when(readers.nonEmpty)(readers.map(_._2).sum), next, finalOfSparkJob = false, mapStageJob = false)
      case _ => unknown
    }

  /** Whether all parents of the stage have ended or run, beside the one that is about to. */
  private def isReady(dag: DAGScheduler, stage: Stage, beside: Stage): Boolean = stage.parents.forall { parent =>
    (parent eq beside) || dag.runningStages.contains(parent) || (parent match {
      case map: ShuffleMapStage => map.isAvailable
      case _ => false
    })
  }

  /**
   * The stages that will run on the output of this one, and the tasks that each of them will have: those whose output is there
   * already do not run again, nor does what leads to them alone.
   */
  private def readersOf(stage: Stage, last: Stage): Seq[(Stage, Int)] = {
    val seen = mutable.HashSet.empty[Int]
    val waiting = mutable.Queue[Stage](last)
    val readers = mutable.ArrayBuffer.empty[(Stage, Int)]
    while (waiting.nonEmpty) {
      val s = waiting.dequeue()
      val missing = if (seen.add(s.id)) s.findMissingPartitions().size else 0
      if (missing > 0) {
        if (s.parents.contains(stage)) readers += s -> missing
        waiting ++= s.parents
      }
    }
    readers.toList
  }
}
