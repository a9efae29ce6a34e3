package schedcore

import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

/** Texts of strangers, as people may see them. tests/contract/test_plain_text_golden.py reads the same cases. */
final class PlainTextSuite extends AnyFunSuite {
  private val document = Protocol.json("golden/text/plain.json")
  private def cases(part: String) = document.required(part).elements().asScala.toSeq

  for (c <- cases("plain")) test(s"golden: ${c.required("title").asText}") {
    assert(PlainText.of(c.required("text").asText) === c.required("plain").asText)
  }

  for (c <- cases("long")) test(s"golden: a text of a length, ${c.required("title").asText}") {
    val text = c.required("text").asText
    assert(PlainText.bounded(text) === c.required("bounded").asText)
    assert(PlainText.short(text) === c.required("short").asText)
    assert(PlainText.bounded(text).length <= PlainText.Most && PlainText.short(text).length <= PlainText.Most)
  }
}
