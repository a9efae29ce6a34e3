package org.apache.spark.scheduler.sparksched

import java.util.ServiceLoader

import scala.jdk.CollectionConverters._

import org.apache.spark.{SparkContext, SparkException}
import org.apache.spark.deploy.LocalSparkCluster
import org.apache.spark.internal.config
import org.apache.spark.resource.{ResourceProfile, ResourceProfileManager}
import org.apache.spark.scheduler._
import org.apache.spark.scheduler.cluster.StandaloneSchedulerBackend
import org.apache.spark.scheduler.local.LocalSchedulerBackend
import org.apache.spark.util.Utils
import schedcore.{BadSetting, Settings}

/** Spark's way in for other schedulers: `spark.master=spark-sched:<inner master>`. */
private[spark] final class SchedClusterManager extends ExternalClusterManager {

  override def canCreate(masterURL: String): Boolean = masterURL.startsWith(InnerMaster.Prefix)

  override def createTaskScheduler(context: SparkContext, masterURL: String): TaskScheduler = {
    val settings =
      try Settings.from(context.conf.getAll.toMap)
      catch { case bad: BadSetting => throw new SparkException(bad.getMessage) }
    val master = inner(masterURL)
    becomeInner(context, masterURL.stripPrefix(InnerMaster.Prefix))
    master match {
      case InnerMaster.Local(_, maxFailures) => new SchedTaskScheduler(context, maxFailures, true, settings)
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

  override def initialize(scheduler: TaskScheduler, backend: SchedulerBackend): Unit =
    scheduler.asInstanceOf[TaskSchedulerImpl].initialize(backend)

  /**
   * From here on the application has the inner master in Spark's eyes. Much of Spark asks what the master is: local
   * broadcasts, dynamic allocation, and whether executors take one core or all cores of a worker by default. The last
   * was decided before we were asked, so the manager that decided it is replaced.
   */
  private def becomeInner(context: SparkContext, inner: String): Unit = {
    context.conf.set("spark.master", inner)
    ResourceProfile.clearDefaultProfile()
    val manager = new ResourceProfileManager(context.conf, context.listenerBus)
    val field = classOf[SparkContext].getDeclaredField("_resourceProfileManager")
    field.setAccessible(true)
    field.set(context, manager)
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
