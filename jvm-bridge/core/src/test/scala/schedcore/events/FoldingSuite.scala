package schedcore
package events

import org.scalatest.funsuite.AnyFunSuite

final class FoldingSuite extends AnyFunSuite {
  import Event._

  private def launch(task: Int, executor: String = "0", copy: Boolean = false, stage: String = "1.0"): Event =
    TaskLaunched(task, "a", stage, task, task, executor, copy)
  private def end(
      task: Int, executor: String = "0", outcome: String = "success", copy: Boolean = false, stage: String = "1.0"): Event =
    TaskEnded(100 + task, "a", stage, task, task, executor, 5, outcome, copy)
  private def short(stage: String, executor: String, tasks: Int*): Event =
    ShortTasks(100 + tasks.last, "a", stage, executor, tasks.map(_.toLong), tasks, tasks.map(_ => 5L))

  test("attempts that began and succeeded in the batch become one event per stage and executor") {
    val events = Seq(
      launch(1), launch(2, "1"), end(1), launch(3), end(2, "1"), launch(4, stage = "2.0"), end(3), end(4, stage = "2.0"))
    assert(Folding.shortTasks(events) === Seq(short("1.0", "0", 1, 3), short("1.0", "1", 2), short("2.0", "0", 4)))
  }

  test("an attempt that outlives the batch, fails or is a copy is told as ever") {
    val running = Seq(launch(1), launch(2), launch(3), end(3, outcome = "failed"), launch(4, copy = true), end(4, copy = true))
    assert(Folding.shortTasks(running) === running)
    val older = Seq(end(8), end(9))
    assert(Folding.shortTasks(older) === older)
  }

  test("nothing but launches and slots is overtaken") {
    val over = StageEnded(200, "a", "1.0", completed = true)
    val held = SlotHeld(150, "a", "1.0", "0", 900)
    val events = Seq(launch(1), launch(2), end(1), held, end(7), end(2), over, launch(3), end(3))
    assert(
      Folding.shortTasks(events) ===
        Seq(held, short("1.0", "0", 1), end(7), short("1.0", "0", 2), over, short("1.0", "0", 3)))
  }

  test("a result that is lost in the batch of its attempt is told after it, and not as a second success") {
    val lost = end(1, outcome = "lost")
    assert(Folding.shortTasks(Seq(launch(1), launch(2), end(1), end(2), lost)) === Seq(short("1.0", "0", 1, 2), lost))
  }

  test("a batch without pairs is left alone") {
    val events = Seq(launch(1), end(1))
    assert(Folding.shortTasks(events) === events)
    assert(Folding.shortTasks(Nil) === Nil)
  }
}
