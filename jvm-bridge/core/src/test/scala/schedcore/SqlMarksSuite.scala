package schedcore

import org.scalatest.funsuite.AnyFunSuite

final class SqlMarksSuite extends AnyFunSuite {

  test("a mark ends when its session has none or another one") {
    val marks = new SqlMarks
    assert(marks.seen("s", None) === None)
    assert(marks.seen("s", Some("a")) === None)
    assert(marks.seen("s", Some("a")) === None)
    assert(marks.seen("s", Some("b")) === Some("a"))
    assert(marks.seen("s", None) === Some("b"))
    assert(marks.seen("s", None) === None)
  }

  test("a mark that two sessions have ends with the second") {
    val marks = new SqlMarks
    Seq("s", "t").foreach(marks.seen(_, Some("a")))
    assert(marks.seen("s", None) === None)
    assert(marks.seen("t", None) === Some("a"))
  }

  test("sessions that say no more are forgotten") {
    val marks = new SqlMarks
    (0 to SqlMarks.MostSessions).foreach(i => marks.seen(s"s$i", Some(s"m$i")))
    assert(marks.seen("s0", None) === None)
    assert(marks.seen("s1", None) === Some("m1"))
  }
}
