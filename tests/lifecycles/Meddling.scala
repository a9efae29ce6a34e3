package org.apache.spark.scheduler.sparksched.lifecycles

import scala.jdk.CollectionConverters._
import scala.util.Random

import com.fasterxml.jackson.databind.ObjectMapper
import com.fasterxml.jackson.databind.node.ObjectNode
import org.apache.spark.scheduler.sparksched.{SchedTaskScheduler, SparkSched}
import org.apache.spark.scheduler.sparksched.planner.PlanBook

/** What operators change while jobs run, and plans that no policy would make. Each puts right again what would keep others waiting. */
final class Meddling(world: World, random: Random) {
  private val json = new ObjectMapper
  private def pause(): Unit = Thread.sleep(random.nextInt(12))

  /** @param job its key */
  def operate(job: String): Unit = (0 to random.nextInt(3)).foreach { _ =>
    random.nextInt(9) match {
      case 0 | 1 =>
        try { steer("hold", "job" -> job); pause() } finally steer("resume", "job" -> job)
      case 2 => steer("set", "job" -> job, "priority" -> random.nextInt(5).toString)
      case 3 => steer("set", "job" -> job, "isolation" -> Seq("0", "0.5", "1", "default")(random.nextInt(4)))
      case 4 => steer("set", "job" -> job, "deadline" -> Seq("1 s", "1 h", "none")(random.nextInt(3)))
      case 5 =>
        try { steer("pause"); pause() } finally steer("unpause")
      case 6 =>
        try { steer("mode", "name" -> Seq("off", "shadow")(random.nextInt(2))); pause() } finally steer("mode", "name" -> "on")
      case 7 => steer("end", "job" -> job)
      case 8 => steer("policy", "name" -> world.policies(random.nextInt(world.policies.size))) // with a new planner
    }
    pause()
  }

  /** The job may be over by now: then it is unknown. */
  def steer(action: String, given: (String, String)*): Unit = {
    val arguments = json.createObjectNode()
    given.foreach { case (name, value) => arguments.put(name, value) }
    val answer = json.readTree(SparkSched.steer(world.context, action, arguments.toString))
    if (answer.has("error") && !Seq("unknown_job", "no_planner", "nothing_to_do").contains(answer.path("code").asText))
      throw new LifecycleFailed(s"$action $arguments: $answer")
    world.count(s"steered: $action")
  }

  /** A plan that says anything that a plan may say of the latest jobs, for some milliseconds. */
  def plan(): Unit = {
    val scheduler = world.context.taskScheduler.asInstanceOf[SchedTaskScheduler]
    val root = json.createObjectNode().put("schema", 1).put("snapshot", scheduler.books.events.currentVersion)
      .put("made_at_ms", scheduler.nowMs).put("valid_for_ms", 1 + random.nextInt(60))
      .put("policy", "meddling").put("ordered", random.nextBoolean()).put("new_jobs_wait", random.nextInt(3) == 0)
    if (random.nextInt(3) == 0) root.putArray("queue_weights").add(1.0).add(2.5)
    val running = scheduler.taskIdToTaskSetManager.keySet.asScala.toSeq.take(8)
    val jobs = root.putArray("jobs")
    world.latestJobs.zipWithIndex.foreach { case (job, rank) => of(jobs.addObject().put("job", job).put("rank", rank), running) }
    val answer = scheduler.synchronized(scheduler.planOffered(root.put("plan", newest(scheduler) + 1).toString))
    world.count("plan " + answer.split(':').take(2).mkString(":"))
  }

  /** The number of the planner's newest plan: its next one may have the same number, and be refused once. */
  private def newest(scheduler: SchedTaskScheduler): Long = {
    val field = classOf[PlanBook].getDeclaredFields.find(_.getName.endsWith("newest")).get
    field.setAccessible(true)
    field.getLong(scheduler.books.plans)
  }

  private def of(job: ObjectNode, running: Seq[Long]): Unit = {
    def sometimes(inSoMany: Int)(put: => Unit): Unit = if (random.nextInt(inSoMany) == 0) put
    job.put("priority", random.nextInt(4))
    if (random.nextBoolean()) job.putNull("reservation")
    else {
      val rule = job.putObject("reservation").put("isolation", Seq(0.0, 0.4, 1.0)(random.nextInt(3)))
      rule.put("copies", random.nextBoolean()).put("prereserve_threshold", random.nextDouble()).put("gap_ms", random.nextInt(50))
      sometimes(3) {
        val tasks = rule.putArray("stage_tasks")
        (0 to random.nextInt(3)).foreach(_ => tasks.add(1 + random.nextInt(6)))
      }
    }
    sometimes(4) {
      job.put("deferred", true)
      sometimes(2)(job.put("start_ms", System.currentTimeMillis() + random.nextInt(100)))
    }
    sometimes(4)(job.putObject("share").put("all", 1 + random.nextInt(4)))
    sometimes(6)(job.put("evict", true))
    sometimes(4) {
      val pilots = job.putObject("pilots").put("stage", random.nextInt(3)).putArray("tasks")
      (0 to random.nextInt(3)).foreach(_ => pilots.add(random.nextInt(8)))
    }
    sometimes(3)(job.put("queue", random.nextInt(2)))
    sometimes(4) {
      val victims = job.putArray("victims")
      running.foreach(victims.add(_))
    }
  }
}
