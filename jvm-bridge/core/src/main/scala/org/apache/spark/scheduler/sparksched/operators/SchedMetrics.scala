package org.apache.spark.scheduler.sparksched
package operators

import java.util.concurrent.TimeUnit

import scala.util.control.NonFatal

import com.codahale.metrics.{Counter, Gauge, MetricRegistry}
import org.apache.spark.metrics.source.Source
import schedcore.status.{StatusDocument, StatusMetrics}

/**
 * The status document in Spark's metrics system, under whatever sinks its configuration names: JMX, Graphite, Prometheus.
 *
 * Reading a metric reads what the latest look at all jobs found, so scrapes cost the scheduler nothing. What a scrape costs is
 * Spark's formatting of each line. So a sum is a counter, of which Spark's Prometheus servlet writes one line instead of two,
 * and metrics are added when they first matter.
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
    latest = figures.sample(document)
    latestNs = System.nanoTime()
    val there = metricRegistry.getMetrics.keySet
    latest.foreach { case (name, value) =>
      if (!there.contains(name) && StatusMetrics.matters(name, value))
        metricRegistry.register(name, if (StatusMetrics.isSum(name)) sum(name) else gauge(name))
    }
  }

  private def gauge(name: String): Gauge[Double] = () => read(name)

  private def sum(name: String): Counter = new Counter {
    override def getCount: Long = read(name).toLong
  }

  private def read(name: String): Double = {
    if (System.nanoTime() - latestNs > SchedMetrics.StaleNs)
      try looked(now())
      catch { case NonFatal(_) => } // What was found last stands.
    latest.getOrElse(name, Double.NaN)
  }
}

private object SchedMetrics {
  private val StaleNs = StatusSource.MostPauseNs + TimeUnit.SECONDS.toNanos(3)
}
