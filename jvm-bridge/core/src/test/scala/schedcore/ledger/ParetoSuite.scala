package schedcore
package ledger

import org.scalatest.funsuite.AnyFunSuite

final class ParetoSuite extends AnyFunSuite {

  private def near(found: Double, wanted: Double, relative: Double = 1e-12): Unit =
    assert(math.abs(found - wanted) <= relative * math.abs(wanted), s"$found is not near $wanted")

  test("at P = 0 the deadline is t_m and at P = 1 there is none") {
    assert(Pareto.deadline(0.0, 250.0, 1.6, 20) === 250.0)
    assert(Pareto.deadline(1.0, 250.0, 1.6, 20) === Double.PositiveInfinity)
  }

  test("the deadline is equation 2 solved for D") {
    for (p <- Seq(0.2, 0.4, 0.9, 0.999); alpha <- Seq(1.1, 1.6, 3.0); n <- Seq(1, 20, 200)) {
      val d = Pareto.deadline(p, 1000.0, alpha, n)
      near(math.pow(1 - math.pow(1000.0 / d, alpha), n), p, 1e-9)
    }
  }

  test("the deadline keeps its digits for many tasks and for P near 1") {
    // 1 - P^(1/N) = -ln(P) / N to first order, far below what 1 - pow(...) can tell from 0.
    near(Pareto.deadline(1 - 1e-12, 1.0, 1.6, 1000000), math.pow(1e-12 / 1e6, -1 / 1.6), 1e-4)
  }

  test("the shape is the maximum-likelihood one where there is no prior") {
    near(Pareto.shape(3, 3 * math.log(2.0), 1.6, 0.0), 1 / math.log(2.0))
  }

  test("a prior of weight w counts as w finished tasks of its shape") {
    assert(Pareto.shape(0, 0.0, 1.6, 5.0) === 1.6)
    near(Pareto.shape(5, 5 / 3.2, 1.6, 5.0), 10 / (5 / 1.6 + 5 / 3.2))
  }

  test("the shape stays where the formulas make sense") {
    assert(Pareto.shape(4, 0.0, 1.6, 0.0) === Pareto.MaxShape)
    assert(Pareto.shape(1, 1e6, 1.6, 1.0) === Pareto.MinShape)
  }
}
