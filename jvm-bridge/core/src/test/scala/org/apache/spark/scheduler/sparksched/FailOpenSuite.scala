package org.apache.spark.scheduler.sparksched

import org.scalatest.funsuite.AnyFunSuite

final class FailOpenSuite extends AnyFunSuite {

  test("the first exception opens it: Spark's answer counts then and from then on") {
    var told = 0
    val guard = new FailOpen(None, () => told += 1)
    assert(guard("slot", "spark")("ours") === "ours" && !guard.isOpen)
    assert(guard("slot", "spark")(throw new NoClassDefFoundError("a missing class")) === "spark")
    assert(guard("launch", "spark")("ours") === "spark")
    assert(guard("slot", "spark")(throw new IllegalStateException) === "spark")
    assert(told === 1 && guard.counters === Map("failed_open" -> 1L))
  }

  test("a test names the seam that throws; what cannot put it aside does not harm either") {
    val guard = new FailOpen(Some("order"), () => throw new IllegalStateException("the planner does not end"))
    assert(guard("slot", 0)(1) === 1)
    assert(guard("order", 0)(1) === 0)
    assert(guard("slot", 0)(1) === 0)
  }

  test("records that memory ran out on count no more, and Spark deals with that itself") {
    val guard = new FailOpen(None, () => ())
    assertThrows[OutOfMemoryError](guard("end of task", ())(throw new OutOfMemoryError("a test")))
    assert(guard.isOpen && guard("slot", "spark")("ours") === "spark")
  }

  test("what must not be survived is not") {
    val guard = new FailOpen(None, () => ())
    assertThrows[InterruptedException](guard("slot", ())(throw new InterruptedException))
    assert(!guard.isOpen)
  }
}
