package schedcore
package marks

import org.scalatest.funsuite.AnyFunSuite

final class SessionUsersSuite extends AnyFunSuite {

  test("the first evidence of a session's user counts for ever") {
    val users = new SessionUsers
    assert(users.of("s") === None)
    assert(users.learned("s", "eve") === "eve")
    assert(users.learned("s", "alice") === "eve")
    assert(users.of("s") === Some("eve"))
  }

  test("the users of groups are those of the latest statements, and of sessions those asked for last") {
    val users = new SessionUsers
    users.learned("s", "eve")
    (0 to 10000).foreach { i =>
      users.groupStarted(s"g$i", "u")
      users.learned(s"s$i", "u")
      assert(users.of("s") === Some("eve"))
    }
    assert(users.ofGroup("g0") === None && users.ofGroup("g1") === Some("u"))
    assert(users.of("s1") === None)
  }
}
