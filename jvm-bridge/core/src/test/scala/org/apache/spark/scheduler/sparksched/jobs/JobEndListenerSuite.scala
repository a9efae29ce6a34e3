package org.apache.spark.scheduler.sparksched
package jobs

import org.scalatest.funsuite.AnyFunSuite

final class JobEndListenerSuite extends AnyFunSuite {
  test("the user of a server's job group is known by the names of its event's fields") {
    final case class Start(id: String, sessionId: String, statement: String, groupId: String, startTime: Long, userName: String)
    assert(JobEndListener.userOfGroup(Start("i", "s", "select 1", "g", 0L, "carol")) === Some("g" -> "carol"))
    assert(JobEndListener.userOfGroup(Start("i", "s", "select 1", "g", 0L, "UNKNOWN")) === None)
    assert(JobEndListener.userOfGroup("else") === None)
  }
}
