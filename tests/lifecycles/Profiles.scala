package org.apache.spark.scheduler.sparksched.lifecycles

import scala.collection.mutable

import org.apache.spark.SparkContext
import org.apache.spark.resource.{ExecutorResourceRequests, ResourceProfile, ResourceProfileBuilder, ResourceProfileManager}
import org.apache.spark.resource.{TaskResourceProfile, TaskResourceRequests}

/** Resource profiles beside the default one. */
object Profiles {
  /** Each task takes both slots of a usual executor. */
  val Wide: ResourceProfile = new TaskResourceProfile(new TaskResourceRequests().cpus(2).requests)

  /** Its tasks run on executors of their own alone. */
  val Apart: ResourceProfile = new ResourceProfileBuilder()
    .require(new ExecutorResourceRequests().cores(2)).require(new TaskResourceRequests().cpus(1)).build()

  /** Slots that a task takes. */
  def slotsOf(profile: ResourceProfile): Int = if (profile.id == Wide.id) 2 else 1

  /** The manager itself refuses profiles on a master that it does not know. */
  def addTo(context: SparkContext): Unit = {
    val field = classOf[ResourceProfileManager].getDeclaredField("resourceProfileIdToResourceProfile")
    field.setAccessible(true)
    val known = field.get(context.resourceProfileManager).asInstanceOf[mutable.HashMap[Int, ResourceProfile]]
    Seq(Wide, Apart).foreach(p => known(p.id) = p)
  }
}
