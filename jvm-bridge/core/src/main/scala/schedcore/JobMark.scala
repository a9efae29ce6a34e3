package schedcore

import java.util.Locale

import scala.util.matching.Regex

/**
 * What a Spark job's local properties and tags say about the tenant's job it belongs to.
 *
 * @param key identifies the job during its life; only this file reads its parts
 * @param copies whether its tasks may run again for our own ends, as copies or after evictions; those of a stream's
 *               micro-batches only where the job asks for it
 * @param runsOnce its owner forbids that any task of it runs twice, Spark's own speculation included
 * @param grouping what makes Spark jobs parts of this job
 * @param endsByCall its owner says when it is over; other jobs are over when they have been idle
 * @param series a later job of the same series ends this one: the micro-batches of a streaming query
 * @param warnings about marks that could not be read and were ignored, or that asked for more than the limits allow
 */
final case class JobMark(
    key: String,
    name: String,
    user: Option[String],
    priority: Int,
    isolation: Option[Double],
    deadlineMs: Option[Long],
    jobClass: Option[String],
    copies: Boolean,
    grouping: JobMark.Grouping,
    endsByCall: Boolean,
    warnings: Seq[MarkWarning],
    runsOnce: Boolean = false,
    series: Option[String] = None) {
  def marked: Boolean = grouping == JobMark.ByMark

  /** With its deadline, if any, moved by this time. */
  def laterBy(ms: Long): JobMark = copy(deadlineMs = deadlineMs.map(_ + ms))

  /** Whether people mean this job by a name, a key or an id. */
  def isCalled(by: String): Boolean = name == by || key == by || key == JobMark.keyOf(by)
}

object JobMark {
  sealed trait Grouping
  /** The owner named the job: more Spark jobs may follow any one of them. */
  case object ByMark extends Grouping
  case object ByBatch extends Grouping
  case object ByGroup extends Grouping
  case object BySqlExecution extends Grouping
  case object BySparkJob extends Grouping

  val Prefix = "spark.sched.job."
  val Fields: Seq[String] =
    Seq("id", "name", "user", "priority", "deadline", "isolation", "class", "copies")

  // Spark wraps a user's tag into one of its own that ends with it: after "-" on a session, after "_" with Connect.
  private val Tag: Regex = """(?:^|.*[_-])sched:([A-Za-z_]+)=(.*)""".r

  // Spark Connect says in a tag of its own whose operation it is. A client's own tags come after that, whatever they say.
  private val ConnectUser: Regex =
    """SparkConnect_OperationTag_User_(.+?)_Session_[0-9a-fA-F-]{36}_(?:Operation|Tag)_.*""".r

  private val TagPrefix = "sched:"

  val GroupId = "spark.jobGroup.id"
  private val SqlExecutionId = "spark.sql.execution.id"
  private val Tags = "spark.job.tags"

  // Structured Streaming sets the run of a micro-batch.
  private val StreamingQuery = "sql.streaming.queryId"
  private val StreamingBatch = "streaming.sql.batchId"
  // It describes its jobs by its name, if it has one, its ids and its batch.
  private val Description = "spark.job.description"
  private val StreamName: Regex = """(?s)(.+?)<br/>id = .*""".r

  // Spark's Thrift server makes each statement a job group of its own.
  private val RandomId: Regex = """\p{XDigit}{8}(?:-\p{XDigit}{4}){3}-\p{XDigit}{12}""".r

  /** Known fields for a suggestion in place of an unknown one. */
  private def hint(prefix: String, field: String): String = {
    val near = Fields.minBy(Words.distance(_, field.toLowerCase(Locale.ROOT)))
    if (Words.distance(near, field.toLowerCase(Locale.ROOT)) <= 2) s"did you mean $prefix$near?"
    else s"it must be one of ${Fields.map(prefix + _).mkString(", ")}"
  }

  /** The key of the job that is marked with this id. */
  def keyOf(id: String): String = "mark-" + id

  /** The key of the job that is an unmarked SQL execution. */
  def keyOfSql(execution: String): String = "sql-" + execution

  /** The key of the job that is a micro-batch of a streaming query. */
  def keyOfBatch(query: String, batch: String): String = s"${seriesOf(query)}-$batch"

  /** The series of a streaming query's micro-batches. */
  def seriesOf(query: String): String = "stream-" + query

