package org.apache.spark.scheduler.sparksched

import java.io.{ByteArrayInputStream, ByteArrayOutputStream}
import java.lang.reflect.Proxy
import java.nio.charset.StandardCharsets.UTF_8

import jakarta.servlet.{ReadListener, ServletInputStream, ServletOutputStream, WriteListener}
import jakarta.servlet.http.{HttpServletRequest, HttpServletResponse}
import org.scalatest.funsuite.AnyFunSuite

/** Who may change what over the network. */
final class SteeringServletSuite extends AnyFunSuite {
  private def post(
      path: String, user: String = "ada", header: String = "1", allowed: Boolean = true, body: String = "{}"): (Int, String) = {
    var status = 0
    val written = new ByteArrayOutputStream
    val request = answering[HttpServletRequest] {
      case "getPathInfo" => path
      case "getRemoteUser" => user
      case "getRemoteAddr" => "10.0.0.1"
      case "getHeader" => header
      case "getInputStream" => new ServletInputStream {
        private val in = new ByteArrayInputStream(body.getBytes(UTF_8))
        override def read(): Int = in.read()
        override def isFinished: Boolean = in.available() == 0
        override def isReady: Boolean = true
        override def setReadListener(listener: ReadListener): Unit = ()
      }
    }
    val out = new ServletOutputStream {
      override def write(b: Int): Unit = written.write(b)
      override def isReady: Boolean = true
      override def setWriteListener(listener: WriteListener): Unit = ()
    }
    val response = Proxy.newProxyInstance(getClass.getClassLoader, Array(classOf[HttpServletResponse]), (_, method, given) => {
      if (method.getName == "setStatus") status = given(0).asInstanceOf[Int]
      if (method.getName == "getOutputStream") out else null
    }).asInstanceOf[HttpServletResponse]
    new SteeringServlet(null, null, allowed, _ == "ada").doPost(request, response)
    (status, written.toString(UTF_8))
  }

  private def answering[A](answer: PartialFunction[String, AnyRef])(implicit tag: reflect.ClassTag[A]): A =
    Proxy.newProxyInstance(getClass.getClassLoader, Array(tag.runtimeClass), (_, method, _) => answer.lift(method.getName).orNull)
      .asInstanceOf[A]

  test("only who is in the modify ACLs may change anything, and only with the header that forms cannot send") {
    def refused(answer: (Int, String), status: Int, part: String): Unit =
      assert(answer._1 === status && answer._2.contains(part), answer)
    refused(post("/steer/hold", user = "eve"), 403, "user eve may not change the application")
    refused(post("/steer/hold", user = null), 403, "user nobody may not")
    refused(post("/steer/hold", header = null), 403, "X-Spark-Sched is missing")
    refused(post("/steer/hold", allowed = false), 403, "spark.sched.steering.enabled or spark.ui.killEnabled is false")
    refused(post("/status"), 404, "nothing can be changed at '/status'")
    refused(post("/steer/hold", body = "[1]"), 400, "must be a JSON object")
    refused(post("/steer/hold", body = s"""{"job": "${"x" * 70000}"}"""), 400, "more than 65536 bytes")
  }
}
