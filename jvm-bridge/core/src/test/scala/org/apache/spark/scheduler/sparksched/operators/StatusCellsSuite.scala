package org.apache.spark.scheduler.sparksched
package operators

import org.scalatest.funsuite.AnyFunSuite
import schedcore.marks.JobMark
import schedcore.plan.{EndForecast, TimeQuantiles}
import schedcore.status.{JobFacts, JobTimes, PlanForJob, SlotTimes, StageFacts}

/** Texts of the tab's cells. */
final class StatusCellsSuite extends AnyFunSuite {
  private val Now = 1760000000000L
  private val job = JobFacts(
    JobMark.from(Map(JobMark.Prefix + "name" -> "report").get, 1), 1, JobTimes(Now - 5000), 0, 0.0,
    Seq(StageFacts("4.0", "count", 8, 0, 0, 8)), 0, 0, 0, SlotTimes.Zero)
  private def ends(p10: Long, p50: Long, p90: Long): JobFacts = job.copy(plan = PlanForJob(forecast = Some(
    EndForecast(Now + p10, Now + p50, Now + p90, None, Some(TimeQuantiles(Now + p10, Now + p50, Now + p90))))))

  test("an end that was expected before now is overdue, not in 0 ms") {
    assert(StatusCells.endsIn(ends(1000, 2000, 4000), Now) === "2 s (1 s to 4 s)")
    assert(StatusCells.endsIn(ends(-2000, -1000, 4000), Now) === "0 ms (0 ms to 4 s)")
    assert(StatusCells.endsIn(ends(-3000, -2000, -1000), Now) === "overdue")
    assert(StatusCells.startsIn(ends(-3000, -2000, -1000), Now) === Some("overdue"))
    assert(StatusCells.endsIn(job, Now) === "unknown")
  }

  test("the state of a job is one word where the reason says more") {
    assert(job.stateWord === "waiting")
    assert(job.copy(heldUpBy = Seq("etl")).stateWord === "held back")
    assert(job.copy(outcome = Some(JobFacts.Failed)).stateWord === "failed")
  }

  test("weights and counts are written as people do") {
    assert(Seq(1.0, 0.5, 30.0).map(StatusCells.weight) === Seq("1", "0.5", "30"))
    assert(Seq("0", "1", "2").map(StatusCells.executors) === Seq("0 executors", "1 executor", "2 executors"))
  }
}
