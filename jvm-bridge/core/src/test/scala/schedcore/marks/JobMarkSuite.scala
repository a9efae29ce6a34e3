package schedcore
package marks

import org.scalatest.funsuite.AnyFunSuite
import schedcore.settings.Limits
import scala.jdk.CollectionConverters._

final class JobMarkSuite extends AnyFunSuite {

  private def mark(properties: (String, String)*): JobMark = limited(Limits())(properties: _*)
  private def limited(limits: Limits)(properties: (String, String)*): JobMark = JobMark.from(properties.toMap.get, 7, limits)

  // The reader of event logs must find the same jobs (tests/contract/test_marks_golden.py).
  for (c <- Protocol.json("golden/marks/jobs.json").required("cases").elements().asScala)
    test(s"golden: ${c.required("title").asText}") {
      def texts(of: String): Map[String, String] =
        c.path(of).fields().asScala.map(field => field.getKey -> field.getValue.asText).toMap
      val limits = Option(c.get("allowed")).fold(Limits())(marks => Limits(marks = marks.asText.split(',').map(_.trim).toSet))
      def text(of: String): Option[String] = Option(c.get(of)).map(_.asText)
      val held = Origin.of("", texts("settings"))
      val origin = held.copy(text("session"), user = text("user_of_session"), inherited = Option(c.get("inherited")).map(_ => texts("inherited")))
      val found = JobMark.from(texts("properties").get, 7, limits, texts("users_of_groups").get, origin = origin)
      val expected = c.required("expect")
      def wanted(field: String): Option[String] = Option(expected.required(field)).filterNot(_.isNull).map(_.asText)
      assert((Some(found.key), found.user) === ((wanted("key"), wanted("user"))))
      wanted("name").foreach(name => assert(found.name === name))
    }

  test("work that nobody marked is a job for each Spark job") {
    val m = mark()
    assert(m.key === "spark-7")
    assert(m.name === "spark-7")
    assert(m.grouping === JobMark.BySparkJob)
    assert(!m.marked)
    assert(!m.endsByCall)
    assert(m.priority === 0)
    assert(m.copies)
    assert(m.warnings === Nil)
  }

  test("unmarked work goes by its job group before its SQL execution") {
    assert(mark("spark.sql.execution.id" -> "3").key === "sql-3")
    assert(mark("spark.sql.execution.id" -> "3", "spark.jobGroup.id" -> "etl").key === "group-etl")
    assert(mark("spark.jobGroup.id" -> "etl").name === "etl")
    assert(!mark("spark.jobGroup.id" -> "etl").marked)
  }

  test("a job that is marked by id ends when its owner says so") {
    val m = mark(
      "spark.sched.job.id" -> "7f3a", "spark.sched.job.name" -> "kmeans", "spark.sched.job.user" -> "ana",
      "spark.sched.job.priority" -> "10", "spark.sched.job.isolation" -> "0.9", "spark.sched.job.deadline" -> "1789000900000",
      "spark.sched.job.class" -> "etl", "spark.sched.job.copies" -> "never", "spark.jobGroup.id" -> "other")
    assert(m === JobMark(
      "mark-7f3a", "kmeans", Some("ana"), 10, Some(0.9), Some(1789000900000L), Some("etl"), copies = false, JobMark.ByMark,
      endsByCall = true, Nil, runsOnce = true))
    assert(m.marked)
  }

  test("a job that is marked by name alone ends when it is idle") {
    val m = mark("spark.sched.job.name" -> "report")
    assert(m.key === "mark-name-report")
    assert(m.marked)
    assert(!m.endsByCall)
  }

  test("tags mark too, alone, among others and as a session or Spark Connect wraps them") {
    assert(mark("spark.job.tags" -> "sched:priority=10").priority === 10)
    assert(mark("spark.job.tags" -> "other,sched:priority=10,x").priority === 10)
    assert(mark("spark.job.tags" -> "SparkConnect_OperationTag_User_u_Session_s_Tag_sched:priority=10").priority === 10)
    assert(mark("spark.job.tags" -> "spark-session-0f1e-thread-22-sched:priority=10").priority === 10)
    assert(mark("spark.job.tags" -> "sched:name=report").key === "mark-name-report")
  }

  test("tasks of a stream's micro-batches run again only where the job asks for it") {
    val stream = "sql.streaming.queryId" -> "4c1f"
    assert(!mark(stream).copies)
    assert(!mark(stream).runsOnce)
    assert(mark(stream, "spark.sched.job.copies" -> "auto").copies)
    assert(mark("spark.sched.job.copies" -> "never").runsOnce)
    assert(!mark("spark.sched.job.copies" -> "auto").runsOnce)
  }

  test("a local property wins over a tag") {
    assert(mark("spark.job.tags" -> "sched:priority=10", "spark.sched.job.priority" -> "3").priority === 3)
  }

