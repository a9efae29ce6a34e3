package org.apache.spark.scheduler.sparksched
package operators

import org.apache.spark.SparkContext
import org.apache.spark.util.Utils
import schedcore.settings.Settings
import schedcore.status.{EventLogBook, LogEntry}

/** Where the status of a live application is shown. An application is better off without a view than without a scheduler. */
private[sparksched] final class StatusViews(
    context: SparkContext, settings: Settings, status: StatusSource, steering: Steering) {

  def attach(): Unit = context.ui.foreach { ui =>
    val access = UiAccess.of(context, ui.securityManager, settings)
    Utils.tryLogNonFatalError(StatusServlet.attach(ui, new SteeringServlet(status, steering, access)))
    StatusTab.attach(ui, status, new SteeringButtons(access))
  }

  /** The application has its id, which metrics are named by, and writes its event log if it has one. */
  def applicationKnown(): Unit = Utils.tryLogNonFatalError {
    if (context.eventLogger.isDefined) {
      val book = new EventLogBook(log)
      status.logTo(book)
      steering.logTo(book)
    }
    status.look()
    context.env.metricsSystem.registerSource(status.metrics)
  }

  /** The last jobs have ended, and the listener bus still runs. */
  def detach(): Unit = {
    Utils.tryLogNonFatalError(status.finishLog())
    Utils.tryLogNonFatalError(context.env.metricsSystem.removeSource(status.metrics))
  }

  private def log(entry: LogEntry): Unit =
    context.listenerBus.post(SchedulingEvent(EventLogBook.Schema, entry.kind, entry.timeMs, entry.body))
}
