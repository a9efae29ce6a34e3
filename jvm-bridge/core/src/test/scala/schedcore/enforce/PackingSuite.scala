package schedcore
package enforce

import org.scalatest.funsuite.AnyFunSuite
import schedcore.plan.EndForecast
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

    /** Marked executors are offered without their headroom. */
    private def offerLimited(headroom: Int)(offers: IndexedSeq[(String, Boolean)]): Seq[String] = {
      offers.foreach { case (e, limited) => if (limited) free(e) -= headroom }
      try offer(offers.map(_._1)) finally offers.foreach { case (e, limited) => if (limited) free(e) += headroom }
    }

    def pack(holding: Set[String] = Set.empty, headroom: Int = 0): Seq[String] = {
      val inOrder = Packing.order(free.keys.toIndexedSeq)(identity, holding, running)
      val inUse = inOrder.filter(e => holding(e) || running(e) > 0).toSet
      Packing.oneByOne[(String, Boolean), String](
        inOrder.map(_ -> false), { case (e, _) => inUse(e) }, { case (e, _) => Option.when(free(e) > headroom)(e -> true) },
        _ => inOrder.map(_ -> false), { case (e, _) => free(e) > 0 }, () => waiting > 0)(offerLimited(headroom))
    }
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

  test("a headroom stays free on one executor, not on each, until all are that full") {
    val cluster = new Cluster(slots = 4, executors = 3, waiting = 7)
    assert(cluster.pack(headroom = 1) === Seq.fill(3)("1") ++ Seq.fill(3)("2") :+ "1", "7 tasks on two executors of 4 slots")
    cluster.waiting = 1
    assert(cluster.pack(headroom = 1) === Seq("3"), "the headroom of 2 is kept while 3 is idle")
    cluster.waiting = 4
    assert(cluster.pack(headroom = 1) === Seq("2") ++ Seq("3", "3") :+ "3", "that of the last one is taken at the end")
  }

  test("tasks one after the other open as many executors as all at once do") {
    def opened(tasks: Int, atOnce: Boolean): Int = {
      val cluster = new Cluster(slots = 8, executors = 4, waiting = if (atOnce) tasks else 0)
      if (atOnce) cluster.pack(headroom = 2)
      else (1 to tasks).foreach { _ => cluster.waiting = 1; cluster.pack(headroom = 2) }
      cluster.free.count(_._2 < 8)
    }
    val tasks = Seq(1, 6, 7, 14, 15, 20, 22, 23, 32)
    assert(tasks.map(opened(_, atOnce = true)) === Seq(1, 1, 2, 2, 3, 3, 3, 4, 4))
    assert(tasks.map(opened(_, atOnce = false)) === tasks.map(opened(_, atOnce = true)))
  }

  test("executors that are in use are filled before an idle one, whichever of them has room") {
    val cluster = new Cluster(slots = 8, executors = 4, waiting = 6)
    cluster.free("1") = 1
    cluster.free("3") = 2
    cluster.free("4") = 5
    assert(cluster.pack(headroom = 2) === Seq("1", "3", "3", "4", "4", "4"))
  }

  test("the headroom is a share of the slots, rounded down") {
    assert(Seq(1, 2, 4, 8, 15).map(Packing.headroom(_, 0.25)) === Seq(0, 0, 1, 2, 3))
    assert(Packing.headroom(10, 0.3) === 3, "products of fractions are not exact")
    assert(Packing.headroom(8, 0.0) === 0)
  }

  test("a deadline is safe where the plan in force forecasts it with 95 % at least") {
    def forecast(probability: Option[Double]) = Some(EndForecast(1000, 2000, 3000, probability))
    assert(Packing.isSafe(forecast(Some(0.95))))
    assert(!Packing.isSafe(forecast(Some(0.94))))
    assert(!Packing.isSafe(forecast(None)))
    assert(!Packing.isSafe(None))
  }

  test("tasks that have waited for the backlog timeout are recent until nobody has for the idle timeout") {
    val backlog = new Backlog(backlogMs = 1000, calmMs = 15000)
    backlog.observe(waits = true, 100)
    assert(!backlog.isRecent(1000), "a short wait is none")
    backlog.observe(waits = true, 1100)
    assert(backlog.isRecent(1100))
    backlog.observe(waits = true, 5000)
    backlog.observe(waits = false, 6000)
    assert(backlog.isRecent(19999))
    assert(!backlog.isRecent(20000))
  }

  test("what was seen of a backlog is forgotten with the rounds that nobody observes") {
    val backlog = new Backlog(backlogMs = 1000, calmMs = 15000)
    backlog.observe(waits = true, 100)
    backlog.forget()
    backlog.observe(waits = true, 5000)
    assert(!backlog.isRecent(5000), "the wait begins at 5000")
    backlog.observe(waits = true, 6000)
    assert(backlog.isRecent(6000))
    backlog.forget()
    assert(!backlog.isRecent(6001))
  }

  test("short waits one after the other are no backlog") {
    val backlog = new Backlog(backlogMs = 1000, calmMs = 15000)
    (0 to 10000 by 500).foreach(at => backlog.observe(waits = at % 1000 == 0, at))
    assert(!backlog.isRecent(10000))
  }
}
