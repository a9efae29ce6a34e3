package org.apache.spark.scheduler.sparksched
package planner

import org.scalatest.EitherValues
import org.scalatest.funsuite.AnyFunSuite
import schedcore.plan.{Plan, QueueSlots}

final class ReceivedPlansSuite extends AnyFunSuite with EitherValues {

  private def plan(number: Int, snapshot: Long = 0, madeAt: Long = 0, ordered: Boolean = false): String =
    s"""{"schema": 1, "plan": $number, "snapshot": $snapshot, "made_at_ms": $madeAt, "valid_for_ms": 1000,
       |"ordered": $ordered, "jobs": [
       |{"job": "a", "rank": 1, "priority": 3, "reservation": null, "reason": ""},
       |{"job": "b", "rank": 0, "priority": 3, "reservation": {}, "reason": ""}]}""".stripMargin

  test("a valid plan is in force until its time is over") {
    val book = new ReceivedPlans(patienceMs = 400)
    assert(book.offer(Plan.parse(plan(1)), currentVersion = 5, nowMs = 500).isRight)
    assert(book.forJob("a").map(_.priority) === Some(3))
    assert(book.forJob("unknown") === None)
    assert(!book.expire(999))
    assert(book.expire(1000))
    assert(book.forJob("a") === None)
    assert(!book.expire(2000))
    assert(book.counters("plan_fallbacks") === 1)
  }

  test("ranks order jobs only where the plan says so, and jobs it does not know come last") {
    val book = new ReceivedPlans(patienceMs = 400)
    assert(book.rank("a") === 0)
    book.offer(Plan.parse(plan(1)), 5, 0)
    assert(book.rank("a") === book.rank("b"))
    book.offer(Plan.parse(plan(2, ordered = true)), 5, 0)
    assert(book.rank("b") < book.rank("a"))
    assert(book.rank("a") < book.rank("unknown"))
  }

  test("plans from the future, from the past and out of date are refused by code and change nothing") {
    val book = new ReceivedPlans(patienceMs = 400)
    assert(book.offer(Plan.parse(plan(2)), 5, 0).isRight)
    assert(book.offer(Plan.parse(plan(3, snapshot = 6)), 5, 0).left.value.code === "stale_snapshot")
    assert(book.offer(Plan.parse(plan(2)), 5, 0).left.value.code === "stale_snapshot")
    assert(book.offer(Plan.parse(plan(1)), 5, 0).left.value.code === "stale_snapshot")
    assert(book.offer(Plan.parse(plan(4)), 5, 1000).left.value.code === "expired")
    assert(book.offer(Plan.parse("nonsense"), 5, 0).left.value.code === "bad_json")
    assert(book.forJob("a").isDefined)
    assert(book.counters === Map(
      "plans_accepted" -> 1L, "plans_rejected" -> 5L, "plan_fallbacks" -> 0L, "plans_rejected_stale_snapshot" -> 3L,
      "plans_rejected_expired" -> 1L, "plans_rejected_bad_json" -> 1L))
  }

  test("a new planner may count from one again while the last one's plan stands") {
    val book = new ReceivedPlans(patienceMs = 400)
    book.offer(Plan.parse(plan(9)), 5, 0)
    book.plannerStarted()
    assert(book.forJob("a").isDefined)
    assert(book.offer(Plan.parse(plan(1)), 5, 0).isRight)
  }

  test("queues of the example are loaded by running tasks over weight; jobs without one are in none") {
    val book = new ReceivedPlans(patienceMs = 400)
    val slots = new QueueSlots(book)
    assert(slots.turns(Iterator("mark-9c1d" -> 3)).isEmpty)
    assert(book.offer(Plan.parse(schedcore.Protocol.text("examples/plan.pilots.json")), 21, 1789000004000L).isRight)
    assert(book.queue("mark-9c1d") === Some(0) && book.queue("spark-4") === Some(1) && book.queue("unknown") === None)
    def turns = slots.turns(Iterator("mark-9c1d" -> 3, "spark-4" -> 2, "unknown" -> 5))
    assert(turns.map(_.load) === Seq(3.0, 20.0, 0.0))
    Seq("mark-9c1d" -> 2, "spark-4" -> -1, "unknown" -> 7).foreach { case (job, more) => slots.changed(job, more) }
    assert(turns.map(_.load) === Seq(5.0, 10.0, 0.0))
    book.attemptEnded("spark-4", 100, 1000)
    book.attemptEnded("unknown", 100, 1000)
    assert(turns.map(_.dueMs) === Seq(0, 1900, 0))
    val next = schedcore.Protocol.text("examples/plan.pilots.json").replace("\"plan\": 7", "\"plan\": 8")
    assert(book.offer(Plan.parse(next), 21, 1789000004000L).isRight)
    assert(turns.map(_.dueMs) === Seq(0, 1900, 0), "the next plan's queues are the same")
    assert(turns.map(_.load) === Seq(3.0, 20.0, 0.0), "under the next plan slots are counted anew")
  }

  test("a plan names its pilots by stage, and the same object as long as it is in force") {
    val book = new ReceivedPlans(patienceMs = 400)
    assert(book.pilots("spark-4", 0) === Nil)
    book.offer(Plan.parse(schedcore.Protocol.text("examples/plan.pilots.json")), 21, 1789000004000L)
    assert(book.pilots("spark-4", 0) === Seq(3, 17))
    assert(book.pilots("spark-4", 0) eq book.pilots("spark-4", 0))
    assert(book.pilots("spark-4", 1) === Nil && book.pilots("mark-9c1d", 0) === Nil)
    assert(book.starts.active)
    book.expire(Long.MaxValue)
    assert(book.pilots("spark-4", 0) === Nil && !book.starts.active)
  }
}
