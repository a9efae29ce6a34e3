package schedcore

import org.scalatest.funsuite.AnyFunSuite

class PaceSuite extends AnyFunSuite {
  private val ms = 1000000L

  test("what takes long is done as much less often") {
    val pace = new Pace(0.001, 10000 * ms)
    assert(pace.due(0))
    pace.done(0, 6 * ms)
    pace.done(1000 * ms, 1005 * ms)
    assert(!pace.due((1000 + 4999) * ms))
    assert(pace.due((1000 + 5000) * ms))
  }

  test("one slow time changes nothing, and no pause is longer than the limit") {
    val pace = new Pace(0.001, 10000 * ms)
    pace.done(0, 300 * ms)
    assert(pace.due(1 * ms))
    pace.done(1 * ms, 301 * ms)
    assert(!pace.due(10000 * ms))
    assert(pace.due(10001 * ms))
  }
}
