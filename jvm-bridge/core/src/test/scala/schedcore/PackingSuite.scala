package schedcore

import org.scalatest.funsuite.AnyFunSuite
import scala.collection.mutable

final class PackingSuite extends AnyFunSuite {
  /** Spark's round: one task for each executor in turn, until no slot is free or no task waits. */
  private final class Cluster(slots: Int, executors: Int, var waiting: Int) {
    val free: mutable.Map[String, Int] = mutable.LinkedHashMap.from((1 to executors).map(n => n.toString -> slots))
    val rounds: mutable.ArrayBuffer[Seq[String]] = mutable.ArrayBuffer.empty

    def running(executor: String): Int = slots - free(executor)
    def offer(offers: IndexedSeq[String]): Seq[String] = {
      rounds += offers
      val placed = mutable.ArrayBuffer.empty[String]
      var last = -1
      while (placed.size > last) {
        last = placed.size
        offers.foreach { executor =>
          if (waiting > 0 && free(executor) > 0) {
            waiting -= 1
            free(executor) -= 1
            placed += executor
          }
        }
      }
      placed.toSeq
    }

    def pack(holding: Set[String] = Set.empty): Seq[String] = Packing.oneByOne[String, String](
      Packing.order(free.keys.toIndexedSeq)(identity, holding, running), free(_) > 0, () => waiting > 0)(offer)
  }

  test("a stage that one executor has room for runs on one") {
    val cluster = new Cluster(slots = 4, executors = 3, waiting = 4)
    assert(cluster.pack() === Seq.fill(4)("1"))
    assert(cluster.rounds.map(_.size) === Seq(1, 2), "the others are offered to copies all at once")
  }

  test("the executor with the most running tasks is filled first, the older one among equals") {
    val cluster = new Cluster(slots = 4, executors = 11, waiting = 7)
    cluster.free("11") = 2
    cluster.free("10") = 0
    assert(cluster.pack() === Seq.fill(2)("11") ++ Seq.fill(4)("1") :+ "2")
  }

  test("executors with held slots come before fuller ones") {
    val cluster = new Cluster(slots = 2, executors = 3, waiting = 2)
    cluster.free("2") = 1
    assert(cluster.pack(Set("3")) === Seq("3", "3"))
  }

  test("more tasks than slots fill every executor, and each executor is offered once") {
    val cluster = new Cluster(slots = 2, executors = 3, waiting = 9)
    assert(cluster.pack().size === 6)
    assert(cluster.rounds.flatten.sorted === Seq("1", "2", "3"))
  }

  test("full executors are offered, too: Spark learns of new ones from offers") {
    val cluster = new Cluster(slots = 1, executors = 2, waiting = 0)
    cluster.free("1") = 0
    assert(cluster.pack() === Nil)
    assert(cluster.rounds.map(_.sorted) === Seq(Seq("1", "2")))
  }
}
