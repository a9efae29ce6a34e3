package schedcore
package ledger

import org.scalatest.funsuite.AnyFunSuite

final class HeldIdleSumsSuite extends AnyFunSuite {

  private def one(user: String, name: String, heldMs: Long) = HeldIdle(user, name, 1, heldMs, 2 * heldMs)

  test("jobs of one user and name are one row, live ones included") {
    val sums = new HeldIdleSums(10)
    sums.add(one("ann", "report", 5))
    sums.add(one("bob", "report", 7))
    sums.add(one("ann", "report", 11))
    val live = Iterator(one("bob", "report", 1), one("bob", "", 2))
    assert(sums.beside(live).toSet === Set(
      HeldIdle("ann", "report", 2, 16, 32), HeldIdle("bob", "report", 2, 8, 16), HeldIdle("bob", "", 1, 2, 4)))
    assert(sums.beside(Iterator.empty).map(_.heldMs).sum === 23)
  }

  test("rows are bounded and nothing is lost") {
    val sums = new HeldIdleSums(2)
    for (i <- 0 until 100) {
      sums.add(one("steady", "etl", 1))
      sums.add(one("user", s"job-$i", 10))
    }
    val found = sums.beside(Iterator.empty)
    assert(found.size === 3)
    assert(found.find(_.user == "steady").map(_.heldMs) === Some(100))
    assert(found.map(_.heldMs).sum === 1100)
    assert(found.map(_.jobs).sum === 200)
  }
}
