package org.apache.spark.scheduler.sparksched

import java.util.concurrent.TimeUnit

import scala.util.control.NonFatal

import com.codahale.metrics.{Gauge, MetricRegistry}
import org.apache.spark.metrics.source.Source
import schedcore.{StatusDocument, StatusMetrics}

/**
 * The status document in Spark's metrics system, under whatever sinks its configuration names: JMX, Graphite, Prometheus.
 *
 * Reading a gauge reads what the latest look at all jobs found, so scrapes cost the scheduler nothing. Gauges are added
 * when their class or policy is first seen.
 *
 * @param now the document, where nobody has looked for long: after a failure nobody does
 */
private[sparksched] final class SchedMetrics(now: () => StatusDocument) extends Source {
  override val sourceName: String = "spark_sched"
  override val metricRegistry: MetricRegistry = new MetricRegistry

  private val figures = new StatusMetrics
  @volatile private var latest = Map.empty[String, Double]
  @volatile private var latestNs = 0L

  def looked(document: StatusDocument): Unit = synchronized {
    val before = latest
    latest = figures.sample(document)
    latestNs = System.nanoTime()
    (latest.keySet -- before.keySet).foreach { name =>
      if (!metricRegistry.getMetrics.containsKey(name)) metricRegistry.register(name, gauge(name))
    }
  }

  private def gauge(name: String): Gauge[Double] = () => {
    if (System.nanoTime() - latestNs > SchedMetrics.StaleNs)
      try looked(now())
      catch { case NonFatal(_) => } // What was found last stands.
    latest.getOrElse(name, Double.NaN)
  }
}

private object SchedMetrics {
  private val StaleNs = StatusSource.MostPauseNs + TimeUnit.SECONDS.toNanos(3)
}
