package schedcore
package marks

import java.time.{Instant, LocalDateTime, OffsetDateTime, ZoneId}
import scala.util.Try
import scala.util.matching.Regex.Match

/** What the text of a deadline may be, wherever it comes from: SQL, a tag, a local property. */
object DeadlineText {
  val Wanted = "a time from now such as 15 min or 1h30m, an ISO time, or milliseconds since 1970, at most 10 years ahead"

  private val Part = """(\d{1,15})\s*(ms|minutes?|mins?|m|seconds?|secs?|s|hours?|hrs?|h|days?|d)\s*""".r
  /** Of a unit, by its first letter. */
  private val UnitMs = Map('s' -> 1000L, 'm' -> 60000L, 'h' -> 3600000L, 'd' -> 86400000L)

  /**
   * Milliseconds since 1970; None for a text that is none of these.
   *
   * @param nowMs from when a length of time counts
   * @param zone  of ISO times that name none
   */
  def parse(text: String, nowMs: Long, zone: => ZoneId = ZoneId.systemDefault()): Option[Long] = {
    val trimmed = text.trim
    trimmed.toLongOption.filter(_ >= 0)
      .orElse(lengthMs(trimmed.toLowerCase(java.util.Locale.ROOT)).map(Math.addExact(nowMs, _)))
      .orElse(Try(OffsetDateTime.parse(trimmed).toInstant.toEpochMilli).toOption)
      .orElse(Try(Instant.parse(trimmed).toEpochMilli).toOption)
      .orElse(Try(LocalDateTime.parse(trimmed.replace(' ', 'T')).atZone(zone).toInstant.toEpochMilli).toOption)
  }

  // 2^53: what the planner reads exactly, and far from the end of a Long.
  private def lengthMs(text: String): Option[Long] =
    partsOf(text).map(_.map(m => BigInt(m.group(1)) * unitMs(m.group(2))).sum).filter(ms => ms > 0 && ms < BigInt(1L << 53)).map(_.toLong)

  private def unitMs(unit: String): Long = if (unit == "ms") 1L else UnitMs(unit.head)

  /** All of a text that has nothing else. One pattern for many parts would take Java a stack as deep as a tenant's text is long. */
  private def partsOf(text: String): Option[Seq[Match]] = {
    val parts = Part.findAllMatchIn(text).toList
    val ends = parts.map(_.end)
    Option.when(ends.lastOption.contains(text.length) && parts.map(_.start) == 0 +: ends.init)(parts)
  }
}
