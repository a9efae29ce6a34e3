package schedcore
package operators

import org.scalatest.funsuite.AnyFunSuite
import schedcore.marks.JobMark

/** Which jobs a word means. */
final class CalledJobsSuite extends AnyFunSuite {
  private def mark(properties: (String, String)*): JobMark = JobMark.from(properties.toMap.get, 1)
  private val connect = s"SparkConnect_OperationTag_User_ada_Session_${"0" * 36}_Operation_${"0" * 36}"
  private val victim = mark("spark.sched.job.name" -> "victim")
  private val byId = mark("spark.sched.job.id" -> "7f3a", "spark.sched.job.name" -> "report")
  private val ofAda = mark("spark.job.tags" -> s"$connect,${connect}_sched:id=c0ffee")
  private val hostile = Seq(victim.key, byId.key, "7f3a", "c0ffee", ofAda.key).map(name => mark("spark.sched.job.name" -> name))
  private val twins = Seq("a", "b").map(id => mark("spark.sched.job.id" -> id, "spark.sched.job.name" -> "twin"))
  private val all = hostile ++ twins ++ Seq(victim, byId, ofAda)
  private def called(word: String): Seq[JobMark] = CalledJobs.of(all, word)(identity)

  test("a key means its job, whatever others are named") {
    assert(called("mark-name-victim") === Seq(victim))
    assert(called("mark-7f3a") === Seq(byId))
    assert(called(ofAda.key) === Seq(ofAda))
    assert(called("mark-name-mark-name-victim") === Seq(hostile.head))
  }

  test("an id comes before names, and a name means all jobs of that name") {
    assert(called("7f3a") === Seq(byId))
    assert(called("c0ffee") === Seq(ofAda))
    assert(called("victim") === Seq(victim))
    assert(called("twin") === twins)
    assert(called("nobody") === Nil)
  }

  test("a job is found by a name that was too long for it") {
    val long = mark("spark.sched.job.name" -> "n" * 1000)
    assert(CalledJobs.of(Seq(victim, long), "n" * 1000)(identity) === Seq(long))
  }
}
