package org.apache.spark.scheduler.sparksched
package jobs

import org.scalatest.funsuite.AnyFunSuite
import org.apache.spark.scheduler.sparksched.planner.ReceivedPlans
import schedcore.events.{Event, EventQueue, HeldSlotEvents}
import schedcore.ledger.{Ledger, TaskShape}
import schedcore.marks.{JobMark, Origin}
import schedcore.settings.Settings

/** The jobs that callbacks of micro-batches mark by name, which nobody ends. */
final class MicroBatchSuite extends AnyFunSuite {
  private val query = "3b5f0a52-6d0e-4d0a-9a55-0f3a4f9d2c11"
  private val queue = new EventQueue(1000, () => 0L, body => body(Nil))
  queue.poll(1, 0) // From here on events are told one by one.
  private val registry =
    new Registry(Settings.from(Map.empty), new Ledger(new HeldSlotEvents(queue)), queue, "me", _ => (), (_, _, _) => ())

  private def run(batch: Int, name: String): String = {
    val properties =
      Map("sql.streaming.queryId" -> query, "streaming.sql.batchId" -> s"$batch", JobMark.Prefix + "name" -> name)
    val mark = JobMark.from(properties.get, batch, origin = Origin(inherited = Some(Map.empty)))
    registry.stageStarted(
      mark, new ReceivedPlans(400), batch, s"$batch.0", "", 1, DagOutlook(None, Nil, finalOfSparkJob = false, mapStageJob = false),
      barrier = false, restartable = true, shape = TaskShape(), pool = None, properties.get, 0)
    registry.stageEnded(mark.key, s"$batch.0", completed = true, 1)
    mark.key
  }
  private def ended: Seq[String] = queue.poll(1000, 0).events.collect { case e: Event.JobEnded => e.job }

  test("they end with their batch, with the next job of their name, and with their query") {
    val fourth = run(4, "alerts")
    registry.ends.batchEnded(query, "41", 10)
    assert(ended === Nil)
    registry.ends.batchEnded(query, "4", 10)
    assert(ended === Seq(fourth))
    val fifth = run(5, "alerts")
    val sixth = run(6, "alerts")
    assert(ended === Seq(fifth))
    registry.ends.streamEnded(query, 20)
    assert(ended === Seq(sixth))
  }
}
