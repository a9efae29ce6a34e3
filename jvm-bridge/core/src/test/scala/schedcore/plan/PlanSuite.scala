package schedcore
package plan

import org.scalatest.EitherValues
import org.scalatest.funsuite.AnyFunSuite
import schedcore.settings.Settings

final class PlanSuite extends AnyFunSuite with EitherValues {

  private val own = Settings.from(Map.empty).defaults.copy(priority = 10)

  private def plan(reservation: String): String =
    s"""{"schema": 1, "plan": 1, "snapshot": 0, "made_at_ms": 0, "valid_for_ms": 1,
       |"jobs": [{"job": "a", "rank": 0, "priority": 3, "reservation": $reservation, "reason": ""}]}""".stripMargin

  private def entry(more: String): String = plan("{}").replace("\"rank\": 0", "\"rank\": 0, " + more)

  private def refusal(json: String): (String, String) = {
    val r = Plan.parse(json).left.value
    r.code -> r.sentence
  }

  test("the full example says for each job what it holds") {
    val parsed = Plan.parse(Protocol.text("examples/plan.json")).value
    assert(parsed.number === 5)
    assert(parsed.snapshot === 14)
    assert(parsed.expiresMs === 1789000012610L)
    assert(!parsed.ordered)
    val fg = parsed.jobs("mark-7f3a").over(own)
    assert(fg.priority === 10)
    assert(fg.isolation === 0.9)
    assert(fg.shape === 1.73)
    assert(fg.scaleMs === Some(950.0))
    assert(fg.preReserveThreshold === 0.5)
    assert(fg.stageTasks === Seq(2, 3, 3))
    assert(fg.copies)
    assert(fg.firstGapMs === Some(1400))
    assert(parsed.jobs("spark-3").over(own).isolation === 0.0)
  }

  test("a job names its victims in the order in which they go") {
    val parsed = Plan.parse(Protocol.text("examples/plan.victims.json")).value
    assert(parsed.jobs("mark-urgent").victims === Seq(19L, 17L))
    assert(parsed.jobs("group-nightly").victims === Nil)
    assert(refusal(entry("\"victims\": [1, -1]"))._1 === "bad_value")
    assert(refusal(entry("\"victims\": [1.5]"))._1 === "bad_value")
  }

  test("a plan says how slow executors are, and whose tasks take the fastest ones") {
    val parsed = Plan.parse(Protocol.text("examples/plan.powerful.json")).value
    assert(parsed.slowness === Map("0" -> 0.71, "2" -> 1.41))
    assert(parsed.jobs("mark-urgent").powerful)
    assert(!parsed.jobs("group-nightly").powerful)
    val plans = new PlanInForce(400)
    assert(!plans.differ(Seq("0", "1")))
    plans.put(Some(parsed))
    assert(plans.differ(Seq("0", "1")))
    assert(!plans.differ(Seq("1", "7")), "those that the plan does not name are average ones")
  }

  test("the minimal example leaves the job its own rule") {
    val parsed = Plan.parse(Protocol.text("examples/plan.minimal.json")).value
    assert(parsed.jobs("spark-0").over(own.copy(priority = 0)) === own.copy(priority = 0))
  }

  test("null inside a reservation means the configured default") {
    val parsed = Plan.parse(plan("""{"isolation": null, "alpha": null, "t_m_ms": null, "stage_tasks": []}""")).value
    assert(parsed.jobs("a").over(own) === own.copy(priority = 3))
  }

  test("what earlier runs say of pauses goes before the configured first gap, which stands without it") {
    val configured = own.copy(firstGapMs = Some(1000))
    def first(rule: String) = Plan.parse(plan(rule)).value.jobs("a").over(configured).firstGapMs
    assert(first("""{"gap_ms": 0}""") === Some(0))
    assert(first("""{"gap_ms": null}""") === Some(1000))
    assert(first("{}") === Some(1000))
  }

  test("a plan cannot give copies to a job that never wants any") {
    val parsed = Plan.parse(plan("""{"copies": true}""")).value
    assert(!parsed.jobs("a").over(own.copy(copies = false)).copies)
  }

  test("what is no JSON object is bad_json") {
    Seq("", "[]", "3", "{", "null").foreach(text => assert(refusal(text)._1 === "bad_json", text))
  }

  test("another schema is bad_schema") {
    assert(refusal("""{"schema": 2}""") === ("bad_schema" -> "the plan's schema is 2, not 1"))
    assert(refusal("{}")._1 === "bad_schema")
  }

  test("a bad value is refused by name") {
    Seq(
      plan("""{"isolation": 1.5}""") -> "isolation is 1.5, not a number from 0.0 to 1.0",
      plan("""{"alpha": 1.0}""") -> "alpha is 1.0, not a number from 1.01 to 100.0",
      plan("""{"t_m_ms": 0}""") -> "t_m_ms is 0",
      plan("""{"prereserve_threshold": "half"}""") -> "prereserve_threshold is \"half\"",
      plan("""{"stage_tasks": [2, 0]}""") -> "stage_tasks has 0, not a positive whole number",
      entry("\"share\": {\"0\": 0}") -> "share has 0, not a whole number from 1",
      entry("\"share\": 3") -> "share is 3, not slots by partition",
      entry("\"start_ms\": \"now\"") -> "start_ms is \"now\", not a whole number",
      entry("\"pilots\": [1]") -> "pilots is [1], not a stage and a list of tasks",
      entry("\"pilots\": {\"stage\": 0, \"tasks\": [-1]}") -> "tasks of pilots has -1, not a whole number from 0",
      entry("\"powerful\": 1") -> "powerful is 1, not true or false",
      plan("{}").replace("\"plan\": 1", "\"plan\": 1, \"slowness\": {\"0\": 0}") -> "slowness has 0, not a number above 0",
      plan("{}").replace("\"plan\": 1", "\"plan\": 1, \"slowness\": {\"0\": true}") -> "slowness has true, not a number above 0",
      plan("{}").replace("\"plan\": 1", "\"plan\": 1, \"slowness\": [2]") -> "slowness is [2], not numbers by executor",
      plan("{}").replace("\"priority\": 3", "\"priority\": 3.5") -> "priority is 3.5, not a whole number",
      plan("{}").replace("\"job\": \"a\"", "\"job\": 7") -> "job is 7, not text",
      plan("{}").replace("\"plan\": 1", "\"plan\": \"x\"") -> "plan is \"x\", not a whole number"
    ).foreach { case (json, sentence) =>
      val (code, said) = refusal(json)
      assert(code === "bad_value", json)
      assert(said.startsWith(sentence), json)
    }
  }

  test("what a plan says of ends is a start and an end, or how many jobs are before one") {
    def told(forecast: String) = Plan.parse(plan("{}").replace(""""jobs"""", s""""forecasts": {"a": $forecast}, "jobs""""))
    val about = told("""{"end_ms": [4, 5, 6], "deadline_probability": 0.5, "start_ms": [1, 2, 3]}""").value.about
    assert(about.forecasts === Map("a" -> EndForecast(4, 5, 6, Some(0.5), Some(TimeQuantiles(1, 2, 3)))))
    assert(told("""{"end_ms": [4, 5, 6]}""").value.about.forecasts("a") === EndForecast(4, 5, 6, None))
    val behind = told("""{"after_jobs": 9}""").value.about
    assert(behind.queued === Map("a" -> 9) && behind.forecasts.isEmpty)
    assert(told("""{"end_ms": [4, 5, 6], "start_ms": [1]}""").left.value.sentence === "start_ms has 1 quantiles, not 3")
    assert(told("""{"after_jobs": 0}""").isLeft)
  }
}
