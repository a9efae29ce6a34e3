package org.apache.spark.scheduler.sparksched

import scala.collection.mutable

import org.apache.logging.log4j.{Level, LogManager}
import org.apache.logging.log4j.core.{LogEvent, Logger}
import org.apache.logging.log4j.core.appender.AbstractAppender
import org.apache.logging.log4j.core.config.{Configurator, Property}
import org.apache.spark.internal.Logging

/** What a class logs while something is done. */
object LoggedLines extends Logging {
  def of(className: String)(body: => Unit): Seq[String] = {
    val lines = mutable.ArrayBuffer.empty[String]
    val appender = new AbstractAppender("lines", null, null, true, Array.empty[Property]) {
      override def append(event: LogEvent): Unit = lines.synchronized(lines += event.getMessage.getFormattedMessage)
    }
    appender.start()
    log.isInfoEnabled // Spark configures logging with the first line, which would remove the appender.
    Configurator.setLevel(className, Level.INFO)
    val logger = LogManager.getLogger(className).asInstanceOf[Logger]
    logger.addAppender(appender)
    try body
    finally logger.removeAppender(appender)
    lines.synchronized(lines.toSeq)
  }
}
