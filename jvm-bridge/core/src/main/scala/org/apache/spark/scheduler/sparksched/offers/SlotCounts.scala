package org.apache.spark.scheduler.sparksched
package offers

import org.apache.spark.SparkContext
import org.apache.spark.resource.ResourceProfile
import org.apache.spark.scheduler.WorkerOffer
import schedcore.ledger.TaskShape
import scala.collection.mutable

/**
 * Counts slots by resource profile.
 *
 * A slot is what one task of the executor's own profile needs: cores, and each custom resource. Without dynamic
 * allocation a stage may have a profile of its own and still run on the default profile's executors; its tasks take as
 * many slots as the largest of their needs, rounded up. Used under the scheduler's lock only.
 */
private[sparksched] final class SlotCounts(context: SparkContext) {
  import SlotCounts._

  private val needs = mutable.HashMap.empty[Int, Need]
  private val shapes = mutable.HashMap.empty[Int, TaskShape]

  /** Slots of the executor that are free, held ones included. */
  def free(offer: WorkerOffer): Int = {
    val need = needOf(offer.resourceProfileId)
    val byCores = whole(offer.cores.toDouble / need.cpus)
    if (byCores == 0 || need.resources.isEmpty) byCores
    else {
      val free = SparkLine.freeResources(offer, context)
      need.resources.foldLeft(byCores) { case (slots, (name, amount)) =>
        math.min(slots, free.get(name).fold(0)(room(_, amount)))
      }
    }
  }

  /** The offer, cut to this number of slots. */
  def atMost(offer: WorkerOffer, slots: Int): WorkerOffer =
    // Spark may count a barrier stage's slots by other resources only.
    if (slots <= 0) SparkLine.nothingOf(offer)
    else offer.copy(cores = offer.cores.min(SparkLine.cores(slots * needOf(offer.resourceProfileId).cpus)))

  /** What one task of a stage with this profile needs of its executor. */
  def shape(profile: Int): TaskShape = shapes.getOrElseUpdate(profile, {
    val task = needOf(profile)
    val slot = needOf(executorProfile(profile))
    // Resources that are not part of a slot limit no slots.
    val ratios = slot.resources.toList.map { case (name, amount) =>
      SparkLine.slotsTaken(task.resources.getOrElse(name, 0.0), amount)
    }
    val all = (task.cpus / slot.cpus) +: ratios
    // An executor has as many slots as its scarcest resource allows, which may be one that the task needs little of.
    TaskShape(math.max(1, roundedUp(all.max)), math.max(1, whole(all.min)), executorProfile(profile))
  })

  /** The profile of the executors that may run such a stage's tasks. */
  def executorProfile(profile: Int): Int = {
    val default = ResourceProfile.DEFAULT_RESOURCE_PROFILE_ID
    if (context.resourceProfileManager.canBeScheduled(profile, default)) default else profile
  }

  private def needOf(id: Int): Need = needs.getOrElseUpdate(id, {
    val profile = context.resourceProfileManager.resourceProfileFromId(id)
    Need(
      ResourceProfile.getTaskCpusOrDefaultForProfile(profile, context.conf).toDouble,
      profile.getCustomTaskResources().collect { case (name, request) if request.amount > 0 => name -> request.amount })
  })
}

private[sparksched] object SlotCounts {
  private final case class Need(cpus: Double, resources: Map[String, Double])

  // Amounts such as 0.1 are not exact in binary.
  private val Epsilon = 1e-9
  private def whole(ratio: Double): Int = (ratio + Epsilon).toInt
  private def roundedUp(ratio: Double): Int = math.ceil(ratio - Epsilon).toInt

  /** Tasks that the free parts of addresses have room for; Spark divides one address or gives whole ones. */
  private[sparksched] def room(free: Map[String, Double], amount: Double): Int =
    if (amount < 1.0) free.valuesIterator.map(part => whole(part / amount)).sum
    else free.valuesIterator.count(whole(_) == 1) / amount.toInt
}
