package org.apache.spark.sql.sparksched

import java.util.Properties

import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.SparkContext
import org.apache.spark.scheduler.SparkListenerEvent
import org.apache.spark.sql.execution.SQLExecution
import org.apache.spark.sql.execution.ui.{SparkListenerSQLExecutionEnd, SparkListenerSQLExecutionStart}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.util.Utils
import schedcore.marks.{JobMark, MarkSources, Origin, SessionUsers, StatementEnd}
import SqlLine.Session

/**
 * Finds the SQL session of a Spark job, the settings that the session has `SET`, and the session's user.
 *
 * Spark copies a session's settings into the local properties of its Spark jobs. So a local property
 * proves nothing if a session may have `SET` its value. `SET` cannot change the running executions and their sessions, the tag
 * with the session that Spark adds after the copy, or the servers' own records and events.
 */
private[spark] final class SqlSessions(context: SparkContext, users: SessionUsers) {
  import SqlSessions._

  @volatile private var connect = false
  // By SQL execution, the user that a server reports, unless the session's settings may have set it.
  private val evidence = mutable.LinkedHashMap.empty[Long, Evidence]

  /** Of a Spark job with these local properties. Called in the thread of Spark's DAG scheduler. */
  def originOf(properties: Properties): Origin = {
    val property = (key: String) => Option(properties.getProperty(key))
    val tags = property(MarkSources.Tags).toList.flatMap(MarkSources.tagsOf).toSet
    val alive = SeenSessions.alive.filter(s => s.sparkContext eq context).toList

    // 1. What no session can have SET: other sessions' tags, and an execution that is not its own.
    val setTags = alive.map(s => tagsSetIn(s)).filter(set => set.nonEmpty && set.subsetOf(tags)).flatten.toSet
    val named = MarkSources.sessionsOf(tags -- setTags)
    def ownerIn(key: String): Option[Session] = property(key).flatMap { claimed =>
      sessionOf(claimed).filter { s =>
        if (named.isEmpty) !alive.exists(settingOf(_, key).contains(claimed)) else named.contains(s.sessionUUID)
      }
    }
    val executions = Seq(MarkSources.SqlExecutionId, MarkSources.SqlRootId).map(key => key -> ownerIn(key))
    val owner = executions.head._2
    val ofOthers = named.flatMap(users.of).size > 1
    val session = if (ofOthers) None else owner.orElse(Some(named).filter(_.size == 1).flatMap(n => SeenSessions.get(n.head)))

    // 2. The sessions whose settings the properties may contain.
    val possible =
      if (session.isDefined) (session ++ executions.flatMap(_._2) ++ named.flatMap(SeenSessions.get)).toList.distinct
      else alive.filter(s => settingsOf(s).nonEmpty && mayHaveSet(s, property))
    val certain = session.orElse(Some(possible).filter(_.size == 1 && !ofOthers).map(_.head))
    val unowned = executions.collect { case (key, None) => key -> property(key).toSet }
    val settings =
      (possible.flatMap(settingsOf(_)) ++ unowned :+ (MarkSources.Tags -> setTags)).groupMapReduce(_._1)(_._2)(_ ++ _)
    val origin = Origin(certain.map(_.sessionUUID), settings, inherited = inherited(property), statement = statement(executions.map(_._1), property))

    // 3. The user.
    val user = certain.map(_.sessionUUID).flatMap { id =>
      val sources = new MarkSources(property, origin)
      def said = sources.connectUser.orElse(sources.group.flatMap(users.ofGroup))
      users.of(id).orElse(connectUser(id).orElse(said).map(users.learned(id, _)))
    }
    origin.copy(user = user)
  }

  /** What the running execution does: the SQL that it was written in, or the kind of its plan's root. */
  private def statement(keys: Seq[String], property: String => Option[String]): Option[String] = keys.reverseIterator
    .flatMap(property(_)).flatMap(_.toLongOption).flatMap(id => Option(SQLExecution.getQueryExecution(id))).map { execution =>
      val plan = execution.logical
      val text = plan.collectFirst { case p if p.origin.sqlText.isDefined => p.origin.sqlText.get }
      // As in Spark's own pages, secrets in it are hidden.
      Utils.redact(execution.sparkSession.sessionState.conf.stringRedactionPattern, text.getOrElse(s"DataFrame query: ${plan.nodeName}"))
    }.nextOption()

  private def inherited(property: String => Option[String]): Option[Map[String, String]] =
    for (query <- property(JobMark.StreamingQuery); batch <- property(JobMark.StreamingBatch);
         marks <- SeenSessions.marksAtBegin(query, batch)) yield marks

  /** Whether all settings of the session are in the properties: Spark copies all of them or none. */
  private def mayHaveSet(session: Session, property: String => Option[String]): Boolean =
    session.sessionState.conf.getAllConfs.forall { case (key, value) =>
      !key.startsWith("spark") || ChangedLater(key) || property(key).contains(value)
    }

  private def sessionOf(execution: String): Option[Session] =
    execution.toLongOption.flatMap(id => Option(SQLExecution.getQueryExecution(id))).map(_.sparkSession)

  // ---- evidence of users -------------------------------------------------------------------------------------

  def connectSeen(): Unit = connect = true

  private def connectUser(session: String): Option[String] = if (connect) SqlSessions.connectUser(session) else None

  /** The event says what its execution's local properties were, and what its session had SET at that moment. */
  def executionStarted(event: SparkListenerEvent): Unit = {
    val start = event.asInstanceOf[SparkListenerSQLExecutionStart]
    def unset[A](key: String, value: A, none: A): A = if (start.modifiedConfigs.contains(key)) none else value
    val tags = unset(MarkSources.Tags, start.jobTags, Set.empty[String])
    val found = Evidence(unset(MarkSources.GroupId, SqlLine.groupOf(start), None), tags)
    synchronized {
      evidence(start.executionId) = found
      if (evidence.size > MostExecutions) evidence -= evidence.head._1
    }
  }

  /** @return what is over; None where the event came from elsewhere */
  def executionEnded(event: SparkListenerEvent): Option[StatementEnd] = {
    val end = event.asInstanceOf[SparkListenerSQLExecutionEnd]
    val found = synchronized(evidence.remove(end.executionId))
    Option(end.qe).map { execution =>
      val session = execution.sparkSession
      val id = session.sessionUUID
      if (users.of(id).isEmpty) {
        def said = found.flatMap(e => MarkSources.connectUserOf(e.tags).orElse(e.group.flatMap(users.ofGroup)))
        connectUser(id).orElse(said).foreach(users.learned(id, _))
      }
      val blocks = for (e <- found.toList; user <- users.of(id).toList; block <- MarkSources.endedBlocks(e.tags))
        yield s"${user.length}-$user-$block"
      StatementEnd(id, settingOf(session, _), blocks)
    }
  }

  // ---- the front door ----------------------------------------------------------------------------------------

  /** `SET` refuses static settings, with an error to whoever tries. Nobody but Spark has a use for these. */
  def protectSettings(): Unit = {
    // First what keeps sessions apart: on another build of Spark the rest may fail.
    protectIds()
    SetStatements.declare(context)
  }

  private def protectIds(): Unit = Seq(MarkSources.SqlExecutionId, MarkSources.SqlRootId).foreach { key =>
    if (!SQLConf.containsConfigKey(key))
      SQLConf.buildStaticConf(key).internal().doc("Spark's own, of a Spark job.").version("").stringConf.createOptional
  }
}

