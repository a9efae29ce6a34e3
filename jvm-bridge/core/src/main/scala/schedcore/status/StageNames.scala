package schedcore
package status

/** What people are shown as the name of a stage. */
object StageNames {
  /** Spark names a stage by the call that submits it. Adaptive execution submits stages from a function without a name. */
  private val Adaptive = "$anonfun$"
  /** Where a thread began, not where the program called Spark: one of Python's, or one of a Thrift server before Spark 4. */
  private val Threads = Seq("copy_local_properties at ", "/threading.py:", "/concurrent/futures/thread.py:", "run at AccessController.java:")

  /** What Spark Connect calls the stages of its sessions: the client's message. */
  private val ConnectMessage = "Spark Connect - "

  /** @param statement what the stage's Spark job does, if that is known */
  def shown(callSite: String, statement: Option[String]): String =
    if (callSite.contains(Adaptive) || callSite.startsWith(ConnectMessage)) statement.getOrElse("part of a SQL query")
    else if (Threads.exists(callSite.contains(_))) statement.getOrElse(callSite)
    else callSite
}