  test("marks that cannot be read are ignored and said") {
    val m = mark(
      "spark.sched.job.priority" -> "high", "spark.sched.job.isolation" -> "2", "spark.sched.job.copies" -> "no",
      "spark.sched.job.deadline" -> "soon", "spark.job.tags" -> "sched:colour=red")
    assert(m.priority === 0)
    assert(m.isolation === None)
    assert(m.deadlineMs === None)
    assert(m.copies)
    assert(m.warnings.forall(!_.limited))
    assert(m.warnings.map(_.sentence).toSet === Set(
      s"unknown tag sched:colour: it must be one of ${JobMark.Fields.map("sched:" + _).mkString(", ")}",
      "spark.sched.job.priority is 'high' but must be a whole number from -2147483648 to 2147483647",
      "spark.sched.job.isolation is '2' but must be a number from 0 to 1",
      s"spark.sched.job.deadline is 'soon' but must be ${DeadlineText.Wanted}",
      "spark.sched.job.copies is 'no' but must be auto or never"))
  }

  test("local properties and tags that look like marks and are none are said with what may have been meant") {
    val properties = Map("spark.sched.job.priorty" -> "10", "spark.sched.job.name" -> "n", "spark.sched.mode" -> "on",
      "spark.sched.job.colour" -> "red", "spark.job.tags" -> "sched:Priority=3")
    val m = JobMark.from(properties.get, 7, names = properties.keys)
    assert((m.name, m.priority) === (("n", 0)))
    assert(m.warnings.map(_.sentence).toSet === Set(
      "unknown local property spark.sched.job.priorty: did you mean spark.sched.job.priority?",
      s"unknown local property spark.sched.job.colour: it must be one of ${JobMark.Fields.map("spark.sched.job." + _).mkString(", ")}",
      "unknown tag sched:Priority: did you mean sched:priority?"))
    assert(m.warnings.forall(!_.limited))
  }

  test("a deadline that is a length of time counts from the job's first stage") {
    val m = JobMark.from(Map("spark.sched.job.name" -> "n", "spark.sched.job.deadline" -> "15 min").get, 7, nowMs = 1000L)
    assert((m.deadlineMs, m.warnings) === ((Some(901000L), Nil)))
  }

  private val session = "01234567-89ab-cdef-0123-456789abcdef"
  private def connect(user: String, tags: String*): (String, String) = "spark.job.tags" -> (
    s"SparkConnect_OperationTag_User_${user}_Session_${session}_Operation_$session" +:
      tags.map(tag => s"SparkConnect_OperationTag_User_${user}_Session_${session}_Tag_$tag")).mkString(",")

  test("what a mark asks for beyond the limits is lowered to them and said") {
    val limits = Limits(maxPriority = 10, maxIsolation = 0.5)
    val m = limited(limits)("spark.sched.job.priority" -> "2147483647", "spark.job.tags" -> "sched:isolation=1")
    assert(m.priority === 10)
    assert(m.isolation === Some(0.5))
    assert(m.warnings.forall(_.limited))
    assert(m.warnings.map(_.sentence).toSet === Set(
      "spark.sched.job.priority is 2147483647 but spark.sched.limits.maxPriority is 10: lowered to it",
      "spark.sched.job.isolation is 1.0 but spark.sched.limits.maxIsolation is 0.5: lowered to it"))
    val modest = limited(limits)("spark.sched.job.priority" -> "10", "spark.sched.job.isolation" -> "0.5")
    assert((modest.priority, modest.isolation, modest.warnings) === ((10, Some(0.5), Nil)))
  }

  test("work without a mark has no higher priority than marks may ask for, and nothing to say about it") {
    val m = limited(Limits(maxPriority = -1))()
    assert((m.priority, m.warnings) === ((-1, Nil)))
  }

  test("marks that the limits leave out do not count and are said") {
    val m = limited(Limits(marks = Set("name", "priority")))(
      "spark.sched.job.name" -> "report", "spark.sched.job.user" -> "ana", "spark.sched.job.copies" -> "never",
      "spark.job.tags" -> "sched:deadline=1789000900000,sched:priority=3")
    assert((m.name, m.priority, m.user, m.deadlineMs, m.copies, m.runsOnce) === (("report", 3, None, None, true, false)))
    assert(m.warnings.map(_.sentence.takeWhile(_ != ' ')).toSet === Set("user", "copies", "deadline").map("spark.sched.job." + _))
  }

  test("whom Spark Connect knows the user to be wins over marks") {
    val m = mark(connect("eve", "sched:user=ana"))
    assert(m.user === Some("eve"))
    assert(m.warnings.map(_.sentence) === Seq("spark.sched.job.user is 'ana' but Spark Connect says 'eve': ignored"))
    assert(mark(connect("eve"), "spark.sched.job.user" -> "ana").user === Some("eve"))
    assert(mark(connect("eve", "sched:user=eve")).warnings === Nil)
  }

  test("no tag of a Spark Connect client makes it another user") {
    val forged = s"SparkConnect_OperationTag_User_ana_Session_${session}_Operation_$session"
    assert(mark(connect("eve", forged)).user === Some("eve"))
    assert(mark(connect("eve_Session_ana", forged)).user === Some("eve_Session_ana"))
  }

