package org.apache.spark.scheduler.sparksched

import java.util.{ArrayList, Arrays, Collections, Map => JMap, WeakHashMap}

import org.apache.spark.{SPARK_VERSION, SparkConf, SparkContext}
import org.apache.spark.api.plugin.{DriverPlugin, ExecutorPlugin, PluginContext, SparkPlugin}
import org.apache.spark.scheduler.sparksched.backend.InnerMaster
import org.slf4j.LoggerFactory

/**
 * Attaches the scheduler to whatever the master is: `spark.plugins=org.apache.spark.scheduler.sparksched.SchedPlugin`.
 *
 * Spark starts plugins just before it asks for the scheduler of `spark.master`. Until then it, and spark-submit before
 * it, have seen the true master.
 */
final class SchedPlugin extends SparkPlugin {
  override def driverPlugin(): DriverPlugin = new SchedDriverPlugin
  override def executorPlugin(): ExecutorPlugin = null
}

/**
 * May meet any Spark, also one of another Scala. So until the bridge is known to fit, it calls Java's library and the
 * oldest methods of Spark's only.
 */
private final class SchedDriverPlugin extends DriverPlugin {

  override def init(context: SparkContext, plugin: PluginContext): JMap[String, String] = {
    // Executors have no bridge: they must not be told of this plugin even if it does nothing.
    SchedPlugin.leaveLists(context.conf)
    if (!context.master.startsWith(InnerMaster.Prefix)) attach(context) // else the user has opened the other door
    Collections.emptyMap()
  }

  private def attach(context: SparkContext): Unit = {
    val refusal = SparkLinks.refusal(SPARK_VERSION).orElse(InnerMaster.parse(context.master).left.toOption)
    if (refusal.isEmpty) SchedPlugin.attach(context)
    else LoggerFactory.getLogger(classOf[SchedPlugin]).error(
      s"spark_sched is not attached, and Spark's own scheduler runs this application: ${refusal.get}")
  }
}

private[sparksched] object SchedPlugin {
  private val attached = Collections.synchronizedMap(new WeakHashMap[SparkContext, java.lang.Boolean])

  /** Whether it was the plugin that attached the scheduler to this context. */
  def attaches(context: SparkContext): Boolean = attached.containsKey(context)

  /** Has Spark ask [[SchedClusterManager]] for the scheduler. */
  def attach(context: SparkContext): Unit = {
    attached.put(context, true)
    context.conf.set("spark.master", InnerMaster.Prefix + context.master)
  }

  /** Takes the plugin out of both lists; Spark 4 reads the second as if it stood before the first. */
  def leaveLists(conf: SparkConf): Unit = {
    leave(conf, "spark.plugins")
    leave(conf, "spark.plugins.defaultList")
  }

  private def leave(conf: SparkConf, list: String): Unit = if (conf.contains(list)) {
    val others = new ArrayList[String](Arrays.asList(conf.get(list).trim.split("\\s*,\\s*"): _*))
    others.removeAll(Collections.singleton(classOf[SchedPlugin].getName))
    if (others.isEmpty) conf.remove(list) else conf.set(list, String.join(",", others))
  }
}
