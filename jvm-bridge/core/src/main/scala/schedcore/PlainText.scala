package schedcore

import java.nio.charset.StandardCharsets.UTF_8
import java.security.MessageDigest

/**
 * Texts of strangers, such as names of jobs, as people may see them in a terminal, a log or a page. `spark_sched/plain_text.py`
 * does the same; `protocol/golden/text` binds the two.
 */
object PlainText {
  /** Most characters (UTF-16 units) of an id, a name, a user, a class or a reason. */
  val Most = 256

  private val Unshown = '\uFFFD'
  private val Shortened = "…"
  /** Hexadecimal digits of a long text's hash: two texts that begin alike stay different. */
  private val HashDigits = 16

  /**
   * The text without characters that control a terminal, end a line, change the direction of other text or are invisible.
   *
   * Blank ones become a space and the others U+FFFD. The joiners U+200C and U+200D stay, since words of some languages need them.
   */
  def of(text: String): String =
    if (text.forall(c => c >= ' ' && c < 0x7f)) text
    else {
      val out = new java.lang.StringBuilder(text.length)
      text.codePoints().forEach { c =>
        if (isBlank(c)) out.append(' ') else if (isHidden(c)) out.append(Unshown) else out.appendCodePoint(c)
      }
      out.toString
    }

  private def isBlank(c: Int): Boolean = (c >= 0x09 && c <= 0x0d) || c == 0x85 || c == 0x2028 || c == 0x2029

  // Ranges, not Unicode's categories: these differ between versions of Java and Python.
  private def isHidden(c: Int): Boolean =
    c < 0x20 || (c >= 0x7f && c <= 0x9f) || c == 0xad || c == 0x61c || c == 0x180e || c == 0x200b || c == 0x200e || c == 0x200f ||
      (c >= 0x202a && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || (c >= 0xd800 && c <= 0xdfff) || c == 0xfeff ||
      (c >= 0xfdd0 && c <= 0xfdef) || (c >= 0xfff9 && c <= 0xfffb) || (c & 0xfffe) == 0xfffe ||
      (c >= 0x1bca0 && c <= 0x1bca3) || (c >= 0x1d173 && c <= 0x1d17a) || (c >= 0xe0000 && c <= 0xe007f)

  /** The text, or where it is too long its beginning and a hash of all of it. */
  def bounded(text: String, most: Int = Most): String =
    if (text.length <= most) text
    else beginning(text, most - HashDigits - Shortened.length) + Shortened + hash(text)

  /** The text, or where it is too long its beginning: for texts that identify nothing. */
  def short(text: String, most: Int = Most): String =
    if (text.length <= most) text else beginning(text, most - Shortened.length) + Shortened

  /** [[short]] and [[of]]. */
  def shown(text: String, most: Int = Most): String = of(short(text, most))

  /** Does not cut a character of two units in half. */
  private def beginning(text: String, length: Int): String =
    text.substring(0, if (Character.isHighSurrogate(text.charAt(length - 1))) length - 1 else length)

  private def hash(text: String): String =
    MessageDigest.getInstance("SHA-256").digest(text.getBytes(UTF_8)).take(HashDigits / 2).map(b => f"$b%02x").mkString
}
