package org.apache.spark.scheduler.sparksched

import org.apache.spark.SparkContext
import org.apache.spark.util.Utils

/** Where the status of a live application is shown. An application is better off without a view than without a scheduler. */
private[sparksched] final class StatusViews(context: SparkContext, status: StatusSource) {

  def attach(): Unit = context.ui.foreach { ui =>
    Utils.tryLogNonFatalError(StatusServlet.attach(ui, status))
    StatusTab.attach(ui, status)
  }

  /** The application has its id, which metrics are named by. */
  def applicationKnown(): Unit = Utils.tryLogNonFatalError {
    status.look()
    context.env.metricsSystem.registerSource(status.metrics)
  }

  def detach(): Unit = Utils.tryLogNonFatalError(context.env.metricsSystem.removeSource(status.metrics))
}
