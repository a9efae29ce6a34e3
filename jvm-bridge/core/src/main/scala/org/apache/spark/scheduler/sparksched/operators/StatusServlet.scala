package org.apache.spark.scheduler.sparksched
package operators

import java.nio.charset.StandardCharsets.UTF_8

import scala.util.control.NonFatal

import jakarta.servlet.http.{HttpServlet, HttpServletRequest, HttpServletResponse}
import org.apache.spark.internal.Logging
import org.apache.spark.ui.SparkUI
import schedcore.status.StatusDocument

/**
 * The status document under the Spark UI: `status`; the tenants' queues as they are in force: `queues`; and `jobs/NAME` or `jobs?name=NAME` for those of a key, an id or a name.
 *
 * The UI gives every handler its own filters, the check of the view ACLs among them. [[UiAccess]] checks the host. A job that nobody knows is answered
 * with status 404 and a document without jobs.
 */
private[sparksched] class StatusServlet(source: StatusSource, access: UiAccess) extends HttpServlet with Logging {

  override def doGet(request: HttpServletRequest, response: HttpServletResponse): Unit =
    try access.refusalToRead(request.getHeader).fold(read(request, response)) { refused =>
      send(response, HttpServletResponse.SC_FORBIDDEN, "application/json", SteeringServlet.answer(Left(refused)).getBytes(UTF_8))
    } catch {
      case NonFatal(thrown) =>
        logWarning("spark_sched: the status could not be written", thrown)
        response.sendError(HttpServletResponse.SC_INTERNAL_SERVER_ERROR)
    }

  private def read(request: HttpServletRequest, response: HttpServletResponse): Unit =
    Option(request.getPathInfo).getOrElse("") match {
      case "/status" => answer(response, HttpServletResponse.SC_OK, source.document)
      case "/queues" => send(response, HttpServletResponse.SC_OK, "application/json", source.queueTree.getBytes(UTF_8))
      case "/jobs" =>
        QueryString.value(request, "name").fold(response.sendError(HttpServletResponse.SC_NOT_FOUND))(answerJob(response, _))
      case path if path.startsWith("/jobs/") => answerJob(response, path.stripPrefix("/jobs/"))
      case _ => response.sendError(HttpServletResponse.SC_NOT_FOUND)
    }

  private def answerJob(response: HttpServletResponse, name: String): Unit = {
    val document = source.documentOf(name)
    answer(response, if (document.jobs.nonEmpty) HttpServletResponse.SC_OK else HttpServletResponse.SC_NOT_FOUND, document)
  }

  private def answer(response: HttpServletResponse, status: Int, document: StatusDocument): Unit =
    send(response, status, "application/json", document.toJson.getBytes(UTF_8))

  protected def send(response: HttpServletResponse, status: Int, contentType: String, body: Array[Byte]): Unit = {
    response.setStatus(status)
    response.setContentType(s"$contentType;charset=utf-8")
    response.setHeader("Cache-Control", "no-cache, no-store, must-revalidate")
    response.setContentLength(body.length)
    response.getOutputStream.write(body)
  }

  /** As in Spark's own servlets: what a request contains is not echoed. */
  override protected def doTrace(request: HttpServletRequest, response: HttpServletResponse): Unit =
    response.sendError(HttpServletResponse.SC_METHOD_NOT_ALLOWED)
}

private[sparksched] object StatusServlet {
  val Path = "/sched/api/v1"

  /** By reflection: to compile the call, scalac wants the overloads' Jetty classes under the name that they had before shading. */
  def attach(ui: SparkUI, servlet: StatusServlet): Unit =
    classOf[SparkUI].getMethod("attachHandler", classOf[String], classOf[HttpServlet], classOf[String])
      .invoke(ui, Path, servlet, "/*")
}
