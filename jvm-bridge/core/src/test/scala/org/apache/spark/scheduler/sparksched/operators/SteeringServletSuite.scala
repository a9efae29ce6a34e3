package org.apache.spark.scheduler.sparksched
package operators

import java.io.{ByteArrayInputStream, ByteArrayOutputStream}
import java.lang.reflect.Proxy
import java.nio.charset.StandardCharsets.UTF_8

import jakarta.servlet.{ReadListener, ServletInputStream, ServletOutputStream, WriteListener}
import jakarta.servlet.http.{HttpServletRequest, HttpServletResponse}
import org.scalatest.funsuite.AnyFunSuite
import schedcore.plan.Refusal
import schedcore.settings.TrustedHosts

/** Who may change what over the network. */
final class SteeringServletSuite extends AnyFunSuite {
  private def post(
      path: String, user: String = "ada", header: String = "1", allowed: Boolean = true, body: String = "{}",
      headers: Map[String, String] = Map.empty, everybody: Boolean = false, aclsOn: Boolean = true): (Int, String) =
    answered(user, allowed, everybody, aclsOn, body, path, Map("Host" -> "localhost:4040", "X-Spark-Sched" -> header) ++ headers)(_.doPost(_, _))

  private def answered(
      user: String, allowed: Boolean, everybody: Boolean, aclsOn: Boolean, body: String, path: String, headers: Map[String, String])(
      ask: (SteeringServlet, HttpServletRequest, HttpServletResponse) => Unit): (Int, String) = {
    var status = 0
    val written = new ByteArrayOutputStream
    val request = Proxy.newProxyInstance(getClass.getClassLoader, Array(classOf[HttpServletRequest]), (_, method, given) =>
      if (method.getName == "getHeader") headers.get(given(0).toString).orNull else fields(user, path, body).lift(method.getName).orNull)
      .asInstanceOf[HttpServletRequest]
    val out = new ServletOutputStream {
      override def write(b: Int): Unit = written.write(b)
      override def isReady: Boolean = true
      override def setWriteListener(listener: WriteListener): Unit = ()
    }
    val response = Proxy.newProxyInstance(getClass.getClassLoader, Array(classOf[HttpServletResponse]), (_, method, given) => {
      if (method.getName == "setStatus") status = given(0).asInstanceOf[Int]
      if (method.getName == "getOutputStream") out else null
    }).asInstanceOf[HttpServletResponse]
    val hosts = new TrustedHosts(() => Set("driver.example"), Set("gateway.example"), _.isLoopbackAddress)
    // As Spark's own check does, it lets nobody in.
    val access = new UiAccess(hosts, allowed, () => aclsOn, user => user == null || !aclsOn || user == "ada", () => everybody)
    ask(new SteeringServlet(null, null, access), request, response)
    (status, written.toString(UTF_8))
  }

  private def fields(user: String, path: String, body: String): PartialFunction[String, AnyRef] = {
    case "getPathInfo" => path
    case "getRemoteUser" => user
    case "getRemoteAddr" => "10.0.0.1"
    case "getInputStream" => new ServletInputStream {
      private val in = new ByteArrayInputStream(body.getBytes(UTF_8))
      override def read(): Int = in.read()
      override def isFinished: Boolean = in.available() == 0
      override def isReady: Boolean = true
      override def setReadListener(listener: ReadListener): Unit = ()
    }
  }

  test("only who is in the modify ACLs may change anything, and only with the header that forms cannot send") {
    def refused(answer: (Int, String), status: Int, part: String): Unit =
      assert(answer._1 === status && answer._2.contains(part), answer)
    refused(post("/steer/hold", user = "eve"), 403, "user eve may not change the application")
    refused(post("/steer/hold", header = null), 403, "X-Spark-Sched is missing")
    refused(post("/steer/hold", allowed = false), 403, "spark.sched.steering.enabled or spark.ui.killEnabled is false")
    refused(post("/status"), 404, "nothing can be changed at '/status'")
    refused(post("/steer/hold", body = "[1]"), 400, "must be a JSON object")
    refused(post("/steer/hold", body = s"""{"job": "${"x" * 70000}"}"""), 400, "more than 65536 bytes")
  }

  test("where ACLs are on, a request without a user changes nothing, although Spark lets it in") {
    val (status, said) = post("/steer/hold", user = null)
    assert(status === 403 && said.contains("names no user") && said.contains("set spark.ui.filters to a filter that authenticates users"))
    // Refused later, for what it asks.
    assert(post("/steer/hold", user = null, everybody = true, body = "[1]")._1 === 400)
    assert(post("/steer/hold", user = null, aclsOn = false, body = "[1]")._1 === 400)
  }

  test("a change must name this machine and come from a page of it") {
    def status(headers: (String, String)*): Int = post("/steer/hold", body = "[1]", headers = headers.toMap)._1
    assert(status("Host" -> "evil.example:4040", "Origin" -> "http://evil.example:4040") === 403)
    assert(status("Sec-Fetch-Site" -> "cross-site") === 403)
    assert(status("Origin" -> "http://localhost:4040", "Sec-Fetch-Site" -> "same-origin") === 400)
    val (refused, said) = post("/steer/hold", headers = Map("Host" -> "evil.example\u001b[31m"))
    assert(refused === 403 && said.contains("'evil.example\uFFFD[31m'") && said.contains("spark.sched.ui.hosts"))
  }

  test("what is read must name this machine, too") {
    val (status, said) = answered("ada", allowed = true, everybody = false, aclsOn = true, "", "/status", Map("Host" -> "evil.example:4040"))(
      _.doGet(_, _))
    assert(status === 403 && said.contains(""""code":"not_allowed"""") && said.contains("evil.example:4040"))
  }

  test("sentences quote nothing that a terminal or a log obeys, and no long text") {
    assert(SteeringServlet.answer(Right("job a\nb\u202e: resumed")) === """{"done":"job a b\uFFFD: resumed"}""")
    assert(SteeringServlet.answer(Left(Refusal("bad_value", "x" * 100000))).length < 5000)
  }
}
