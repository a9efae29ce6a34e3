package org.apache.spark.scheduler.sparksched
package operators

import java.net.URLDecoder
import java.nio.charset.StandardCharsets.UTF_8

import scala.util.Try

import jakarta.servlet.http.HttpServletRequest

/**
 * The parameters of a request's address as they were sent.
 *
 * Spark's security filter escapes parameters for HTML and removes line ends and single quotes from them, so that a job whose name has
 * such characters would not be found. What is read here must be escaped where it is shown, as Scala's XML literals do.
 */
private[sparksched] object QueryString {

  /** The first value of a parameter; None where it is not given or cannot be decoded. */
  def value(request: HttpServletRequest, name: String): Option[String] =
    Option(request.getQueryString).toList.flatMap(_.split('&')).map(_.split("=", 2))
      .collectFirst { case Array(key, value) if decoded(key).contains(name) => decoded(value) }.flatten

  private def decoded(text: String): Option[String] = Try(URLDecoder.decode(text, UTF_8)).toOption
}