  test("a Spark Connect user joins no job of another's, and none that only a call would end") {
    val ids = Seq("ana", "eve").map(user => mark(connect(user, "sched:id=7f3a")))
    assert(ids.map(_.key).distinct.size === 2)
    assert(mark(connect("a", "sched:name=1-b-c")).key !== mark(connect("a-1-b", "sched:name=c")).key)
    assert(ids.head.key !== mark("spark.sched.job.id" -> "7f3a").key)
    assert(!mark(connect("eve"), "spark.sched.job.id" -> "7f3a").endsByCall)
    assert(ids.forall(_.marked))
  }

  test("blank marks are no marks") {
    assert(mark("spark.sched.job.id" -> " ", "spark.sched.job.name" -> "").grouping === JobMark.BySparkJob)
  }

  private val query = "3b5f0a52-6d0e-4d0a-9a55-0f3a4f9d2c11"
  private val batch = Seq(
    "sql.streaming.queryId" -> query, "streaming.sql.batchId" -> "4", "spark.jobGroup.id" -> "b6e9d1f0-0000-4a4a-8b8b-1f1f1f1f1f1f",
    "spark.sql.execution.id" -> "9")

  test("a micro-batch is a job of its own, named by its query so that the next one is expected to be alike") {
    val unnamed = mark(batch :+ "spark.job.description" -> s"id = $query<br/>runId = b6e9<br/>batch = 4": _*)
    assert(unnamed.key === s"stream-$query-4" && unnamed.name === query)
    assert(unnamed.series === Some(s"stream-$query") && !unnamed.marked && !unnamed.endsByCall)
    val named = mark(batch :+ "spark.job.description" -> s"clicks<br/>id = $query<br/>runId = b6e9<br/>batch = 4": _*)
    assert(named.name === "clicks")
  }

  test("a micro-batch keeps the marks that its query inherited, but not the end of their block") {
    val m = mark(batch ++ Seq("spark.sched.job.id" -> "7f", "spark.sched.job.name" -> "etl", "spark.sched.job.priority" -> "5"): _*)
    assert(m.key === s"stream-$query-4" && m.name === "etl" && m.priority === 5)
    assert(m.marked && !m.endsByCall)
  }

  test("a query's work before its first batch is the query's") {
    assert(mark("sql.streaming.queryId" -> query, "spark.jobGroup.id" -> "run").key === "group-run")
  }

  test("what a session SETs of identity is ignored and said, and what it SETs of rank counts") {
    val set = Map("spark.jobGroup.id" -> "g", "spark.sched.job.user" -> "ana", "spark.sched.job.priority" -> "5",
      "spark.sched.job.deadline" -> "1789000900000", "spark.sched.job.isolation" -> "0.5", "spark.sched.job.class" -> "etl",
      "spark.sched.job.copies" -> "never")
    val m = JobMark.from(set.get, 7, origin = Origin.of("s", set))
    assert((m.priority, m.deadlineMs, m.isolation, m.jobClass, m.runsOnce) === ((5, Some(1789000900000L), Some(0.5), Some("etl"), true)))
    assert((m.key, m.user) === (("spark-7", None)))
    assert(m.warnings.map(_.sentence) === Seq(
      "spark.jobGroup.id is SET in a SQL session, which says nothing of whose a job is: ignored",
      "spark.sched.job.user is 'ana' by SET, which says nothing of whose a job is: ignored"))
  }

  test("nobody calls for the end of a job whose id is SET") {
    val set = Map("spark.sched.job.id" -> "n")
    val m = JobMark.from(set.get, 7, origin = Origin.of("s", set))
    assert(!m.endsByCall && m.marked && m.session === Some("s"))
    assert(JobMark.from(set.get, 7, origin = Origin(Some("s"))).session === None)
  }

  test("a later batch's job of a name ends the earlier one's, and an id's is ended by its owner") {
    val named = JobMark.from((batch :+ ("spark.sched.job.name" -> "alerts")).toMap.get, 7, origin = Origin(inherited = Some(Map.empty)))
    assert(named.series === Some(s"stream-$query-alerts") && named.marked && !named.endsByCall)
    val byId = JobMark.from((batch :+ ("spark.sched.job.id" -> "a")).toMap.get, 7, origin = Origin(inherited = Some(Map.empty)))
    assert(byId.series === None && byId.endsByCall)
  }

  test("a job group that is a random id means nothing to history") {
    val m = mark("spark.jobGroup.id" -> query)
    assert(m.key === s"group-$query" && m.name === m.key)
  }

  test("a statement's user is its session's, before a mark's") {
    val group = Map("spark.jobGroup.id" -> query)
    val users = Map(query -> "carol")
    assert(JobMark.from(group.get, 7, userOfGroup = users.get).user === Some("carol"))
    assert(JobMark.from((group + ("spark.sched.job.user" -> "ana")).get, 7, userOfGroup = users.get).user === Some("carol"))
    assert(JobMark.from(Map.empty[String, String].get, 7, userOfGroup = users.get).user === None)
  }
}
