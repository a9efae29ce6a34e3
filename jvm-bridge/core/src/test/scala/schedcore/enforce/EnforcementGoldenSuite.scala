package schedcore
package enforce

import org.scalatest.funsuite.AnyFunSuite
import scala.jdk.CollectionConverters._

/** Golden sequences: this enforcement and the simulator's (tests/contract/test_enforcement_golden.py) must decide alike. */
final class EnforcementGoldenSuite extends AnyFunSuite {
  private val document = Protocol.read(Protocol.dir.resolve("golden/enforcement/random.json.gz"))
  private val sequences = document.required("sequences").elements().asScala.toSeq

  test("enforcement decides as generated") {
    assert(sequences.size >= 2000)
    sequences.foreach { sequence =>
      val rounds = new EnforcementRounds(document.required("patience_ms").asLong)
      sequence.required("steps").elements().asScala.zipWithIndex.foreach { case (step, i) =>
        val told = rounds.run(step)
        val where = s"seed ${sequence.required("seed")}, step ${i + 1}: $step\n"
        assert(told === step.path("expect").elements().asScala.map(_.toString).toSeq, where)
        assert(rounds.violations === Nil, where)
      }
    }
  }
}
