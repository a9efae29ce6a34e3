package schedcore
package marks

import scala.util.matching.Regex

import schedcore.settings.{Key, Limits, MarkFields, MarkWarning, Settings}

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
 * @param session the SQL session whose settings give its id or name
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
    series: Option[String] = None,
    session: Option[String] = None) {
  def marked: Boolean = grouping == JobMark.ByMark

  /** With its deadline, if any, moved by this time. */
  def laterBy(ms: Long): JobMark = copy(deadlineMs = deadlineMs.map(_ + ms))

  /**
   * Whether nobody reports that the job ended: it is inferred some time after its last activity, from a job that is idle or
   * from a SQL session that has dropped the mark.
   */
  def endIsInferred(outcome: String): Boolean =
    outcome == "idle" || (!endsByCall && (grouping == JobMark.ByMark || grouping == JobMark.ByGroup))

  /** Whether its owner gave it this id; the key has the user, too, or the session, where the id is theirs. */
  def hasId(id: String): Boolean =
    (Seq("") ++ user.map(JobMark.ofUser) ++ session.map(JobMark.ofSession)).exists(whose => key == JobMark.keyOf(whose + id))
}

object JobMark {
  sealed trait Grouping
  /** The owner named the job: more Spark jobs may follow any one of them. */
  case object ByMark extends Grouping
  case object ByBatch extends Grouping
  case object ByGroup extends Grouping
  case object BySqlExecution extends Grouping
  case object BySparkJob extends Grouping

  val Prefix: String = MarkFields.Prefix
  val Fields: Seq[String] = MarkFields.All

  private val TagPrefix = "sched:"

  // Structured Streaming sets the run of a micro-batch.
  val StreamingQuery = "sql.streaming.queryId"
  val StreamingBatch = "streaming.sql.batchId"
  // The batch in which `spark_sched.job` set a mark. No SET reaches a key that does not begin with "spark".
  private val InBatch = "sched.job.batch"
  // It describes its jobs by its name, if it has one, its ids and its batch.
  private val Description = "spark.job.description"
  private val StreamName: Regex = """(?s)(.+?)<br/>id = .*""".r

  // Spark's Thrift server makes each statement a job group of its own.
  private val RandomId: Regex = """\p{XDigit}{8}(?:-\p{XDigit}{4}){3}-\p{XDigit}{12}""".r

  /** What comes before the id or name of a user's job. The length keeps keys of different pairs of user and id different. */
  private def ofUser(user: String): String = s"${user.length}-$user-"

  /** What comes before an id or name that a session has `SET` where its user is not known. */
  private def ofSession(session: String): String = s"session-$session-"

  /** The key of the job that is marked with this id. */
  def keyOf(id: String): String = "mark-" + id

  /** The key of the job that is an unmarked SQL execution. */
  def keyOfSql(execution: String): String = "sql-" + execution

  /** The key of the job that is a micro-batch of a streaming query. */
  def keyOfBatch(query: String, batch: String): String = s"${seriesOf(query)}-$batch"

  /** The series of a streaming query's micro-batches. */
  def seriesOf(query: String): String = "stream-" + query

