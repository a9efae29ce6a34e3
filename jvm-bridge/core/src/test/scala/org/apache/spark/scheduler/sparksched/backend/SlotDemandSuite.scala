package org.apache.spark.scheduler.sparksched
package backend

import org.scalatest.funsuite.AnyFunSuite

final class SlotDemandSuite extends AnyFunSuite {
  private val twoExecutors = SlotDemand(executors = 2, slots = 8, idle = 5, startable = 0, deferred = 40)

  test("tasks that wait beside idle slots want no further executors, and idle ones may go") {
    assert(twoExecutors.cap(12, 0) === 1)
    assert(twoExecutors.copy(startable = 2).cap(12, 0) === 2)
    assert(twoExecutors.copy(idle = 8).cap(12, 0) === 1, "a plan needs something to plan with")
    assert(twoExecutors.cap(12, 3) === 3)
    assert(twoExecutors.cap(1, 0) === 1)
  }

  test("where no slot is left idle, or nobody is told to wait, Spark asks for what it wants") {
    assert(twoExecutors.copy(deferred = 0).cap(12, 0) === 12)
    assert(twoExecutors.copy(idle = 0).cap(12, 0) === 12)
    assert(twoExecutors.copy(startable = 5).cap(12, 0) === 12)
    assert(SlotDemand(0, 0, 0, 0, 40).cap(12, 0) === 12)
  }
}
