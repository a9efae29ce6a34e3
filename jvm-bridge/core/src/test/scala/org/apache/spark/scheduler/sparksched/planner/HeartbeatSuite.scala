package org.apache.spark.scheduler.sparksched
package planner

import org.scalatest.funsuite.AnyFunSuite

final class HeartbeatSuite extends AnyFunSuite {
  test("silence counts from the last beat, by a clock of its own") {
    var now = -5000000000L // such a clock may start anywhere
    val heartbeat = new Heartbeat(() => now)
    assert(heartbeat.silentMs === None)
    heartbeat.beat()
    now += 1500000000L
    assert(heartbeat.silentMs === Some(1500))
    heartbeat.beat()
    assert(heartbeat.silentMs === Some(0))
    heartbeat.forget()
    assert(heartbeat.silentMs === None)
  }
}
