package org.apache.spark.sql.sparksched

import java.util.Properties

import scala.jdk.CollectionConverters._

import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite
import org.apache.spark.internal.config.ConfigEntry
import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.SQLExecution
import org.apache.spark.sql.internal.SQLConf
import schedcore.marks.{JobMark, Origin, SessionUsers}
import schedcore.settings.BadSetting

/** Whose Spark jobs are whose sessions have `SET` what others use, and what is left of that by `RESET`. */
final class SqlSessionsSuite extends AnyFunSuite with BeforeAndAfterAll {
  private lazy val spark =
    SparkSession.builder().master("spark-sched:local[1]").config("spark.ui.enabled", "false")
      .config("spark.sched.planner.enabled", "false").getOrCreate().asInstanceOf[SparkSession]
  private def context = spark.sparkContext
  override def afterAll(): Unit = spark.stop()

  private final class World {
    val users = new SessionUsers
    val sessions = new SqlSessions(context, users)
    def session(user: String, set: (String, String)*): SparkSession = {
      val s = spark.newSession().asInstanceOf[SparkSession]
      s.range(1).queryExecution.analyzed // The first plan makes it known.
      set.foreach { case (key, value) => s.sessionState.conf.setConfString(key, value) }
      users.learned(s.sessionUUID, user)
      s
    }
    def originOf(properties: Properties): Origin = sessions.originOf(properties)
    def markOf(properties: Properties): JobMark =
      JobMark.from(key => Option(properties.getProperty(key)), 7, origin = originOf(properties))
  }

  /** Runs this in a thread of its own, with local properties of its own. */
  private def apart[A](body: => A): A = {
    @volatile var result: Option[Either[Throwable, A]] = None
    val thread = new Thread(() => {
      context.setLocalProperties(new Properties())
      result = Some(scala.util.Try(body).toEither)
    })
    thread.start()
    thread.join()
    result.get.fold(throw _, identity)
  }

  private def properties: Properties = {
    val copy = new Properties()
    copy.putAll(context.getLocalProperties)
    copy
  }
  /** The local properties of a Spark job of a query of this session, and what is asked while the query runs. */
  private def query[A](s: SparkSession)(ask: Properties => A): A =
    apart(SQLExecution.withNewExecutionId(s.range(1).queryExecution)(ask(properties)))
  /** The same of what Spark runs with the session's settings outside of any query. */
  private def inference[A](s: SparkSession)(ask: Properties => A): A =
    apart(SQLExecution.withSQLConfPropagated(s)(ask(properties)))

  private val some = "01234567-89ab-cdef-0123-456789abcdef"
  private val alices = s"SparkConnect_OperationTag_User_alice_Session_${some}_Operation_$some"
  private val forged = Seq("spark.job.tags" -> alices, "spark.jobGroup.id" -> "g", "spark.sched.job.name" -> "n")

  test("a query's session is known, and what it has SET gives no identity") {
    val w = new World
    val eve = w.session("eve", forged: _*)
    val mark = query(eve)(w.markOf)
    assert((mark.key, mark.user, mark.session) === (("mark-name-3-eve-n", Some("eve"), Some(eve.sessionUUID))))
  }

  test("what Spark runs with a session's settings outside of a query is the session's") {
    val w = new World
    // A name of its own: settings that two sessions share do not tell them apart.
    val set = forged.init :+ ("spark.sched.job.name" -> "looked")
    val eve = w.session("eve", set: _*)
    val mark = inference(eve)(w.markOf)
    assert((mark.key, mark.user) === (("mark-name-3-eve-looked", Some("eve"))))
    val nobodys = inference(w.session("mallory", set: _*))(w.markOf)
    assert((nobodys.key, nobodys.user) === (("spark-7", None)))
    assert(eve.conf.get("spark.sched.job.name") === "looked") // It is alive until here.
  }

