package org.apache.spark.sql.sparksched

import java.lang.ref.WeakReference

import org.apache.spark.SparkContext
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.command.SetCommand
import org.apache.spark.sql.internal.SQLConf
import schedcore.marks.{JobMark, SessionSetting}
import schedcore.settings.{BadSetting, Limits, Settings}

/**
 * What a session may `SET`. A mark that cannot be read, an unknown one, or a setting of the application is refused with an exception,
 * which also clients of Spark Connect and of a Thrift server get.
 */
private[sparksched] object SetStatements {
  /** @throws BadSetting where the plan is a `SET` that would not count */
  def check(session: SparkSession, plan: LogicalPlan): Unit = plan match {
    case SetCommand(Some((key, Some(value)))) => refusal(session.sparkContext, key, value).foreach(why => throw new BadSetting(why))
    case _ =>
  }

  /**
   * Has `spark.conf.set` refuse marks, too: it analyses no plan. Spark checks the values of keys that it knows. What it knows lasts as long
   * as the JVM, which may have one application after another. Settings of the application are not declared: Spark would then refuse to
   * unset and reset them, to set them to what they are, and to read them with another default.
   */
  def declare(context: SparkContext): Unit = {
    current = new WeakReference(context)
    JobMark.Fields.map(JobMark.Prefix + _).filterNot(SQLConf.containsConfigKey).foreach { key =>
      SQLConf.buildConf(key).doc("A mark of the session's jobs.").version("").stringConf.transform(checked(key, _)).createOptional
    }
  }

  // The running application's. A context that has stopped is not kept from being freed.
  @volatile private var current = new WeakReference[SparkContext](null)

  /**
   * Spark checks a value again whenever it copies a session's settings: for a cached plan, a streaming query, a session that is cloned. So
   * this must not refuse what it once let through, as a deadline that has passed since. Spark also checks what the application's own
   * configuration says, and would start no session: that is let through as it is.
   */
  private def checked(key: String, value: String): String = {
    for (context <- Option(current.get) if !context.isStopped; why <- SessionSetting.lastingRefusal(key, value, configured(context, key), limitsOf(context)))
      throw new BadSetting(why)
    value
  }

  private def refusal(context: SparkContext, key: String, value: String): Option[String] =
    if (!key.startsWith(Settings.Prefix)) None
    else SessionSetting.refusal(key, value, configured(context, key), limitsOf(context), System.currentTimeMillis())

  private def configured(context: SparkContext, key: String): Option[String] = context.conf.getOption(key)

  private def limitsOf(context: SparkContext): Limits =
    configured(context, Settings.Marks.name).fold(Limits())(text => Limits(marks = text.split(',').map(_.trim).toSet))
}