private[spark] object SqlSessions {
  private final case class Evidence(group: Option[String], tags: Set[String])

  private val MostExecutions = 10000

  /** Local properties that Spark changes after it has copied a session's settings. */
  private val ChangedLater: Set[String] = MarkSources.IdentityKeys.toSet ++
    Set(SparkContext.SPARK_JOB_DESCRIPTION, SparkContext.SPARK_JOB_INTERRUPT_ON_CANCEL, SparkContext.SPARK_SCHEDULER_POOL)

  private def call(on: AnyRef, method: String): AnyRef = {
    val found = on.getClass.getDeclaredMethod(method)
    found.setAccessible(true)
    found.invoke(on)
  }

  /** The user of a session of the Spark Connect server, from its own records. Spark Connect may not be on the class path. */
  private[sparksched] def connectUser(session: String): Option[String] =
    try {
      val service = Class.forName("org.apache.spark.sql.connect.service.SparkConnectService$").getField("MODULE$").get(null)
      val manager = call(service, "sessionManager")
      call(manager, "sessionStore").asInstanceOf[java.util.Map[AnyRef, AnyRef]].values.asScala
        .find(holder => call(holder, "session").asInstanceOf[Session].sessionUUID == session)
        .map(call(_, "userId").toString).filter(_.nonEmpty)
    } catch { case _: LinkageError | _: ReflectiveOperationException | NonFatal(_) => None }

  /** What a session has SET, unless the application's own configuration says the same. */
  private def settingOf(session: Session, key: String): Option[String] =
    Option(session.sessionState.conf.getConfString(key, null))
      .filterNot(value => session.sparkContext.conf.getOption(key).contains(value))

  private def tagsSetIn(session: Session): Set[String] =
    settingOf(session, MarkSources.Tags).toList.flatMap(MarkSources.tagsOf).toSet

  private def settingsOf(session: Session): Map[String, Set[String]] = originIn(session).settings

  /** Of what happens in this session. */
  def originIn(session: Session): Origin =
    Origin.of(session.sessionUUID, MarkSources.Keys.flatMap(key => settingOf(session, key).map(key -> _)).toMap)
}