  /**
   * Local properties win over tags; unmarked work is grouped by job group, SQL execution or Spark job, in this order.
   * A micro-batch of a streaming query is a job of its own with the marks that the query's thread inherited.
   *
   * With Spark Connect, whom the server knows the user to be wins over both, and jobs are the user's own: an id or a name
   * that another user chose too is another job.
   *
   * @param userOfGroup the user of a job group, if a server reported it
   * @param nowMs start of a deadline that is given as a duration
   * @param names of all local properties, to find those that are no marks but look like one
   */
  def from(
      property: String => Option[String], sparkJobId: Int, limits: Limits = Limits(),
      userOfGroup: String => Option[String] = _ => None, nowMs: Long = System.currentTimeMillis(),
      names: Iterable[String] = Nil): JobMark = {
    val group = property(GroupId)
    val allTags = property(Tags).toSeq.flatMap(_.split(','))
    val tags = allTags.collect { case Tag(field, value) => field -> value }.toMap
    val connectUser = allTags.collectFirst { case ConnectUser(name) => name }
    val warnings = Seq.newBuilder[MarkWarning]
    def limited(sentence: String): Unit = warnings += MarkWarning(sentence, limited = true)
    def unknown(what: String, prefix: String, fields: Iterable[String]): Unit = fields.filterNot(Fields.contains).foreach { f =>
      warnings += MarkWarning(s"unknown $what $prefix$f: ${hint(prefix, f)}", limited = false)
    }
    unknown("tag", TagPrefix, tags.keys)
    unknown("local property", Prefix, names.collect { case name if name.startsWith(Prefix) => name.stripPrefix(Prefix) })
    def mark(field: String): Option[String] =
      property(Prefix + field).orElse(tags.get(field)).map(_.trim).filter(_.nonEmpty).filter { text =>
        val counts = limits.marks.contains(field)
        if (!counts) limited(s"$Prefix$field is '$text' but spark.sched.limits.marks leaves it out: ignored")
        counts
      }
    def parsed[A](field: String, wanted: String)(read: String => Option[A]): Option[A] = mark(field).flatMap { text =>
      val value = read(text)
      if (value.isEmpty)
        warnings += MarkWarning(s"$Prefix$field is '$text' but must be $wanted", limited = false)
      value
    }
    def capped[A](field: String, cap: A, setting: Key)(value: A)(implicit order: Ordering[A]): A = {
      if (order.gt(value, cap)) limited(s"$Prefix$field is $value but ${setting.name} is $cap: lowered to it")
      order.min(value, cap)
    }
    val user = mark("user")
    connectUser.filter(known => user.exists(_ != known)).foreach { known =>
      limited(s"${Prefix}user is '${user.get}' but Spark Connect says '$known': ignored")
    }
    // The length keeps keys of different pairs of user and id different.
    val whose = connectUser.fold("")(known => s"${known.length}-$known-")
    val id = mark("id")
    val name = mark("name")
    val copies = parsed("copies", "auto or never")(t => Option.when(t == "auto" || t == "never")(t == "auto"))
    val query = property(StreamingQuery).filter(_ => property(StreamingBatch).isDefined)
    val byMark = id.map(i => keyOf(whose + i)).orElse(name.map(n => s"mark-name-$whose$n")).map(ByMark -> _)
    val byBatch = for (q <- query; batch <- property(StreamingBatch))
      yield byMark.fold[Grouping](ByBatch)(_._1) -> keyOfBatch(q, batch)
    val (grouping, key) = byBatch.orElse(byMark)
      .orElse(group.map(g => ByGroup -> s"group-$g"))
      .orElse(property(SqlExecutionId).map(id => BySqlExecution -> keyOfSql(id)))
      .getOrElse(BySparkJob -> s"spark-$sparkJobId")
    JobMark(
      key,
      name
        .orElse(query.map(q => property(Description).collect { case StreamName(name) => name }.getOrElse(q)))
        // The history cannot learn from a name that is used once.
        .orElse(group.filterNot(RandomId.matches)).getOrElse(key),
      connectUser.orElse(user).orElse(group.flatMap(userOfGroup)),
      parsed("priority", "a whole number")(_.toIntOption)
        .map(capped("priority", limits.maxPriority, Settings.MaxPriority)(_)).getOrElse(math.min(0, limits.maxPriority)),
      parsed("isolation", "a number from 0 to 1")(_.toDoubleOption.filter(v => v >= 0 && v <= 1))
        .map(capped("isolation", limits.maxIsolation, Settings.MaxIsolation)(_)),
      parsed("deadline", DeadlineText.Wanted)(DeadlineText.parse(_, nowMs)),
      mark("class"),
      // A stream's sink may have no commit protocol that undoes a second write.
      copies.getOrElse(property(StreamingQuery).isEmpty),
      grouping,
      // A Connect client has nothing to call, whether its id comes in a tag or a property.
      endsByCall = id.isDefined && connectUser.isEmpty && property(Prefix + "id").isDefined && query.isEmpty,
      warnings.result(),
      runsOnce = copies.contains(false),
      series = query.map(seriesOf))
  }
}
