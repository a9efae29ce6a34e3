package org.apache.spark.scheduler.sparksched

import java.util.Properties

import org.apache.spark.resource.ResourceProfile
import org.apache.spark.scheduler.{Task, TaskSet}
import org.apache.spark.scheduler.sparksched.offers.SchedTaskSetManager

/** Task sets of jobs with marks, for schedulers that were never started. */
private[sparksched] object MarkedTasks {

  /**
   * Submits the tasks of a stage.
   *
   * @param job its name
   * @param sparkJob of the stage; None: one of its own
   * @param more further local properties
   * @param task of an index, with the local properties
   */
  def submit(
      to: SchedTaskScheduler, stage: Int, job: String, priority: Int, tasks: Int, attempt: Int = 0, sparkJob: Option[Int] = None,
      more: Map[String, String] = Map.empty)(task: (Int, Properties) => Task[_]): SchedTaskSetManager = {
    val properties = new Properties
    properties.setProperty("spark.sched.job.name", job)
    properties.setProperty("spark.sched.job.priority", priority.toString)
    more.foreach { case (key, value) => properties.setProperty(key, value) }
    to.submitTasks(new TaskSet(
      Array.tabulate[Task[_]](tasks)(task(_, properties)), stage, attempt, sparkJob.getOrElse(stage), properties,
      ResourceProfile.DEFAULT_RESOURCE_PROFILE_ID, None))
    to.taskSetManagerForAttempt(stage, attempt).get.asInstanceOf[SchedTaskSetManager]
  }
}
