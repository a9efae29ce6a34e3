package schedcore
package marks

import java.time.ZoneId
import org.scalatest.funsuite.AnyFunSuite

class DeadlineTextSuite extends AnyFunSuite {
  private def parse(text: String): Option[Long] = DeadlineText.parse(text, 1000L, ZoneId.of("Europe/Berlin"))

  test("milliseconds since 1970, lengths of time from now, and ISO times are deadlines") {
    assert(parse("1900000") === Some(1900000L))
    assert(parse("15 min") === Some(901000L))
    assert(parse(" 1h30m ") === Some(5401000L))
    assert(parse("1 H 30 MIN 5s") === Some(5406000L))
    assert(parse("15 minutes") === Some(901000L))
    assert(parse("1 hour 2 mins 3 seconds") === Some(3724000L))
    assert(parse("2 days 1hr 1sec") === Some(176402000L))
    assert(parse("250 ms") === Some(1250L))
    assert(parse("2026-01-01T00:00:00Z") === Some(1767225600000L))
    assert(parse("2026-01-01T02:00:00+02:00") === Some(1767225600000L))
    assert(parse("2026-01-01T01:00") === Some(1767225600000L))
    assert(parse("2026-01-01 01:00:00") === Some(1767225600000L))
  }

  test("a text of very many parts is read, since any tenant may write one") {
    assert(parse("1s" * 100000) === Some(100001000L))
    assert(parse("1s" * 100000 + "x") === None)
  }

  test("other texts are none") {
    Seq(
      "", "soon", "15 minutess", "1 month", "-5", "0s", "1.5h", "min", "h1", "2026-01-01", "999999999999999d", "1h 30", "1h x 2m", "x1h", "1h x",
      "1234567890123456s", "1s1234567890123456s")
      .foreach(text => assert(parse(text) === None, text))
  }
}
