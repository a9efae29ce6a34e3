package schedcore
import org.scalatest.funsuite.AnyFunSuite
final class ParetoSuite extends AnyFunSuite {
  test("a phase that needs no isolation is held for its shortest task") { assert(Pareto.deadline(0.0, 3.0, 1.6, 4) == 3.0) }
}
