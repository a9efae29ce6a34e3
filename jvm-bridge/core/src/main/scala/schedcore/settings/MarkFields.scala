package schedcore
package settings

/** The names of marks. A mark is a local property `spark.sched.job.FIELD`, a tag or a SQL setting. */
object MarkFields {
  val Prefix = "spark.sched.job."
  val All: Seq[String] =
    Seq("id", "name", "user", "priority", "deadline", "isolation", "class", "copies")
}
