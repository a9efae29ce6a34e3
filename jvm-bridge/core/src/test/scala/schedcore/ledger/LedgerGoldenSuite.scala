package schedcore
package ledger

import com.fasterxml.jackson.databind.JsonNode
import org.scalatest.funsuite.AnyFunSuite
import scala.jdk.CollectionConverters._

/** Golden sequences: this ledger and the simulator's (tests/contract/test_ledger_golden.py) must decide alike. */
final class LedgerGoldenSuite extends AnyFunSuite {

  private def play(document: JsonNode, sequence: JsonNode): Unit = {
    val steps = new LedgerSteps(LedgerSteps.rules(document), LedgerSteps.limits(document))
    sequence.required("steps").elements().asScala.zipWithIndex.foreach { case (step, i) =>
      val outcome = steps.run(step)
      val where = s"step ${i + 1}: $step\n "
      step.path("expect").properties().asScala.foreach { wanted =>
        val field = wanted.getKey
        if (field == "counters")
          wanted.getValue.properties().asScala.foreach { c =>
            assert(outcome.path(field).path(c.getKey) === c.getValue, s"$where counter ${c.getKey}")
          }
        else assert(outcome.path(field) === wanted.getValue, s"$where $field")
      }
      assert(steps.ledger.violations() === Nil, where)
    }
  }

  for {
    file <- Protocol.goldenByHand
    document = Protocol.read(file)
    sequence <- document.required("sequences").elements().asScala
  } test(s"${file.getFileName.toString.stripSuffix(".json")}: ${sequence.required("title").asText}") { play(document, sequence) }

  for (file <- Protocol.goldenGenerated) test(s"the ledger decides as generated in ${file.getFileName}") {
    val document = Protocol.read(file)
    val sequences = document.required("sequences").elements().asScala.toSeq
    assert(sequences.size >= 100)
    sequences.foreach { sequence => withClue(sequence.required("title").asText + ", ") { play(document, sequence) } }
  }
}
