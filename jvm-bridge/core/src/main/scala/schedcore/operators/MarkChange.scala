package schedcore
package operators

import scala.util.Try

import schedcore.marks.{DeadlineText, JobMark, MarkBounds}
import schedcore.plan.Refusal

/** Changes of a job's mark that an operator asks for in text. The limits on marks are for tenants, not for operators. */
object MarkChange {
  val Fields: Seq[String] = Seq("priority", "deadline", "isolation")

  /** Takes the deadline away. */
  val NoDeadline = "none"
  /** Leaves the isolation level to the configuration again. */
  val DefaultIsolation = "default"

  /**
   * The mark as it is to be, or why it cannot be.
   *
   * @param given new values as text, by field
   * @param nowMs from when a deadline counts that is a length of time
   */
  def read(given: Map[String, String], mark: JobMark, nowMs: Long): Either[Refusal, JobMark] =
    if (given.isEmpty) Left(refusal(s"no change was given: give at least one of ${Fields.mkString(", ")}"))
    else Fields.filter(given.contains).foldLeft[Either[Refusal, JobMark]](Right(mark)) { (so, field) =>
      so.flatMap(set(_, field, given(field).trim, nowMs))
    }

  private def set(mark: JobMark, field: String, text: String, nowMs: Long): Either[Refusal, JobMark] = field match {
    case "priority" =>
      text.toIntOption.map(p => mark.copy(priority = p)).toRight(wrong(field, text, "a whole number from -2147483648 to 2147483647"))
    case "isolation" if text == DefaultIsolation => Right(mark.copy(isolation = None))
    case "isolation" =>
      text.toDoubleOption.filter(p => p >= 0.0 && p <= 1.0).map(p => mark.copy(isolation = Some(p)))
        .toRight(wrong(field, text, s"a number from 0 to 1, or $DefaultIsolation"))
    case "deadline" if text == NoDeadline => Right(mark.copy(deadlineMs = None))
    case "deadline" =>
      Try(DeadlineText.parse(text, nowMs)).toOption.flatten match {
        case None => Left(wrong(field, text, s"${DeadlineText.Wanted}, or $NoDeadline"))
        case Some(at) if at <= nowMs => Left(refusal(s"$field is '${shown(text)}', which is past: it must be a moment in the future"))
        case Some(at) if !MarkBounds.isNear(at, nowMs) =>
          Left(refusal(s"$field is '${shown(text)}', which is more than ${MarkBounds.MostYears} years ahead: it must be nearer"))
        case at => Right(mark.copy(deadlineMs = at))
      }
  }

  /** What differs, in words for people; empty where nothing does. */
  def described(before: JobMark, after: JobMark): String = {
    def of(what: String, a: Any, b: Any) = Option.when(a != b)(s"$what $a -> $b")
    def at(ms: Option[Long]) = ms.fold(NoDeadline)(java.time.Instant.ofEpochMilli(_).toString)
    def level(p: Option[Double]) = p.fold(DefaultIsolation)(_.toString)
    Seq(
      of("priority", before.priority, after.priority), of("deadline", at(before.deadlineMs), at(after.deadlineMs)),
      of("isolation", level(before.isolation), level(after.isolation))).flatten.mkString(", ")
  }

  private def wrong(field: String, text: String, wanted: String) = refusal(s"$field is '${shown(text)}' but must be $wanted")
  private def shown(text: String) = PlainText.short(text)
  private def refusal(sentence: String) = Refusal("bad_value", sentence)
}
