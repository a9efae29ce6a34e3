package schedcore
package marks

import java.util.concurrent.TimeUnit

/** How long, how far ahead and how many: what a tenant's mark may say at most, so that no mark fills the driver, a page or a log. */
object MarkBounds {
  val MostYears = 10
  private val MostAheadMs: Long = TimeUnit.DAYS.toMillis(MostYears * 366L)
  /** Marks of one Spark job that nobody knows and that a warning names. */
  private val MostUnknown = 10
  private val MostOfUnknown = 64

  /** A mark's text, shortened with a warning where it is too long. */
  def text(mark: String, text: String)(warn: String => Unit): String = {
    if (text.length > PlainText.Most)
      warn(s"$mark has ${text.length} characters but at most ${PlainText.Most} count: it is '${PlainText.bounded(text)}'")
    PlainText.bounded(text)
  }

  /** A deadline that is not further ahead than anybody can mean. */
  def isNear(deadlineMs: Long, nowMs: Long): Boolean = deadlineMs - nowMs <= MostAheadMs

  /** Of the names of unknown marks, as many as warnings name, each in a bearable length. */
  def unknown(names: Iterable[String]): Iterable[String] = names.take(MostUnknown).map(PlainText.short(_, MostOfUnknown))
}
