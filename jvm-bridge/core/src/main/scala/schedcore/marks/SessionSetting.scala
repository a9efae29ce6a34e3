package schedcore
package marks

import schedcore.settings.{Limits, Settings, Words}

/** Whether a SQL session may give a setting of this project a value: who sets it hears of it at once if it would not count. */
object SessionSetting {
  private val AtStart = "no session can change it, so set it when the application starts"

  /**
   * Why not, in a sentence; None: it may.
   *
   * @param value blank: the mark is as if it were not set
   * @param configured what the application's configuration says
   */
  def refusal(key: String, value: String, configured: Option[String], limits: Limits, nowMs: Long): Option[String] =
    lastingRefusal(key, value, configured, limits).orElse(Option.when(key == Deadline && !configured.contains(value))(value.trim).flatMap { text =>
      DeadlineText.parse(text, nowMs).flatMap(wrongMoment(_, nowMs)).map(wrong => s"$key is '${shown(text)}', $wrong")
    })

  /** The same, without what depends on the time: a value that is not refused never will be. */
  def lastingRefusal(key: String, value: String, configured: Option[String], limits: Limits): Option[String] = {
    val text = value.trim
    if (!key.startsWith(Settings.Prefix) || configured.contains(value)) None
    else if (!key.startsWith(JobMark.Prefix)) {
      if (Settings.isKnown(key)) Some(s"$key is a setting of the application: $AtStart")
      else Some(s"unknown setting ${shown(key)}: ${hint(key)}")
    } else {
      val field = key.stripPrefix(JobMark.Prefix)
      if (!JobMark.Fields.contains(field)) Some(s"unknown mark ${shown(key)}: ${MarkSources.hint(JobMark.Prefix, PlainText.short(field))}")
      else if (text.isEmpty) None
      else if (!limits.marks.contains(field)) Some(s"$key is '${shown(text)}' but ${Settings.Marks.name} leaves it out, so that it would not count")
      else wanted(field, text).map(wanted => s"$key is '${shown(text)}' but must be $wanted")
    }
  }

  private val Deadline = JobMark.Prefix + "deadline"

  private def wanted(field: String, text: String): Option[String] =
    // Whether a deadline can be read does not depend on the time from which a length of time counts.
    if (field == "deadline") Option.when(DeadlineText.parse(text, nowMs = 0).isEmpty)(DeadlineText.Wanted)
    else JobMark.wanted(field, text)

  private def wrongMoment(at: Long, nowMs: Long): Option[String] =
    if (at <= nowMs) Some("which is past: it must be a moment in the future")
    else Option.when(!MarkBounds.isNear(at, nowMs))(s"which is more than ${MarkBounds.MostYears} years ahead: it must be nearer")

  /** The mark that is meant by an unknown setting, or else where settings are listed. */
  def hint(key: String): String = {
    val known = JobMark.Fields.map(JobMark.Prefix + _) ++ Settings.All.map(_.name)
    val near = known.minBy(Words.distance(_, PlainText.short(key)))
    if (Words.distance(near, PlainText.short(key)) <= math.max(2, near.length / 6)) s"did you mean $near?" else "see docs/reference/configuration.md"
  }

  private def shown(text: String): String = PlainText.shown(text)
}
