package org.apache.spark.scheduler.sparksched

import java.util.concurrent.ConcurrentHashMap

import com.fasterxml.jackson.databind.ObjectMapper
import org.apache.spark.SparkContext
import org.apache.spark.scheduler.sparksched.operators.{SteeringServlet, ViewAcls}
import schedcore.marks.SessionUsers

/** What a Python driver may call through its own py4j gateway. */
object SparkSched {
  private val json = new ObjectMapper
  private val schedulers = new ConcurrentHashMap[SparkContext, SchedTaskScheduler]

  private[sparksched] def register(context: SparkContext, scheduler: SchedTaskScheduler): Unit =
    schedulers.put(context, scheduler)
  private[sparksched] def unregister(context: SparkContext): Unit = schedulers.remove(context)

  /** Whether this application runs under spark_sched at all. */
  def attached(context: SparkContext): Boolean = schedulers.containsKey(context)

  /**
   * The tenant's job with this id is over: whatever is held for it is released at once.
   *
   * @return whether any stage had this id as its mark; true where nobody can tell
   */
  def endJob(context: SparkContext, jobId: String): Boolean = Option(schedulers.get(context)).forall(_.endJob(jobId))

  /** The calling thread's local properties, as a JSON object of text. */
  def localProperties(context: SparkContext): String = {
    val node = json.createObjectNode()
    val properties = context.getLocalProperties
    properties.stringPropertyNames.forEach(name => node.put(name, properties.getProperty(name)))
    node.toString
  }

  /** Sets some of them at once, for a call from Python takes long; null removes one. */
  def setLocalProperties(context: SparkContext, changes: String): Unit =
    json.readTree(changes).properties.forEach { change =>
      context.setLocalProperty(change.getKey, if (change.getValue.isNull) null else change.getValue.asText)
    }

  /** Asks the planner; empty where it gives no answer in time or the application is not attached. */
  def ask(context: SparkContext, question: String, timeoutMs: Long): String =
    Option(schedulers.get(context)).flatMap(_.records.questions.ask(question, timeoutMs)).getOrElse("")

  /**
   * Slot time that held slots were idle, by user and job name, beside what equation 4 expects of it at most: a JSON array
   * of objects. It adds up to the counters `held_idle_slot_ms` and `predicted_idle_slot_ms`; empty when not attached.
   */
  def heldIdle(context: SparkContext): String = {
    val rows = new ObjectMapper().createArrayNode()
    Option(schedulers.get(context)).foreach(_.heldIdleByOwner.foreach { row =>
      rows.addObject().put("user", row.user).put("job", row.name).put("jobs", row.jobs)
        .put("held_idle_ms", row.heldMs).put("predicted_idle_ms", row.predictedMs)
    })
    rows.toString
  }

  /** The status document; empty when not attached. */
  def status(context: SparkContext): String = Option(schedulers.get(context)).fold("")(_.status.document.toJson)

  /** The status document of the jobs of a name or key, with their stories; empty when not attached. */
  def explain(context: SparkContext, job: String): String = Option(schedulers.get(context)).fold("")(_.status.documentOf(job).toJson)

  /**
   * The same documents for a SQL session.
   *
   * @param job whose; None: of all jobs that are not over
   * @param user the session's, as a server knows it
   * @return why the user may not read it, or the document
   */
  private[spark] def read(context: SparkContext, job: Option[String], user: SessionUsers => Option[String]): Either[String, String] =
    Option(schedulers.get(context)).toRight("the application ends: its scheduler has no status any more").flatMap { scheduler =>
      ViewAcls.of(context.env.securityManager).refusal(user(scheduler.records.registry.users))
        .toLeft(job.fold(status(context))(explain(context, _)))
    }

  /**
   * Changes something while the application runs: see [[Steering]].
   *
   * @param arguments a JSON object of text
   * @return a JSON object with `done`, or with `error` and `code`; empty when not attached
   */
  def steer(context: SparkContext, action: String, arguments: String): String =
    Option(schedulers.get(context)).fold("") { scheduler =>
      SteeringServlet.answer(SteeringServlet.arguments(arguments).flatMap(scheduler.steering.steer(action, _, context.sparkUser)))
    }

  /** Counters as one flat JSON object of whole numbers; empty when not attached. */
  def counters(context: SparkContext): String = {
    val node = new ObjectMapper().createObjectNode()
    Option(schedulers.get(context)).foreach(_.counters.toList.sorted.foreach { case (k, v) => node.put(k, v) })
    node.toString
  }
}
