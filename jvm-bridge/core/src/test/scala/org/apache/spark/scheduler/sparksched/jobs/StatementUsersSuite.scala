package org.apache.spark.scheduler.sparksched
package jobs

import org.scalatest.funsuite.AnyFunSuite
import schedcore.marks.SessionUsers

/** Users of a Thrift server's statements that are reported late. */
final class StatementUsersSuite extends AnyFunSuite {
  private val statement = "1b4e28ba-2fa1-11d2-883f-0016d3cca427"
  private val next = "1b4e28ba-2fa1-11d2-883f-0016d3cca428"

  private final class World(served: Boolean = true, reportAfter: Int = Int.MaxValue) {
    val users = new SessionUsers
    var nowNs = 0L
    var pauses = 0
    val awaited = new StatementUsers(users, () => served, () => nowNs, ms => {
      nowNs += ms * 1000000L
      pauses += 1
      if (pauses == reportAfter) users.groupStarted(statement, "ann")
    })
  }

  test("a statement's stage waits until the report of its user has come") {
    val w = new World(reportAfter = 3)
    w.awaited.await(statement)
    assert(w.pauses === 3 && w.users.ofGroup(statement) === Some("ann"))
    w.awaited.await(statement)
    assert(w.pauses === 3, "it is known")
  }

  test("after a wait in vain nobody is waited for within a minute") {
    val w = new World()
    w.awaited.await(statement)
    assert(w.nowNs > 2000000000L && w.nowNs < 2100000000L)
    val waited = w.pauses
    w.awaited.await(next)
    assert(w.pauses === waited)
    w.nowNs += 61000000000L
    w.awaited.await(next)
    assert(w.pauses > waited)
  }

  test("a job group that was awaited in vain is never awaited again: each batch of a stream comes with it") {
    val w = new World()
    w.awaited.await(statement)
    val waited = w.pauses
    (1 to 3).foreach { _ =>
      w.nowNs += 61000000000L
      w.awaited.await(statement)
    }
    assert(w.pauses === waited)
    w.awaited.await(next)
    assert(w.pauses > waited, "others are")
  }

  test("job groups of programs, and of applications without a server, are not waited for") {
    val programs = new World()
    Seq("", "nightly", statement.toUpperCase, s"$statement-2").foreach(programs.awaited.await)
    val without = new World(served = false)
    without.awaited.await(statement)
    assert(programs.pauses === 0 && without.pauses === 0)
    assert(!StatementUsers.serverThere)
  }
}
