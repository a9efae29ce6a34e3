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
  def refusal(key: String, value: String, configured: Option[String], limits: Limits, nowMs: Long): Option[String] = {
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
      else wrong(field, text, nowMs).map(wanted => s"$key is '${shown(text)}'$wanted")
    }
  }

  private def wrong(field: String, text: String, nowMs: Long): Option[String] = field match {
    case "deadline" => DeadlineText.parse(text, nowMs) match {
      case None => Some(s" but must be ${DeadlineText.Wanted}")
      case Some(at) if at <= nowMs => Some(", which is past: it must be a moment in the future")
      case Some(at) if !MarkBounds.isNear(at, nowMs) => Some(s", which is more than ${MarkBounds.MostYears} years ahead: it must be nearer")
      case _ => None
    }
    case _ => JobMark.wanted(field, text).map(wanted => s" but must be $wanted")
  }

  /** The mark that is meant by an unknown setting, or else where settings are listed. */
  def hint(key: String): String = {
    val known = JobMark.Fields.map(JobMark.Prefix + _) ++ Settings.All.map(_.name)
    val near = known.minBy(Words.distance(_, PlainText.short(key)))
    if (Words.distance(near, PlainText.short(key)) <= math.max(2, near.length / 6)) s"did you mean $near?" else "see docs/reference/configuration.md"
  }

  private def shown(text: String): String = PlainText.shown(text)
}
