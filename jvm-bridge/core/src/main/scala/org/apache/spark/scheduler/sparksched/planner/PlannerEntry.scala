package org.apache.spark.scheduler.sparksched
package planner

import java.util.concurrent.{CompletableFuture, CountDownLatch}

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.ObjectMapper
import schedcore.events.Batch
import schedcore.settings.Settings

/** The methods that the planner process calls over py4j, with text as arguments and results. */
final class PlannerEntry private[sparksched] (scheduler: SchedTaskScheduler) {
  private[sparksched] val heartbeat = new Heartbeat
  /** Done once a planner has taken the settings. */
  private[sparksched] val taken = new CompletableFuture[Unit]
  /** Open once a planner has stored all that it learned, after the last batch. */
  private[sparksched] val drained = new CountDownLatch(1)

  /** Ended jobs whose end no planner has received as an event of its own. */
  private[sparksched] def endsMissed: Long = scheduler.records.events.endsMissed
  /** Ended jobs that no planner has stored. */
  private[sparksched] def endsUnstored: Long = scheduler.records.events.unstored + scheduler.records.events.unlearned

  /** Every `spark.sched.*` setting as one JSON object. A planner's first call, by which it introduces itself. */
  def config(): String = {
    scheduler.plannerStarted()
    val node = new ObjectMapper().createObjectNode()
    val password = scheduler.settings.historyPassword.text
    if (password.nonEmpty) node.put(Settings.HistoryPassword.name, password)
    scheduler.conf.getAllWithPrefix("spark.sched.").foreach { case (k, v) => node.put("spark.sched." + k, v) }
    scheduler.steering.policySwitched.foreach(node.put(Settings.PlannerPolicy.name, _))
    heard(node.toString)
  }

  /** A planner refused its settings. @return whether the next one gets others */
  private[sparksched] def settingsRefused(): Boolean = scheduler.steering.policyRefused()

  /** The planner still initialises, which may take longer than the stall timeout. */
  def alive(): Unit = heartbeat.beat()

  /** The planner accepts the settings. It may still initialise. */
  def settingsTaken(): Unit = {
    taken.complete(())
    heartbeat.beat()
  }

  /** Names of the policies that users may switch to, as a JSON list. */
  def policiesKnown(names: String): Unit = {
    scheduler.steering.policies = new ObjectMapper().readTree(names).elements().asScala.map(_.asText).toList
    heartbeat.beat()
  }

  /**
   * The planner has stored what it learned from all events up to this one. Later planners do not need the jobs that ended by then.
   *
   * @param abandoned jobs that this planner could not store, since its start
   */
  def storedUpTo(version: Long, abandoned: Long): Unit = {
    scheduler.records.events.stored(version, abandoned)
    heartbeat.beat()
  }

  /** After the last batch: all that was learned is stored. */
  def stored(): Unit = drained.countDown()

  def poll(maxEvents: Int, timeoutMs: Long): String = heard {
    heartbeat.beat()
    Batch.toJson(scheduler.records.events.poll(maxEvents, timeoutMs).copy(asked = scheduler.records.questions.any))
  }

  /** What users ask, as a JSON list of objects with `id` and `text`. */
  def questions(): String = {
    val list = new ObjectMapper().createArrayNode()
    scheduler.records.questions.take().foreach { case (id, text) => list.addObject().put("id", id).put("text", text) }
    heard(list.toString)
  }

  def answer(id: Long, text: String): Unit = {
    scheduler.records.questions.answer(id, text)
    heartbeat.beat()
  }

  def submitPlan(json: String): String = heard(scheduler.planOffered(json))

  private def heard(answer: String): String = {
    heartbeat.beat()
    answer
  }
}
