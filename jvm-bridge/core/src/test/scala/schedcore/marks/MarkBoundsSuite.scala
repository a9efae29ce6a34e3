package schedcore
package marks

import org.scalatest.funsuite.AnyFunSuite

/** What marks may say at most. */
final class MarkBoundsSuite extends AnyFunSuite {
  private val long = "n" * 2000000
  private def mark(properties: (String, String)*): JobMark = JobMark.from(properties.toMap.get, 7, names = properties.map(_._1))
  private def texts(m: JobMark): Seq[String] = Seq(m.key, m.name) ++ m.user ++ m.jobClass ++ m.series ++ m.warnings.map(_.sentence)

  test("long marks are shortened with a warning, and two that begin alike stay two jobs") {
    val fields = Seq("id", "name", "user", "class").map(field => s"spark.sched.job.$field" -> long)
    val one = mark(fields: _*)
    assert(texts(one).forall(_.length < 1000), texts(one).map(_.length))
    assert(Seq(one.name, one.user.get, one.jobClass.get).forall(_ == PlainText.bounded(long)))
    assert(one.warnings.map(_.limited) === Seq.fill(4)(true))
    assert(one.warnings.exists(_.sentence.startsWith("spark.sched.job.name has 2000000 characters but at most 256 count: it is 'nnn")))
    val other = mark("spark.sched.job.name" -> (long + "x"))
    assert(other.key !== mark("spark.sched.job.name" -> long).key)
    assert(mark("spark.sched.job.name" -> "n" * 256).warnings.isEmpty)
  }

  test("every other door is as narrow: tags, groups, queries, streams, users, unreadable marks") {
    Seq(
      mark("spark.job.tags" -> s"sched:name=$long"), mark("spark.jobGroup.id" -> long), mark("spark.sql.execution.id" -> long),
      mark("sql.streaming.queryId" -> long, "streaming.sql.batchId" -> long, "spark.job.description" -> s"$long<br/>id = 1"),
      mark("spark.job.tags" -> s"SparkConnect_OperationTag_User_${long}_Session_${"0" * 36}_Operation_${"0" * 36}"),
      mark("spark.sched.job.priority" -> long), mark("spark.sched.job.deadline" -> long), mark(s"spark.sched.job.$long" -> "1"),
      mark((1 to 1000).map(i => s"spark.sched.job.x$i" -> "1"): _*))
      .foreach { m =>
        assert(texts(m).forall(_.length < 1500), texts(m).map(t => t.take(40) -> t.length))
        assert(m.warnings.size <= 10)
      }
  }

  test("a deadline further ahead than ten years, and a priority out of range, do not count, and why is said") {
    val far = mark("spark.sched.job.deadline" -> "17957400000000")
    assert(far.deadlineMs.isEmpty && far.warnings.head.sentence.contains("is '17957400000000' but must be") &&
      far.warnings.head.sentence.endsWith("at most 10 years ahead"))
    assert(mark("spark.sched.job.deadline" -> "3600d").deadlineMs.isDefined)
    val high = mark("spark.sched.job.priority" -> "99999999999")
    assert(high.priority === 0 && high.warnings.head.sentence.endsWith("must be a whole number from -2147483648 to 2147483647"))
  }
}
