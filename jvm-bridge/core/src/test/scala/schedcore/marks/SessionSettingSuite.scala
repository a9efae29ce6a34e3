package schedcore
package marks

import org.scalatest.funsuite.AnyFunSuite
import schedcore.settings.Limits

/** What a SQL session may set, and what it hears otherwise. */
final class SessionSettingSuite extends AnyFunSuite {
  private val Now = 1790000000000L
  private def refused(key: String, value: String, configured: Option[String] = None, limits: Limits = Limits()): Option[String] =
    SessionSetting.refusal(key, value, configured, limits, Now)
  private def mark(field: String, value: String): Option[String] = refused(JobMark.Prefix + field, value)

  test("a mark that can be read is taken") {
    Seq("priority" -> "10", "priority" -> " -3 ", "isolation" -> "0.5", "deadline" -> "15 minutes", "deadline" -> "1h30m",
      "deadline" -> (Now + 60000).toString, "copies" -> "never", "name" -> "high", "user" -> "ada", "deadline" -> "", "priority" -> " ").foreach {
      case (field, value) => assert(mark(field, value) === None, s"$field=$value")
    }
    assert(refused("spark.sql.shuffle.partitions", "x") === None)
  }

  test("a mark that cannot be read is refused with what it must be") {
    assert(mark("priority", "high") === Some("spark.sched.job.priority is 'high' but must be a whole number from -2147483648 to 2147483647"))
    assert(mark("isolation", "2") === Some("spark.sched.job.isolation is '2' but must be a number from 0 to 1"))
    assert(mark("copies", "no") === Some("spark.sched.job.copies is 'no' but must be auto or never"))
    assert(mark("deadline", "soon").exists(_.startsWith("spark.sched.job.deadline is 'soon' but must be a time from now")))
    assert(mark("deadline", "2001-01-01T00:00") ===
      Some("spark.sched.job.deadline is '2001-01-01T00:00', which is past: it must be a moment in the future"))
    assert(mark("deadline", "1790000000").exists(_.contains("which is past")), "seconds since 1970")
    assert(mark("deadline", "1790000000000000").exists(_.contains("more than 10 years ahead")))
  }

  test("what depends on the time is refused once alone, and what can be read lasts") {
    def lasting(field: String, value: String): Option[String] = SessionSetting.lastingRefusal(JobMark.Prefix + field, value, None, Limits())
    Seq("2001-01-01T00:00", "1790000000", "1790000000000000", "15 minutes", " ").foreach(value => assert(lasting("deadline", value) === None, value))
    assert(lasting("deadline", "soon") === mark("deadline", "soon"))
    assert(lasting("priority", "high") === mark("priority", "high"))
    assert(refused("spark.sched.job.deadline", "2001-01-01T00:00", configured = Some("2001-01-01T00:00")) === None, "as it is")
  }

  test("unknown marks and settings are refused with the nearest one") {
    assert(refused("spark.sched.jobs.priority", "1") === Some("unknown setting spark.sched.jobs.priority: did you mean spark.sched.job.priority?"))
    assert(mark("priorty", "1") === Some("unknown mark spark.sched.job.priorty: did you mean spark.sched.job.priority?"))
    assert(refused("spark.sched.nonsense.whatever", "1") === Some("unknown setting spark.sched.nonsense.whatever: see docs/reference/configuration.md"))
  }

  test("settings of the application, and marks that its limits leave out, are for no session") {
    assert(refused("spark.sched.planner.policy", "fifo") ===
      Some("spark.sched.planner.policy is a setting of the application: no session can change it, so set it when the application starts"))
    assert(refused("spark.sched.policy.las.queues", "3").exists(_.contains("a setting of the application")))
    assert(refused("spark.sched.planner.policy", "fifo", configured = Some("fifo")) === None, "as it is")
    assert(refused("spark.sched.job.priority", "3", limits = Limits(marks = Set("name"))) ===
      Some("spark.sched.job.priority is '3' but spark.sched.limits.marks leaves it out, so that it would not count"))
  }

  test("a local property that no plan analyses is warned of in the job's own story") {
    val mark = JobMark.from(Map("spark.sched.jobs.priority" -> "9").get, 7, names = Seq("spark.sched.jobs.priority", "spark.sched.mode", "spark.x"))
    assert(mark.warnings.map(_.sentence) === Seq("unknown local property spark.sched.jobs.priority: did you mean spark.sched.job.priority?"))
  }

  test("work that nobody named is shown by its description or its SQL, never by a client's message") {
    def shown(properties: (String, String)*)(statement: Option[String]): String =
      JobMark.from(properties.toMap.get, 7, origin = Origin(statement = statement)).shown
    val description = "spark.job.description"
    assert(shown()(None) === "spark-7")
    assert(shown()(Some("SELECT *\n  FROM t")) === "SELECT * FROM t")
    assert(shown(description -> "daily load")(Some("SELECT 1")) === "daily load")
    assert(shown(description -> "Spark Connect - session_id: \"x\"")(Some("SELECT 1")) === "SELECT 1")
    assert(shown(JobMark.Prefix + "name" -> "report")(Some("SELECT 1")) === "report")
    assert(shown(description -> "x" * 500)(None).length === 120)
  }
}