  /**
   * The job that a Spark job belongs to. The table of docs/how-to/mark-jobs.md, "Which mark counts", as code.
   *
   * The user is whom a server knows; without a server it is whom code or a tag marks. Ids, names and job groups are the
   * user's own. Where no user is known, those that a session has `SET` are the session's own, so that no statement makes its
   * job another's.
   *
   * @param userOfGroup the user of a job group, if a server reported it
   * @param nowMs start of a deadline that is given as a duration
   * @param names of all local properties, to find those that are no marks but look like one
   */
  def from(
      property: String => Option[String], sparkJobId: Int, limits: Limits = Limits(),
      userOfGroup: String => Option[String] = _ => None, nowMs: Long = System.currentTimeMillis(),
      names: Iterable[String] = Nil, origin: Origin = Origin()): JobMark = {
    val sources = new MarkSources(property, origin)
    val warnings = Seq.newBuilder[MarkWarning]
    def limited(sentence: String): Unit = warnings += MarkWarning(sentence, limited = true)
    def unknown(what: String, prefix: String, fields: Iterable[String]): Unit = MarkBounds.unknown(fields.filterNot(Fields.contains)).foreach { f =>
      warnings += MarkWarning(s"unknown $what $prefix$f: ${MarkSources.hint(prefix, f)}", limited = false)
    }
    unknown("tag", TagPrefix, sources.tags.keys)
    unknown("local property", Prefix, names.collect { case name if name.startsWith(Prefix) => name.stripPrefix(Prefix) })
    sources.refused.foreach(key => limited(s"$key is SET in a SQL session, which says nothing of whose a job is: ignored"))
    def sourced(field: String): Option[(String, MarkSource)] = sources(field).map { case (text, source) =>
      MarkBounds.text(Prefix + field, text)(limited) -> source
    }.filter { case (text, _) =>
      val counts = limits.marks.contains(field)
      if (!counts) limited(s"$Prefix$field is '$text' but spark.sched.limits.marks leaves it out: ignored")
      counts
    }
    def mark(field: String): Option[String] = sourced(field).map(_._1)
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

    // 1. Who it is.
    val group = sources.group
    val (server, known) = Seq("the server" -> origin.user, "Spark Connect" -> sources.connectUser,
      "the Thrift server" -> group.flatMap(userOfGroup)).collectFirst { case (who, Some(user)) => (who, Option(user)) }
      .getOrElse(("", None))
    val marked = sourced("user").flatMap {
      case (text, MarkSource.Setting) =>
        if (!known.contains(text)) limited(s"${Prefix}user is '$text' by SET, which says nothing of whose a job is: ignored")
        None
      case (text, _) => Some(text)
    }
    for (user <- known; text <- marked if text != user)
      limited(s"${Prefix}user is '$text' but $server says '$user': ignored")
    val users = known.map(ofUser)
    val sessions = origin.session.map(ofSession)

    // 2. What it is called. Who gives an id or a name gives both.
    val (id, name, whose) = {
      val given = sourced("id") -> sourced("name")
      val byOthers = Seq(given._1, given._2).flatten.exists(_._2 != MarkSource.Setting)
      def counts(mark: Option[(String, MarkSource)]): Option[String] = mark.filter { case (_, source) =>
        source != MarkSource.Setting || (!byOthers && (users.isDefined || sessions.isDefined))
      }.map(_._1)
      (counts(given._1), counts(given._2), users.orElse(if (byOthers) None else sessions).getOrElse(""))
    }
    val bySetting = (id.isDefined || name.isDefined) && Seq("id", "name").flatMap(sources(_)).forall(_._2 == MarkSource.Setting)

    // 3. Which job that makes it, the most specific first: a mark inside a micro-batch, the batch, a mark, and so on.
    val number = property(StreamingBatch).map(PlainText.bounded(_))
    val query = property(StreamingQuery).filter(_ => number.isDefined).map(PlainText.bounded(_))
    val batch = for (q <- query; n <- number) yield keyOfBatch(q, n)
    val (before, own) = (origin.inherited, sources.own)
    val stamped = batch.exists(property(InBatch).contains(_))
    def isNew(field: String): Boolean =
      limits.marks.contains(field) && before.exists(b => own.get(field).exists(!b.get(field).contains(_)))
    val inBatch = batch.isDefined && (stamped || isNew("id") || isNew("name"))
    // A callback that sets a name alone leaves the id of the block in which the query began.
    val idHere = id.filter(_ => !inBatch || stamped || isNew("id"))
    val byMark = idHere.map(i => keyOf(whose + i)).orElse(name.map { n =>
      // A name comes back with each batch, and each has its own job.
      batch.filter(_ => inBatch).fold(s"mark-name-$whose$n")(b => s"$b-$whose$n")
    }).map(ByMark -> _)
    val ofBatch = batch.filterNot(_ => inBatch && byMark.isDefined)
    // What Spark itself, or a Thrift server, runs in a group of its own is part of the statement.
    val ofGroup = group.filterNot(g => RandomId.matches(g) && sources.rootExecution.isDefined)
    val (grouping, key) = ofBatch.map(b => byMark.fold[Grouping](ByBatch)(_._1) -> b).orElse(byMark)
      .orElse(ofGroup.map(g => ByGroup -> s"group-${users.getOrElse("")}$g"))
      .orElse(group.flatMap(_ => sources.rootExecution).orElse(sources.execution).map(id => BySqlExecution -> keyOfSql(id)))
      .getOrElse(BySparkJob -> s"spark-$sparkJobId")
    val copies = parsed("copies", "auto or never")(t => Option.when(t == "auto" || t == "never")(t == "auto"))
    JobMark(
      key,
      name
        .orElse(ofBatch.flatMap(_ => query).map(q => property(Description).collect { case StreamName(name) => PlainText.bounded(name) }.getOrElse(q)))
        // The history cannot learn from a name that is used once.
        .orElse(ofGroup.filterNot(RandomId.matches)).getOrElse(key),
      known.orElse(marked),
      parsed("priority", s"a whole number from ${Int.MinValue} to ${Int.MaxValue}")(_.toIntOption)
        .map(capped("priority", limits.maxPriority, Settings.MaxPriority)(_)).getOrElse(math.min(0, limits.maxPriority)),
      parsed("isolation", "a number from 0 to 1")(_.toDoubleOption.filter(v => v >= 0 && v <= 1))
        .map(capped("isolation", limits.maxIsolation, Settings.MaxIsolation)(_)),
      parsed("deadline", DeadlineText.Wanted)(DeadlineText.parse(_, nowMs).filter(MarkBounds.isNear(_, nowMs))),
      mark("class"),
      // A stream's sink may have no commit protocol that undoes a second write.
      copies.getOrElse(property(StreamingQuery).isEmpty),
      grouping,
      // A server's tenant, or whoever SETs an id, has nothing to call.
      endsByCall = idHere.isDefined && known.isEmpty && !bySetting && property(Prefix + "id").isDefined && ofBatch.isEmpty,
      warnings.result(),
      runsOnce = copies.contains(false),
      series = query.filter(_ => ofBatch.isDefined).map(seriesOf)
        .orElse(query.filter(_ => idHere.isEmpty).map(q => s"${seriesOf(q)}-$whose${name.getOrElse("")}")),
      session = origin.session.filter(_ => bySetting && grouping == ByMark))
  }
}
