package schedcore
package plan

import org.scalatest.EitherValues
import org.scalatest.funsuite.AnyFunSuite

final class StartGateSuite extends AnyFunSuite with EitherValues {

  private val plan = Plan.parse(Protocol.text("examples/plan.starts.json")).value
  private val made = 1789000010000L

  private def gate(p: Plan = plan): StartGate = {
    val g = new StartGate(patienceMs = 400)
    g.put(Some(p))
    g
  }

  test("without a plan, or with one that plans no starts, everybody may start") {
    val g = new StartGate(patienceMs = 400)
    assert(!g.active && g.of("anybody", 0) === Start.Now)
    g.put(Some(Plan.parse(Protocol.text("examples/plan.json")).value))
    assert(!g.active && g.of("mark-7f3a", 0) === Start.Now && g.of("unknown", 0) === Start.Now)
    assert(g.nextStartMs(0) === None)
  }

  test("each entry of the example says what its job may do") {
    val g = gate()
    assert(g.active)
    assert(g.of("mark-run", made) === Start.Now)
    assert(g.of("mark-now", made) === Start.Now)
    assert(g.of("mark-later", made) === Start.Planned)
    assert(g.of("spark-7", made) === Start.Spare)
    assert(g.of("spark-5", made) === Start.Evicted)
    assert(g.of("spark-99", made) === Start.Unplanned, "a new job waits for the next plan")
  }

  test("a planned start comes by itself, and the gate says when") {
    val g = gate()
    assert(g.nextStartMs(made) === Some(made + 5000))
    assert(g.of("mark-later", made + 4999) === Start.Planned)
    assert(g.of("mark-later", made + 5000) === Start.Now)
    assert(g.nextStartMs(made + 5000) === None)
  }

  test("a share of two partitions is one number, and counts launches that the plan's snapshot did not know") {
    val g = gate(plan.copy(snapshot = 0))
    assert(plan.jobs("mark-now").share === Some(6))
    (1 to 6).foreach { n =>
      assert(g.of("mark-now", made) === Start.Now)
      g.launched("mark-now", 40L + n)
    }
    assert(g.of("mark-now", made) === Start.Spare)
    // A plan from a snapshot that had two of the launches leaves four of them on its own account.
    g.put(Some(plan.copy(snapshot = 42)))
    (1 to 2).foreach { n =>
      assert(g.of("mark-now", made) === Start.Now)
      g.launched("mark-now", 46L + n)
    }
    assert(g.of("mark-now", made) === Start.Spare)
    g.put(Some(plan.copy(snapshot = 48)))
    assert(g.of("mark-now", made) === Start.Now)
  }

  test("when the plan is over nobody waits any more, new jobs neither") {
    val g = gate()
    g.put(None)
    Seq("mark-later", "spark-7", "spark-5", "spark-99").foreach(job => assert(g.of(job, made) === Start.Now, job))
    assert(g.nextStartMs(made) === None)
  }

  test("a job that no plan knows waits for a while at most, however many plans come, and then the gate says so") {
    val g = gate()
    assert(g.of("spark-99", made) === Start.Unplanned)
    assert(g.nextStartMs(made) === Some(made + 400))
    g.put(Some(plan.copy(number = 2)))
    assert(g.of("spark-99", made + 399) === Start.Unplanned)
    assert(g.of("spark-99", made + 400) === Start.Now)
    // A plan that knows it is obeyed; one that has forgotten it keeps it waiting for as long again at most.
    g.put(Some(plan.copy(number = 3, jobs = plan.jobs + ("spark-99" -> plan.jobs("mark-later")))))
    assert(g.of("spark-99", made + 500) === Start.Planned)
    g.put(Some(plan.copy(number = 4)))
    assert(g.of("spark-99", made + 600) === Start.Unplanned)
    assert(g.of("spark-99", made + 1000) === Start.Now)
    g.jobEnded("spark-99")
    assert(g.remembered === 0)
  }
}
