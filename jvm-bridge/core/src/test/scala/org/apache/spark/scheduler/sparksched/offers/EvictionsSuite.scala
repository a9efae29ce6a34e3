package org.apache.spark.scheduler.sparksched
package offers

import org.scalatest.funsuite.AnyFunSuite
import schedcore.enforce.QueueUsage
import schedcore.settings.{QueueSpec, QueueTree}

/** Whose slots an eviction under way is for. */
final class EvictionsSuite extends AnyFunSuite {
  import Evictions.Eviction

  private val queues = new QueueUsage(QueueTree(Seq(QueueSpec("a"), QueueSpec("b", weight = Some(1.0))), Nil, "a"))
  Seq("first" -> "b", "second" -> "b", "other" -> "a").zipWithIndex.foreach { case ((job, queue), n) => queues.entered(job, queue, 0, n, 0L) }

  test("slots that come to a queue count for each of its jobs") {
    val cases = Seq(
      Eviction(Some("first")) -> true, Eviction(Some("second")) -> true, Eviction(queue = Some("b")) -> true,
      Eviction(Some("other")) -> false, Eviction(queue = Some("a")) -> false, Eviction() -> false)
    cases.foreach { case (eviction, comes) => assert(eviction.isFor(queues, "first") === comes, eviction) }
    assert(!Eviction(Some("first")).isFor(queues, "unknown"))
  }
}
