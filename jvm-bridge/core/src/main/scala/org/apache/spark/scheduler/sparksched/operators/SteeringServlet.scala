package org.apache.spark.scheduler.sparksched
package operators

import java.nio.charset.StandardCharsets.UTF_8

import scala.jdk.CollectionConverters._
import scala.util.Try
import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.ObjectMapper
import com.fasterxml.jackson.databind.node.ObjectNode
import jakarta.servlet.http.{HttpServlet, HttpServletRequest, HttpServletResponse}
import schedcore.PlainText
import schedcore.plan.Refusal

/**
 * The status document, and changes: `POST steer/ACTION` with a JSON object of arguments; and the scripts of the tab.
 *
 * Changes are open to those whom [[UiAccess]] lets in. A page of another site can make a browser send a form with this user's
 * cookies, but no header of its own, so one is demanded.
 */
private[sparksched] final class SteeringServlet(source: StatusSource, steering: Steering, access: UiAccess)
    extends StatusServlet(source, access) {
  import SteeringServlet._

  override def doGet(request: HttpServletRequest, response: HttpServletResponse): Unit =
    Scripts.get(request.getPathInfo).fold(super.doGet(request, response))(send(response, HttpServletResponse.SC_OK, "text/javascript", _))

  override def doPost(request: HttpServletRequest, response: HttpServletResponse): Unit = {
    val path = Option(request.getPathInfo).getOrElse("")
    val refused =
      if (!path.startsWith(Steer)) Some(Refusal("unknown_path", s"nothing can be changed at '$path': use $Steer and an action"))
      else access.refusalToChange(request.getHeader, request.getRemoteUser)
        .orElse(Option.when(request.getHeader(Header) == null)(Refusal("not_allowed", s"the header $Header is missing: send it with any value")))
    val done: Either[Refusal, String] = refused match {
      case Some(refusal) => Left(refusal)
      case None =>
        try arguments(request).flatMap(steering.steer(path.stripPrefix(Steer), _, who(request)))
        catch {
          case NonFatal(thrown) =>
            logWarning("spark_sched: a requested change failed", thrown)
            Left(Refusal("failed", s"it failed: ${thrown.getMessage}"))
        }
    }
    val status = done.fold(refused => Status.getOrElse(refused.code, HttpServletResponse.SC_CONFLICT), _ => HttpServletResponse.SC_OK)
    send(response, status, "application/json", answer(done).getBytes(UTF_8))
  }

  private def who(request: HttpServletRequest): String =
    Option(request.getRemoteUser).fold(s"somebody at ${request.getRemoteAddr}")(user => s"$user at ${request.getRemoteAddr}")

  /** Of a form, Spark's own filter has already read the body to check its parameters: none would be left. */
  private def arguments(request: HttpServletRequest): Either[Refusal, Map[String, String]] = {
    val form = Option(request.getContentType).exists(_.toLowerCase(java.util.Locale.ROOT).startsWith(Form))
    if (form) Left(Refusal("bad_value", s"the content type is $Form: send the arguments as application/json")) else read(request)
  }

  private def read(request: HttpServletRequest): Either[Refusal, Map[String, String]] = {
    val body = request.getInputStream.readNBytes(MostBytes + 1)
    if (body.length > MostBytes) Left(Refusal("bad_value", s"the request has more than $MostBytes bytes"))
    else SteeringServlet.arguments(new String(body, UTF_8))
  }
}

private[sparksched] object SteeringServlet {
  val Header = "X-Spark-Sched"
  val Steer = "/steer/"
  /** What the tab's buttons do. */
  val Script = "/steering.js"
  private val Form = "application/x-www-form-urlencoded"
  private val MostBytes = 1 << 16
  // Ten names and the sentence around them.
  private val MostSaid = 4096
  private val mapper = new ObjectMapper

  private lazy val Scripts: Map[String, Array[Byte]] = Seq(Script, TimelineView.Script).map { path =>
    val in = getClass.getResourceAsStream(path.stripPrefix("/"))
    try path -> in.readAllBytes() finally in.close()
  }.toMap

  private val Status = Map(
    "bad_value" -> HttpServletResponse.SC_BAD_REQUEST, "not_allowed" -> HttpServletResponse.SC_FORBIDDEN,
    "unknown_job" -> HttpServletResponse.SC_NOT_FOUND, "unknown_path" -> HttpServletResponse.SC_NOT_FOUND,
    "failed" -> HttpServletResponse.SC_INTERNAL_SERVER_ERROR)

  /** The members of a JSON object as text. */
  def arguments(json: String): Either[Refusal, Map[String, String]] =
    Try(mapper.readTree(if (json.trim.isEmpty) "{}" else json)).toOption.collect { case node: ObjectNode => node }
      .filter(_.elements.asScala.forall(_.isValueNode))
      .map(node => node.fieldNames.asScala.map(name => name -> node.get(name).asText).toMap)
      .toRight(Refusal("bad_value", "the arguments must be a JSON object of text and numbers"))

  /** Sentences are for people: what they quote of others' texts is made harmless. */
  def answer(done: Either[Refusal, String]): String = {
    val node = mapper.createObjectNode()
    def said(sentence: String) = PlainText.shown(sentence, MostSaid)
    done.fold(refused => node.put("error", said(refused.sentence)).put("code", refused.code), done => node.put("done", said(done))).toString
  }
}
