package schedcore
package enforce

import org.scalatest.EitherValues
import org.scalatest.funsuite.AnyFunSuite
import schedcore.plan.{Pilots, Plan}
import scala.util.Random

final class PilotGateSuite extends AnyFunSuite with EitherValues {

  test("the example names a stage and its pilots") {
    val parsed = Plan.parse(Protocol.text("examples/plan.pilots.json")).value
    assert(parsed.jobs("spark-4").pilots === Some(Pilots(0, Vector(3, 17))))
    assert(parsed.jobs("mark-9c1d").pilots === None)
    assert(parsed.newJobsWait)
  }

  test("the gate opens with the end of the last pilot and says so once") {
    val g = new PilotGate(60)
    assert(!g.closed)
    g.put(Vector(3, 17))
    assert(g.closed && g.waiting === Seq(3, 17))
    assert(!g.ended(5), "another task")
    assert(!g.ended(17))
    assert(g.closed && g.waiting === Seq(3))
    assert(!g.ended(17), "a retry of the same pilot")
    assert(g.ended(3))
    assert(!g.closed && !g.ended(3))
  }

  test("what ended before the plan came counts, and so does what the stage does not have") {
    val g = new PilotGate(4)
    g.ended(1)
    g.put(Vector(1, 9))
    assert(!g.closed)
    g.put(Vector(1, 2))
    assert(g.closed)
    g.put(Vector.empty)
    assert(!g.closed, "a plan without pilots opens the gate")
  }

  test("every task starts, whatever becomes of pilots, plans and slots") {
    (1 to 300).foreach { seed => withClue(s"seed $seed: ")(run(new Random(seed))) }
  }

  /** A stage on a few slots as the scheduler runs it: pilots first, others on slots that nobody else takes. */
  private def run(random: Random): Unit = {
    val tasks = 1 + random.nextInt(30)
    val slots = 1 + random.nextInt(4)
    val g = new PilotGate(tasks)
    var wanted = random.shuffle((0 until tasks).toVector).take(random.nextInt(4))
    g.put(wanted)
    val done = collection.mutable.Set.empty[Int]
    val running = collection.mutable.Map.empty[Int, Boolean] // whether it was launched as a pilot
    var steps = 0
    while (done.size < tasks) {
      steps += 1
      assert(steps < 10000, s"stuck with ${done.size} of $tasks done")
      if (random.nextInt(20) == 0) { wanted = random.shuffle((0 until tasks).toVector).take(random.nextInt(4)); g.put(wanted) }
      val others = random.nextBoolean() // somebody else takes what the gate refuses
      val free = (0 until tasks).filterNot(i => done(i) || running.contains(i))
      val may = if (g.closed) { val p = g.waiting.filter(free.contains); if (others) p else p ++ free.filterNot(p.contains) } else free
      may.take(slots - running.size).foreach(i => running(i) = g.closed)
      // One attempt ends: well, or failed, killed, or lost with its executor, and then it waits again.
      if (running.nonEmpty) {
        val i = running.keys.toVector(random.nextInt(running.size))
        running -= i
        if (random.nextInt(3) > 0) done += i
        val before = g.closed
        val opened = g.ended(i)
        assert(opened === (before && !g.closed))
      } else assert(g.closed && others || may.isEmpty === false, "an idle slot that nobody refused")
    }
  }
}
