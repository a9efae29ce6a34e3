package schedcore
package operators

import org.scalatest.funsuite.AnyFunSuite
import schedcore.events.Event
import schedcore.marks.JobMark
import schedcore.plan.{Plan, PlanInForce}
import schedcore.settings.Modes

/** What operators may make of a job's mark. */
final class MarkChangeSuite extends AnyFunSuite {
  private val mark = JobMark.from(Map("spark.sched.job.name" -> "report", "spark.sched.job.priority" -> "3").get, 1)
  private def read(given: (String, String)*) = MarkChange.read(given.toMap, mark, 1000L)

  test("each field is read as marks are, and may go back to what was there without it") {
    val all = read("priority" -> "-4", "deadline" -> "1min", "isolation" -> "0.5").toOption.get
    assert((all.priority, all.deadlineMs, all.isolation) === ((-4, Some(61000L), Some(0.5))))
    assert(MarkChange.described(mark, all) === "priority 3 -> -4, deadline none -> 1970-01-01T00:01:01Z, isolation default -> 0.5")
    assert(MarkChange.read(Map("deadline" -> "none", "isolation" -> "default"), all, 1000L) === Right(all.copy(deadlineMs = None, isolation = None)))
    assert(MarkChange.described(mark, mark) === "")
  }

  test("what cannot be is refused in a sentence with the field, the value and the remedy") {
    def sentence(given: (String, String)*) = read(given: _*).left.toOption.get.sentence
    assert(sentence("priority" -> "high").startsWith("priority is 'high' but must be a whole number"))
    assert(sentence("isolation" -> "2") === "isolation is '2' but must be a number from 0 to 1, or default")
    assert(sentence("deadline" -> "soon").startsWith("deadline is 'soon' but must be a time from now"))
    assert(sentence("deadline" -> "500") === "deadline is '500', which is past: it must be a moment in the future")
    assert(sentence("deadline" -> "4000d") === "deadline is '4000d', which is more than 10 years ahead: it must be nearer")
    assert(sentence("priority" -> "9" * 1000).length < 400)
    assert(sentence() === "no change was given: give at least one of priority, deadline, isolation")
  }

  test("what operators order is remembered as long as the job, and a plan from before does not undo it") {
    val orders = new Orders
    val plans = new PlanInForce(0)
    def plan(snapshot: Long) = plans.put(Some(Plan(1, snapshot, 1000L, ordered = false, Map.empty)))
    orders.changed(mark, held = true, "ada", 5)
    orders.toldAs(mark.key, 10)
    plan(9)
    assert(orders.isNewer(mark.key, plans))
    plan(10)
    assert(!orders.isNewer(mark.key, plans))
    assert(orders.isOnHold(mark.key) && orders.retold(mark, 6).size === 1)
    orders.jobEnded(mark.key)
    assert(!orders.isOnHold(mark.key) && orders.retold(mark, 7) === Nil)
    assert(orders.reserves && !new Orders(Modes.Off).reserves)
    orders.switch(Event.SchedulingChanged(8, "fair", Modes.Shadow, reservationsPaused = true, "ada"))
    assert(!orders.reserves)
  }
}
