package schedcore

import org.scalatest.funsuite.AnyFunSuite

final class JobMarkSuite extends AnyFunSuite {

  private def mark(properties: (String, String)*): JobMark = JobMark.from(properties.toMap.get, 7)

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
      "spark.sched.job.deadline" -> "15 min", "spark.job.tags" -> "sched:colour=red")
    assert(m.priority === 0)
    assert(m.isolation === None)
    assert(m.deadlineMs === None)
    assert(m.copies)
    assert(m.warnings.toSet === Set(
      "tag sched:colour is unknown",
      "spark.sched.job.priority is 'high' but must be a whole number",
      "spark.sched.job.isolation is '2' but must be a number from 0 to 1",
      "spark.sched.job.deadline is '15 min' but must be milliseconds since 1970",
      "spark.sched.job.copies is 'no' but must be auto or never"))
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

  test("a job group that is a random id means nothing to history") {
    val m = mark("spark.jobGroup.id" -> query)
    assert(m.key === s"group-$query" && m.name === m.key)
  }

  test("a statement's user is its session's, and a mark's before that") {
    val group = Map("spark.jobGroup.id" -> query)
    val users = Map(query -> "carol")
    assert(JobMark.from(group.get, 7, users.get).user === Some("carol"))
    assert(JobMark.from((group + ("spark.sched.job.user" -> "ana")).get, 7, users.get).user === Some("ana"))
    assert(JobMark.from(Map.empty[String, String].get, 7, users.get).user === None)
  }
}
