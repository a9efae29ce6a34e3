package schedcore

import org.scalatest.funsuite.AnyFunSuite

final class SteadyClockSuite extends AnyFunSuite {
  private val Hour = 3600000L

  private final class Fixture {
    var wallMs = 1000 * Hour
    var nanos = -5L // of any origin
    val clock = new SteadyClock(() => wallMs, () => nanos)
    def pass(ms: Long): Unit = {
      wallMs += ms
      nanos += 1000000 * ms
    }
  }

  test("it is the time of day") {
    val f = new Fixture
    assert(f.clock.nowMs === f.wallMs)
    for (ms <- Seq(1L, 17L, 60000L, Hour)) {
      f.pass(ms)
      assert(f.clock.nowMs === f.wallMs)
    }
  }

  for ((set, hours) <- Seq("forward" -> 5L, "back" -> -5L)) test(s"time that passes is measured right while the machine's clock is set $set") {
    val f = new Fixture
    val startMs = f.clock.nowMs
    f.wallMs += hours * Hour
    assert(f.clock.nowMs === startMs)
    f.pass(10000)
    assert(math.abs(f.clock.nowMs - startMs - 10000) <= 1000)
    // It is never set, and is right in the end.
    (1 to 60).foreach { _ =>
      val before = f.clock.nowMs
      f.pass(Hour)
      assert(f.clock.nowMs - before >= 9 * Hour / 10 && f.clock.nowMs - before <= 11 * Hour / 10)
    }
    assert(f.clock.nowMs === f.wallMs)
  }

  test("a moment by the machine's clock is as far away by this one, whatever was set") {
    val f = new Fixture
    assert(f.clock.aheadMs === 0)
    f.wallMs += 999
    assert(f.clock.aheadMs === 0)
    f.wallMs += Hour
    val deadlineMs = f.wallMs + 60000
    assert(deadlineMs + f.clock.aheadMs - f.clock.nowMs === 60000)
    f.wallMs -= 3 * Hour
    assert(f.wallMs + 60000 + f.clock.aheadMs - f.clock.nowMs === 60000)
  }

  test("a counter that goes back is no time that passes") {
    val f = new Fixture
    val startMs = f.clock.nowMs
    f.nanos -= 1000000000L
    assert(f.clock.nowMs === startMs)
  }
}
