package org.apache.spark.scheduler.sparksched
package offers

import org.scalatest.funsuite.AnyFunSuite

final class SlotCountsSuite extends AnyFunSuite {
  import SlotCounts.room

  test("parts of one address are shared, and parts of two addresses make no task together") {
    assert(room(Map("0" -> 1.0), 0.5) === 2)
    assert(room(Map("0" -> 0.5, "1" -> 1.0), 0.5) === 3)
    assert(room(Map("0" -> 0.4, "1" -> 0.4), 0.5) === 0)
    assert(room(Map("0" -> 1.0), 0.1) === 10, "a tenth is not exact in binary")
    assert(room(Map("0" -> 0.3), 0.1) === 3)
  }

  test("whole addresses are whole ones that nobody has a part of") {
    assert(room(Map("0" -> 1.0, "1" -> 1.0), 1.0) === 2)
    assert(room(Map("0" -> 1.0, "1" -> 0.9), 1.0) === 1)
    assert(room(Map("0" -> 1.0, "1" -> 1.0, "2" -> 1.0), 2.0) === 1)
    assert(room(Map.empty, 1.0) === 0)
  }

  test("a task takes as many slots as Spark takes of the addresses that slots divide") {
    import SparkLine.slotsTaken
    assert(slotsTaken(0.0, 0.5) === 0.0, "of a resource that it does not ask for")
    assert(slotsTaken(0.5, 0.5) === 1.0)
    assert(slotsTaken(2.0, 1.0) === 2.0, "whole addresses")
    assert(slotsTaken(1.0, 0.5) === 2.0)
    assert(slotsTaken(0.25, 0.5) === 0.5)
  }
}
