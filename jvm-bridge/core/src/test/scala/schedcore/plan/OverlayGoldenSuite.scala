package schedcore
package plan

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode
import org.scalatest.funsuite.AnyFunSuite
import schedcore.ledger.LedgerSteps
import schedcore.settings.Settings
import scala.jdk.CollectionConverters._

/** Golden cases: this overlay and the simulator's (tests/contract/test_overlay_golden.py) must give jobs the same rules. */
final class OverlayGoldenSuite extends AnyFunSuite {
  private val byHand = Protocol.json("golden/rules/overlay.json")

  for (c <- byHand.required("cases").elements().asScala) test(c.required("title").asText) {
    check(c, over(byHand.required("base_rule"), c.required("expect")), over(byHand.required("base_idle"), c.path("expect_idle")))
  }

  test("jobs have the rules that were generated") {
    val cases = Protocol.read(Protocol.dir.resolve("golden/rules/random.json.gz")).required("cases").elements().asScala.toSeq
    assert(cases.size >= 2000)
    cases.foreach(c => check(c, c.required("expect"), c.required("expect_idle")))
  }

  private def check(c: JsonNode, rule: JsonNode, idle: JsonNode): Unit = {
    val settings = Settings.from(c.required("settings").properties().asScala.map(s => s.getKey -> s.getValue.asText).toMap)
    val marks = c.required("marks")
    val own = Overlay.own(
      settings, marks.required("priority").asInt, Option(marks.required("isolation")).filterNot(_.isNull).map(_.asDouble),
      marks.required("copies").asBoolean, LedgerSteps.pool(c.path("pool")))
    val inForce = Overlay.inForce(
      settings, own, plan(c.required("plan")), c.path("changed").asBoolean(false), c.path("may_hold").asBoolean(true))
    assert(inForce === LedgerSteps.rule(rule), c)
    assert(settings.idle === LedgerSteps.limitsOf(idle), c)
  }

  /** What a plan with this entry says of its job. */
  private def plan(entry: JsonNode): Option[JobPlan] = if (entry.isNull) None else {
    val json = s"""{"schema":1,"plan":1,"snapshot":0,"made_at_ms":0,"valid_for_ms":1,"jobs":[$entry]}"""
    Plan.parse(json).fold(r => throw new AssertionError(r.sentence), _.jobs.get(entry.required("job").asText))
  }

  private def over(base: JsonNode, differences: JsonNode): JsonNode = {
    val all = base.deepCopy[ObjectNode]()
    differences.properties().asScala.foreach(d => all.set[JsonNode](d.getKey, d.getValue))
    all
  }
}
