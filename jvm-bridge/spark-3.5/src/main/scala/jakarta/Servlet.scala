package jakarta.servlet

/** Spark 3.5 has the servlets of before their package was renamed. */
package object http {
  type HttpServlet = javax.servlet.http.HttpServlet
  type HttpServletRequest = javax.servlet.http.HttpServletRequest
  type HttpServletResponse = javax.servlet.http.HttpServletResponse
  object HttpServletResponse {
    val SC_BAD_REQUEST: Int = javax.servlet.http.HttpServletResponse.SC_BAD_REQUEST
    val SC_CONFLICT: Int = javax.servlet.http.HttpServletResponse.SC_CONFLICT
    val SC_FORBIDDEN: Int = javax.servlet.http.HttpServletResponse.SC_FORBIDDEN
    val SC_INTERNAL_SERVER_ERROR: Int = javax.servlet.http.HttpServletResponse.SC_INTERNAL_SERVER_ERROR
    val SC_METHOD_NOT_ALLOWED: Int = javax.servlet.http.HttpServletResponse.SC_METHOD_NOT_ALLOWED
    val SC_NOT_FOUND: Int = javax.servlet.http.HttpServletResponse.SC_NOT_FOUND
    val SC_OK: Int = javax.servlet.http.HttpServletResponse.SC_OK
  }
}
