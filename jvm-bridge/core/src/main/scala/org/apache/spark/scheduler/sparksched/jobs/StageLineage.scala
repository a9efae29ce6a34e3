package org.apache.spark.scheduler.sparksched
package jobs

import org.apache.spark.NarrowDependency
import org.apache.spark.rdd.RDD
import org.apache.spark.storage.StorageLevel
import scala.collection.mutable

/** The RDDs that the tasks of a stage compute: what its own RDD is made of, up to the shuffles that they read. */
private[sparksched] object StageLineage {

  /** @param last the stage's own RDD */
  def of(last: RDD[_]): Iterator[RDD[_]] = {
    val seen = mutable.HashSet(last.id)
    Iterator.unfold(List[RDD[_]](last)) {
      case rdd :: waiting =>
        val parents = rdd.dependencies.collect { case d: NarrowDependency[_] if seen.add(d.rdd.id) => d.rdd }
        Some((rdd, parents ++: waiting))
      case Nil => None
    }
  }

  /** Whether the stage reads shuffles and nothing else: no files, no data of the driver's, nothing that an executor caches. */
  def readsOnlyShuffles(last: RDD[_]): Boolean =
    of(last).forall(rdd => rdd.dependencies.nonEmpty && rdd.getStorageLevel == StorageLevel.NONE)
}
