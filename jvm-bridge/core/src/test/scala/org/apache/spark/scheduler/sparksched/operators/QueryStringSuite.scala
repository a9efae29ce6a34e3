package org.apache.spark.scheduler.sparksched
package operators

import java.lang.reflect.Proxy
import java.net.URLEncoder
import java.nio.charset.StandardCharsets.UTF_8
import java.util.{Map => JMap}

import jakarta.servlet.http.HttpServletRequest
import org.scalatest.funsuite.AnyFunSuite

/** Names of jobs in addresses, behind the request that Spark's filter hands on. */
final class QueryStringSuite extends AnyFunSuite {
  private def request(query: String, parameters: (String, String)*): HttpServletRequest = {
    val map = new java.util.HashMap[String, Array[String]]
    parameters.foreach { case (key, value) => map.put(key, Array(value)) }
    val bare = Proxy.newProxyInstance(getClass.getClassLoader, Array(classOf[HttpServletRequest]), (_, method, _) => method.getName match {
      case "getQueryString" => query
      case "getParameterMap" => map: JMap[String, Array[String]]
      case _ => null
    }).asInstanceOf[HttpServletRequest]
    // Private to Spark.
    Class.forName("org.apache.spark.ui.XssSafeRequest").getConstructors.head.newInstance(bare, "ada").asInstanceOf[HttpServletRequest]
  }

  test("a name is read as it was sent, whatever characters it has") {
    for (name <- Seq("R&D <daily> \"it's\"", "50% & more = all + \u00fc", "two\nlines", "")) {
      val behind = request(s"other=1&name=${URLEncoder.encode(name, UTF_8)}", "name" -> name)
      assert(QueryString.value(behind, "name") === Some(name))
      if (name.nonEmpty) assert(behind.getParameter("name") !== name)
    }
  }

  test("a parameter that is missing, or that nobody can decode, has no value") {
    for (query <- Seq(null, "", "name", "names=a", "name=%zz")) assert(QueryString.value(request(query), "name") === None, s"query $query")
    assert(QueryString.value(request("name=a&name=b"), "name") === Some("a"))
  }
}
