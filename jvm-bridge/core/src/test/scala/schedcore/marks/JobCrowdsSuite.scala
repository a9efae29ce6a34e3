package schedcore
package marks

import org.scalatest.funsuite.AnyFunSuite

/** How many jobs a user has at a time. */
final class JobCrowdsSuite extends AnyFunSuite {
  private def mark(name: String, user: String): JobMark =
    JobMark.from(Map("spark.sched.job.name" -> name, "spark.sched.job.user" -> user, "spark.sched.job.priority" -> "9").get, 1)

  test("what is beyond the most of a user is one job without marks, until one ends") {
    val crowds = new JobCrowds(2)
    val own = Seq("a", "b").map(mark(_, "eve"))
    own.foreach(m => { assert(crowds.admitted(m) === m); crowds.began(m) })
    val rest = Seq("c", "d").map(name => crowds.admitted(mark(name, "eve")))
    assert(rest.map(_.key).distinct === Seq("rest-eve"))
    assert((rest.head.name, rest.head.user, rest.head.priority) === (("(further jobs of eve)", Some("eve"), 0)))
    // Parts of it may have forbidden that tasks run twice.
    assert(rest.head.runsOnce && !rest.head.copies && rest.head.isolation.isEmpty)
    assert(rest.head.warnings.map(_.sentence) ===
      Seq("user eve has 2 jobs at a time, as many as spark.sched.limits.jobsPerUser allows: further ones are one job without marks"))
    crowds.began(rest.head)
    assert(crowds.admitted(mark("c", "ada")).name === "c")
    crowds.ended(own.head)
    assert(crowds.admitted(mark("c", "eve")).name === "c")
  }

  test("made-up users do not help: all together have a most, too") {
    val crowds = new JobCrowds(10, most = 3)
    (1 to 3).map(i => mark("x", s"u$i")).foreach(crowds.began)
    val rest = crowds.admitted(mark("x", "u4"))
    assert((rest.key, rest.name) === (("rest-", "(further jobs)")))
  }
}
