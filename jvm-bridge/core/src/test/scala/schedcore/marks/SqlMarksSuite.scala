package schedcore
package marks

import org.scalatest.funsuite.AnyFunSuite

final class SqlMarksSuite extends AnyFunSuite {

  test("a job that a session had ends when the session's mark is none or another one") {
    val marks = new SqlMarks
    marks.ran("s", "a")
    assert(marks.seen("s", Some("a")) === Set())
    assert(marks.seen("s", Some("b")) === Set("a"))
    marks.ran("s", "b")
    assert(marks.seen("s", None) === Set("b"))
    assert(marks.seen("s", None) === Set())
  }

  test("a mark under which nothing of the session ran ends nothing") {
    val marks = new SqlMarks
    marks.ran("t", "a")
    assert(marks.seen("s", Some("a")) === Set())
    assert(marks.seen("s", None) === Set())
    assert(marks.seen("t", None) === Set("a"))
  }

  test("a job that two sessions have ends with the second") {
    val marks = new SqlMarks
    Seq("s", "t").foreach(marks.ran(_, "a"))
    assert(marks.seen("s", None) === Set())
    assert(marks.seen("t", None) === Set("a"))
  }

  test("sessions that ran nothing for longest, and jobs beyond many of one session, are forgotten") {
    val marks = new SqlMarks
    (0 to SqlMarks.MostSessions).foreach(i => marks.ran(s"s$i", s"m$i"))
    assert(marks.seen("s0", None) === Set())
    assert(marks.seen("s1", None) === Set("m1"))
    (0 to SqlMarks.MostJobs).foreach(i => marks.ran("s", s"own$i"))
    assert(marks.seen("s", None) === Set(s"own${SqlMarks.MostJobs}"))
  }
}