  test("two sessions with equal settings are told apart outside of a query by what the server says of the thread") {
    // Spark puts no tag of the session on what it runs outside of a query: only the operation's tag says whose it is.
    val w = new World
    val set = Seq("spark.sched.job.name" -> "equal")
    val (eve, alice) = (w.session("eve", set: _*), w.session("alice", set: _*))
    for ((session, user) <- Seq(alice -> "alice", eve -> "eve")) {
      // No session of another test has SET this one.
      val operation = alices.replace("User_alice", s"User_$user").replace(some, "fedcba98-7654-3210-fedc-ba9876543210")
      val mark = apart {
        context.addJobTag(operation)
        SQLExecution.withSQLConfPropagated(session)(w.markOf(properties))
      }
      assert((mark.key, mark.user) === ((s"mark-name-${user.length}-$user-equal", Some(user))))
    }
    val unsaid = inference(alice)(w.markOf)
    assert((unsaid.key, unsaid.user) === (("spark-7", None)))
  }

  test("what a session has SET is no evidence of its execution, its group or its broadcasts") {
    val w = new World
    val (alice, eve) = (w.session("alice"), w.session("eve"))
    val (tags, group, execution) = ("spark.job.tags", "spark.jobGroup.id", "spark.sql.execution.id")
    query(alice) { of =>
      val own = w.originOf(of).given(key => Option(of.getProperty(key)))
      assert(own(execution) === Some(of.getProperty(execution)))
      assert(own(tags).exists(_.contains(alice.sessionUUID)))
      val forged = Seq(execution -> of.getProperty(execution), group -> "g", tags -> "broadcast exchange (runId 1)")
      forged.foreach { case (key, value) => eve.sessionState.conf.setConfString(key, value) }
      query(eve) { claimed =>
        forged.foreach { case (key, value) => assert(claimed.getProperty(key).contains(value)) }
        val left = w.originOf(claimed).given(key => Option(claimed.getProperty(key)))
        assert((left(execution), left(group)) === ((None, None)))
        assert(left(tags).exists(t => t.contains(eve.sessionUUID) && !t.contains("broadcast exchange")))
        assert(left("spark.app.name") === Option(claimed.getProperty("spark.app.name")))
      }
    }
  }

  test("a query that claims another's running execution stays its session's") {
    val w = new World
    val (alice, eve) = (w.session("alice"), w.session("eve"))
    query(alice) { of =>
      val execution = of.getProperty("spark.sql.execution.id")
      Seq("spark.sql.execution.id", "spark.sql.execution.root.id").foreach(eve.sessionState.conf.setConfString(_, execution))
      assert(w.markOf(of).key === s"sql-$execution")
      assert(w.originOf(of).user === Some("alice"))
      val mark = query(eve)(w.markOf)
      assert((mark.key, mark.user) === (("spark-7", Some("eve"))))
      // Also where the settings are gone by the time that anybody looks.
      query(eve) { forgedOnes =>
        eve.sessionState.conf.unsetConf("spark.sql.execution.id")
        eve.sessionState.conf.unsetConf("spark.sql.execution.root.id")
        val late = w.markOf(forgedOnes)
        assert((late.key, late.user) === (("spark-7", Some("eve"))))
      }
    }
  }

  test("a session whose settings are reset while its query runs stays its user's") {
    val w = new World
    val eve = w.session("eve", forged: _*)
    query(eve) { of =>
      forged.foreach { case (key, _) => eve.sessionState.conf.unsetConf(key) }
      val mark = w.markOf(of)
      assert((mark.key, mark.user) === (("mark-name-3-eve-n", Some("eve"))))
    }
  }

  test("a query that names the sessions of two users is nobody's") {
    val w = new World
    val alice = w.session("alice")
    val eve = w.session("eve", "spark.job.tags" -> s"spark-session-${alice.sessionUUID}")
    query(eve) { of =>
      assert(w.originOf(of).session === Some(eve.sessionUUID))
      eve.sessionState.conf.unsetConf("spark.job.tags")
      assert((w.originOf(of).session, w.originOf(of).user) === ((None, None)))
    }
  }

  test("a thread's own properties count whatever sessions SET") {
    val w = new World
    w.session("eve", "spark.jobGroup.id" -> "g", "spark.sched.job.name" -> "n")
    val of = new Properties()
    of.putAll(Map("spark.jobGroup.id" -> "g").asJava)
    assert(w.markOf(of).key === "group-g")
    of.setProperty("spark.sched.job.name", "n")
    assert(w.markOf(of).key === "mark-name-n")
  }

