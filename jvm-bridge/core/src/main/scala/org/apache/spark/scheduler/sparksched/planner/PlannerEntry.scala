package org.apache.spark.scheduler.sparksched
package planner

import java.util.concurrent.{CompletableFuture, CountDownLatch}

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

  /** Jobs that ended and whose end no planner has taken as it happened. */
  private[sparksched] def endsMissed: Long = scheduler.books.events.endsMissed
  /** Jobs that ended and of which no planner has stored what they teach. */
  private[sparksched] def endsUnstored: Long = scheduler.books.events.unstored + scheduler.books.events.unlearned

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

  /** The planner is still making itself ready, which may take it longer than it may be silent for later. */
  def alive(): Unit = heartbeat.beat()

  /** None of the settings is refused. Making itself ready may take the planner longer. */
  def settingsTaken(): Unit = {
    taken.complete(())
    heartbeat.beat()
  }

  /**
   * What was learned from all events up to this one is stored: a later planner need not be told of the jobs that ended by then.
   *
   * @param abandoned jobs of which this planner could not store what they taught, since it began
   */
  def storedUpTo(version: Long, abandoned: Long): Unit = {
    scheduler.books.events.stored(version, abandoned)
    heartbeat.beat()
  }

  /** After the last batch: all that was learned is stored. */
  def stored(): Unit = drained.countDown()

  def poll(maxEvents: Int, timeoutMs: Long): String = heard {
    heartbeat.beat()
    Batch.toJson(scheduler.books.events.poll(maxEvents, timeoutMs).copy(asked = scheduler.books.questions.any))
  }

  /** What users ask, as a JSON list of objects with `id` and `text`. */
  def questions(): String = {
    val list = new ObjectMapper().createArrayNode()
    scheduler.books.questions.take().foreach { case (id, text) => list.addObject().put("id", id).put("text", text) }
    heard(list.toString)
  }

  def answer(id: Long, text: String): Unit = {
    scheduler.books.questions.answer(id, text)
    heartbeat.beat()
  }

  def submitPlan(json: String): String = heard(scheduler.planOffered(json))

  private def heard(answer: String): String = {
    heartbeat.beat()
    answer
  }
}
