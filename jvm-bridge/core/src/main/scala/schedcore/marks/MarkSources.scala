package schedcore
package marks

import java.util.Locale

import scala.util.matching.Regex

import schedcore.settings.Words

/**
 * What the driver knows of a Spark job's origin beside the job's local properties.
 *
 * @param session the SQL session that runs it; None: it runs in none, or in which is not certain
 * @param settings what that session, or each session that it may run in, has `SET`: values by key, of tags each one
 * @param user whom a server knows the session's user to be
 * @param inherited the marks of a streaming query's thread when its micro-batch began
 */
final case class Origin(
    session: Option[String] = None,
    settings: Map[String, Set[String]] = Map.empty,
    user: Option[String] = None,
    inherited: Option[Map[String, String]] = None) {
  /** Whether a session's `SET` may have given a local property this value. */
  def holds(key: String, value: String): Boolean = settings.get(key).exists(_.contains(value))

  /** The local properties without those that say whose a Spark job is and that a session's `SET` may have given. */
  def given(property: String => Option[String]): String => Option[String] = {
    case MarkSources.Tags => property(MarkSources.Tags).map(MarkSources.tagsOf(_).filterNot(holds(MarkSources.Tags, _)).mkString(","))
    case key if MarkSources.IdentityKeys.contains(key) => property(key).filterNot(holds(key, _))
    case key => property(key)
  }
}

object Origin {
  /** Of a Spark job whose local properties say nothing of whose it is. */
  def nobody(property: String => Option[String]): Origin =
    Origin(settings = of("", MarkSources.Keys.flatMap(key => property(key).map(key -> _)).toMap).settings)

  /** A session of which nothing but its settings is known. */
  def of(session: String, settings: Map[String, String], user: Option[String] = None): Origin =
    Origin(Some(session), settings.map { case (key, value) =>
      key -> (if (key == MarkSources.Tags) MarkSources.tagsOf(value).toSet else Set(value))
    }, user)
}

/**
 * A SQL execution is over.
 *
 * @param session its session
 * @param setting the session's settings as they are now
 * @param blocks ids, with their user, of the jobs whose blocks a Spark Connect client says are over
 */
final case class StatementEnd(session: String, setting: String => Option[String], blocks: Seq[String])

/** Who gave a mark. */
sealed trait MarkSource
object MarkSource {
  /** The application's own code, in a local property of the thread. */
  case object Thread extends MarkSource
  /** A tag of the thread, of the session or of a Spark Connect client. */
  case object Tag extends MarkSource
  /** `SET` in the session. */
  case object Setting extends MarkSource
}

/**
 * The marks in a Spark job's local properties and tags, each with its source.
 *
 * Spark copies the settings of a SQL session into local properties, so that whoever may run SQL writes there. The source of
 * a value decides what it may say: settings may rank the session's own jobs, and say nothing of identity.
 */
final class MarkSources(property: String => Option[String], origin: Origin) {
  import MarkSources._

  private val (setTags, givenTags) = property(Tags).toList.flatMap(tagsOf).partition(origin.holds(Tags, _))

  /** Marks in tags. */
  val tags: Map[String, String] = givenTags.collect { case Tag(field, value) => field -> value }.toMap

  /** The user that Spark Connect names in a tag of its own. */
  val connectUser: Option[String] = connectUserOf(givenTags)

  /** The job group, the SQL execution and its outermost one, unless a session's settings may have given them. */
  val group: Option[String] = identity(GroupId)
  val execution: Option[String] = identity(SqlExecutionId)
  val rootExecution: Option[String] = execution.map(id => identity(SqlRootId).getOrElse(id))

  private def identity(key: String): Option[String] = property(key).filterNot(origin.holds(key, _)).map(PlainText.bounded(_))

  /** Keys whose values are ignored since a session's settings gave them. */
  def refused: Seq[String] = (if (setTags.nonEmpty) Seq(Tags) else Nil) ++
    Seq(GroupId, SqlExecutionId, SqlRootId).filter(key => property(key).exists(origin.holds(key, _)))

  /** A mark as it is written, and who gave it: code before a tag, a tag before a session's setting. */
  def apply(field: String): Option[(String, MarkSource)] = {
    val key = JobMark.Prefix + field
    val (set, given) = (property(key).filter(origin.holds(key, _)), property(key).filterNot(origin.holds(key, _)))
    // A blank property hides a tag.
    val ours = given.map(_ -> MarkSource.Thread).orElse(tags.get(field).map(_ -> MarkSource.Tag))
      .orElse(set.map(_ -> MarkSource.Setting))
    ours.map { case (text, source) => text.trim -> source }.filter(_._1.nonEmpty)
  }

  /** The marks that code or tags gave. */
  def own: Map[String, String] =
    JobMark.Fields.flatMap(field => apply(field).collect { case (text, source) if source != MarkSource.Setting => field -> text }).toMap
}

object MarkSources {
  val GroupId = "spark.jobGroup.id"
  val SqlExecutionId = "spark.sql.execution.id"
  val SqlRootId = "spark.sql.execution.root.id"
  val Tags = "spark.job.tags"

  /** Keys of local properties that say whose a Spark job is. */
  val IdentityKeys: Seq[String] = Seq(Tags, GroupId, SqlExecutionId, SqlRootId)
  /** Keys that a session's settings must be asked for. */
  val Keys: Seq[String] = IdentityKeys ++ JobMark.Fields.map(JobMark.Prefix + _)

  // Spark wraps a user's tag into one of its own that ends with it: after "-" on a session, after "_" with Connect.
  private val Tag: Regex = """(?:^|.*[_-])sched:([A-Za-z_]+)=(.*)""".r

  // Spark Connect says in a tag of its own whose operation it is. A client's own tags come after that, whatever they say.
  private val ConnectUser: Regex =
    """SparkConnect_OperationTag_User_(.+?)_Session_[0-9a-fA-F-]{36}_(?:Operation|Tag)_.*""".r

  // Spark tags what a session executes with the session.
  private val SessionTag: Regex = """spark-session-(\p{XDigit}{8}(?:-\p{XDigit}{4}){3}-\p{XDigit}{12})""".r

  def tagsOf(text: String): Seq[String] = text.split(',').toSeq.filter(_.nonEmpty)

  /** The user that Spark Connect names in a tag of its own, which is before a client's. */
  def connectUserOf(tags: Iterable[String]): Option[String] = tags.collectFirst { case ConnectUser(name) => PlainText.bounded(name) }

  /** The ids of the blocks that a Spark Connect client says are over. A client has no other way to say so. */
  def endedBlocks(tags: Iterable[String]): Seq[String] = tags.collect { case Tag("ended", id) => id.trim }.filter(_.nonEmpty).map(PlainText.bounded(_)).toList

  /** The sessions that tags name. */
  def sessionsOf(tags: Iterable[String]): Set[String] = tags.collect { case SessionTag(id) => id }.toSet

  /** Known fields for a suggestion in place of an unknown one. */
  def hint(prefix: String, field: String): String = {
    val near = JobMark.Fields.minBy(Words.distance(_, field.toLowerCase(Locale.ROOT)))
    if (Words.distance(near, field.toLowerCase(Locale.ROOT)) <= 2) s"did you mean $prefix$near?"
    else s"it must be one of ${JobMark.Fields.map(prefix + _).mkString(", ")}"
  }
}