  test("RESET of a mark's name or id resets the whole mark, and of another mark only that one") {
    val w = new World
    val eve = w.session("eve")
    def set(): Unit = Seq("name" -> "n", "priority" -> "5", "isolation" -> "0.5").foreach { case (mark, value) =>
      eve.sql(s"SET spark.sched.job.$mark=$value")
    }
    def left: Seq[String] = JobMark.Fields.filter(field => eve.conf.getOption(JobMark.Prefix + field).isDefined)
    set()
    eve.sql("RESET spark.sched.job.priority")
    assert(left.toSet === Set("name", "isolation"))
    for (mark <- Seq("name", "id")) {
      set()
      eve.sql(s"RESET spark.sched.job.$mark")
      assert(left === Nil)
    }
  }

  test("a session's deadline may pass, and Spark still copies the session's settings") {
    val w = new World
    w.sessions.protectSettings()
    val eve = w.session("eve")
    val (deadline, past) = ("spark.sched.job.deadline", "2001-01-01T00:00")
    assert(intercept[IllegalArgumentException](eve.sql(s"SET $deadline=$past")).getMessage.contains("which is past"))
    // As Spark finds the settings once the deadline has passed.
    eve.sessionState.conf.settings.put(deadline, past)
    assert(eve.sessionState.conf.clone().getConfString(deadline) === past)
    val clone = eve.cloneSession()
    assert(clone.conf.get(deadline) === past)
    assert(clone.range(3).cache().count() === 3)
    eve.conf.set(deadline, past)
    assert(eve.newSession().range(3).count() === 3)
    val error = intercept[IllegalArgumentException](eve.conf.set(deadline, "soon"))
    assert(error.getMessage.contains("spark.sched.job.deadline is 'soon' but must be a time from now"))
  }

  test("a setting of the application can be read, reset and set to what it is, and SET to nothing else") {
    val w = new World
    w.sessions.protectSettings()
    val eve = w.session("eve")
    val (configured, other) = ("spark.sched.planner.enabled", "spark.sched.mode")
    eve.sql(s"SET $configured=false")
    eve.conf.set(configured, "false")
    eve.sql(s"RESET $configured")
    assert(eve.conf.get(configured) === "false")
    for (key <- Seq(other, "spark.sched.policy.las.queues")) {
      assert(eve.conf.getOption(key) === None)
      assert(eve.conf.get(key, "unset") === "unset")
      assert(intercept[BadSetting](eve.sql(s"SET $key=shadow")).getMessage.contains("a setting of the application"))
      eve.conf.unset(key)
      eve.sql(s"RESET $key")
    }
    assert(intercept[BadSetting](eve.sql(s"SET $configured=true")).getMessage.contains("a setting of the application"))
    eve.conf.unset(configured)
  }

  test("a SQL execution is protected also where Spark lets nobody declare marks") {
    val w = new World
    w.sessions.protectSettings()
    val (execution, mark) = ("spark.sql.execution.id", "spark.sched.job.name")
    def forget(key: String): Unit = SQLConf.unregister(ConfigEntry.findEntry(key))
    Seq(execution, mark).foreach(forget)
    ConfigEntry.knownConfigs.remove(execution)
    // The mark's entry is still known outside of SQL, which is an error to whoever declares it again.
    intercept[IllegalArgumentException](w.sessions.protectSettings())
    assert(SQLConf.containsConfigKey(execution))
    ConfigEntry.knownConfigs.remove(mark)
    w.sessions.protectSettings()
    assert(SQLConf.containsConfigKey(mark))
  }

  test("nobody SETs a SQL execution") {
    val w = new World
    w.sessions.protectSettings()
    w.sessions.protectSettings()
    val eve = w.session("eve")
    for (key <- Seq("spark.sql.execution.id", "spark.sql.execution.root.id")) {
      assert(intercept[AnalysisException](eve.sql(s"SET $key=1")).getMessage.contains(key))
      assert(intercept[AnalysisException](eve.conf.set(key, "1")).getMessage.contains(key))
    }
  }
}
