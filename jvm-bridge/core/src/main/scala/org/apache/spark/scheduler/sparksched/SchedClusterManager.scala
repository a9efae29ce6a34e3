package org.apache.spark.scheduler.sparksched

import java.util.ServiceLoader

import scala.jdk.CollectionConverters._

import org.apache.spark.{SPARK_VERSION, SparkContext, SparkException}
import org.apache.spark.deploy.LocalSparkCluster
import org.apache.spark.internal.config
import org.apache.spark.resource.{ResourceProfile, ResourceProfileManager, ResourceUtils}
import org.apache.spark.scheduler._
import org.apache.spark.scheduler.cluster.StandaloneSchedulerBackend
import org.apache.spark.scheduler.local.LocalSchedulerBackend
import org.apache.spark.scheduler.sparksched.backend.{InnerMaster, StockScheduler}
import org.apache.spark.util.Utils
import schedcore.settings.{BadSetting, Settings}

/** Spark's way in for other schedulers: `spark.master=spark-sched:<inner master>`, as set by [[SchedPlugin]] or the user. */
private[spark] final class SchedClusterManager extends ExternalClusterManager {

  override def canCreate(masterURL: String): Boolean = masterURL.startsWith(InnerMaster.Prefix)

  override def createTaskScheduler(context: SparkContext, masterURL: String): TaskScheduler = {
    if (!SchedPlugin.attaches(context)) checkFits(masterURL)
    val settings =
      try Settings.from(context.conf.getAll.toMap)
      catch { case bad: BadSetting => throw new SparkException(bad.getMessage) }
    // Only the planner needs it: what stays in the configuration reaches executors, and every user of the application.
    context.conf.remove(Settings.HistoryPassword.name)
    val master = inner(masterURL)
    context.conf.set("spark.master", masterURL.stripPrefix(InnerMaster.Prefix))
    makeProfilesAgain(context)
    checkAsStock(context, master)
    master match {
      case InnerMaster.Local(_, maxFailures) => new SchedTaskScheduler(context, maxFailures, true, settings)
      case InnerMaster.Other(url) =>
        val stock = StockScheduler(stockManager(url).createTaskScheduler(context, url))
        new SchedTaskScheduler(context, context.conf.get(config.TASK_MAX_FAILURES), false, settings, stock)
      case _ => new SchedTaskScheduler(context, context.conf.get(config.TASK_MAX_FAILURES), false, settings)
    }
  }

  /** The inner master's stock backend, as SparkContext would build it. */
  override def createSchedulerBackend(context: SparkContext, masterURL: String, scheduler: TaskScheduler): SchedulerBackend = {
    val ours = scheduler.asInstanceOf[SchedTaskScheduler]
    inner(masterURL) match {
      case InnerMaster.Local(threads, _) => new LocalSchedulerBackend(context.getConf, ours, threads)
      case InnerMaster.Standalone(urls) => new StandaloneSchedulerBackend(ours, context, urls)
      case cluster: InnerMaster.LocalCluster => localCluster(context, ours, cluster)
      case InnerMaster.Other(url) => stockManager(url).createSchedulerBackend(context, url, scheduler)
    }
  }

  /** What the plugin has checked, or makes possible. Without the plugin there is no way back to Spark's own scheduler. */
  private def checkFits(masterURL: String): Unit = {
    SparkLinks.refusal(SPARK_VERSION).foreach(refusal => throw new SparkException(s"spark_sched cannot attach: $refusal"))
    inner(masterURL) match {
      case InnerMaster.Other(url) => throw new SparkException(
        s"The master is '$masterURL', for which spark-submit skips what '$url' needs: set spark.master to '$url' and " +
          s"spark.plugins to ${classOf[SchedPlugin].getName}.")
      case _ =>
    }
  }

  override def initialize(scheduler: TaskScheduler, backend: SchedulerBackend): Unit =
    scheduler.asInstanceOf[TaskSchedulerImpl].initialize(backend)

  /**
   * From here on the application has the inner master in Spark's eyes. Much of Spark asks what the master is: local
   * broadcasts, dynamic allocation, and whether executors take one core or all cores of a worker by default. The last
   * was decided with our prefix before we were asked, by either door: Spark makes the manager of profiles after it has
   * started plugins. So that manager is replaced.
   */
  private def makeProfilesAgain(context: SparkContext): Unit = {
    ResourceProfile.clearDefaultProfile()
    val manager = new ResourceProfileManager(context.conf, context.listenerBus)
    val field = classOf[SparkContext].getDeclaredField("_resourceProfileManager")
    field.setAccessible(true)
    field.set(context, manager)
  }

  /** What Spark checks only for masters that it knows itself; without it the application would wait without end. */
  private def checkAsStock(context: SparkContext, master: InnerMaster): Unit = master match {
    case InnerMaster.Local(threads, _) => checkTasksFit(context, threads)
    case cluster: InnerMaster.LocalCluster => checkTasksFit(context, cluster.coresPerWorker)
    case InnerMaster.Other("yarn") => checkYarnIsConfigured()
    case _ => // The cores of these executors are a setting, which Spark checks with the profile.
  }

  private def checkTasksFit(context: SparkContext, coresPerExecutor: Int): Unit = {
    val conf = context.conf
    if (!conf.get(config.Tests.SKIP_VALIDATE_CORES_TESTING))
      ResourceUtils.validateTaskCpusLargeEnough(conf, coresPerExecutor, conf.get(config.CPUS_PER_TASK))
    ResourceUtils.warnOnWastedResources(context.resourceProfileManager.defaultResourceProfile, conf, Some(coresPerExecutor))
  }

  /** spark-submit checks this; a program that chooses its master itself has not gone through that check. */
  private def checkYarnIsConfigured(): Unit = {
    def onClassPath = Utils.getContextOrSparkClassLoader.getResource("yarn-site.xml") != null
    if (!Seq("HADOOP_CONF_DIR", "YARN_CONF_DIR").exists(sys.env.contains) && !onClassPath) throw new SparkException(
      "The master is 'yarn' but neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set: point one of them at the directory " +
        "with the cluster's yarn-site.xml.")
  }

  private def inner(masterURL: String): InnerMaster =
    InnerMaster.parse(masterURL.stripPrefix(InnerMaster.Prefix)).fold(m => throw new SparkException(m), identity)

  private def localCluster(
      context: SparkContext, scheduler: SchedTaskScheduler, size: InnerMaster.LocalCluster): SchedulerBackend = {
    if (context.executorMemory > size.memoryPerWorkerMib) throw new SparkException(
      s"local-cluster gives each worker ${size.memoryPerWorkerMib} MiB but spark.executor.memory asks for " +
        s"${context.executorMemory} MiB: raise the first or lower the second.")
    // As for the stock local-cluster: all executors share a host, but reading each other's files would hide fetches.
    context.conf.setIfMissing(config.SHUFFLE_HOST_LOCAL_DISK_READING_ENABLED, false)
    val cluster = LocalSparkCluster(size.workers, size.coresPerWorker, size.memoryPerWorkerMib, context.conf)
    val backend = new StandaloneSchedulerBackend(scheduler, context, cluster.start())
    backend.shutdownCallback = (_: StandaloneSchedulerBackend) => cluster.stop()
    backend
  }

  private def stockManager(url: String): ExternalClusterManager =
    ServiceLoader.load(classOf[ExternalClusterManager], Utils.getContextOrSparkClassLoader).asScala
      .find(m => !m.isInstanceOf[SchedClusterManager] && m.canCreate(url))
      .getOrElse(throw new SparkException(s"This Spark has no scheduler backend for the master '$url'."))
}
