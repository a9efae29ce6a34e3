package schedcore
package events

import java.util.concurrent.CompletableFuture

import org.scalatest.funsuite.AnyFunSuite

final class QuestionsSuite extends AnyFunSuite {

  private def asking(questions: Questions, text: String): CompletableFuture[Option[String]] = {
    val asked = CompletableFuture.supplyAsync[Option[String]](() => questions.ask(text, 60000))
    while (!questions.any) Thread.sleep(1)
    asked
  }

  test("an answer comes to whoever asked, and a question is taken once") {
    var woken = 0
    val questions = new Questions(() => woken += 1)
    val asked = asking(questions, "when?")
    val Seq((number, text)) = questions.take()
    assert(text === "when?" && !questions.any && questions.take() === Nil)
    questions.answer(number + 1, "for somebody else")
    questions.answer(number, "soon")
    assert(asked.get() === Some("soon"))
    questions.answer(number, "too late")
    assert(woken === 1)
  }

  test("what a dead planner had taken its successor is asked again") {
    val questions = new Questions(() => ())
    val asked = asking(questions, "who?")
    questions.take()
    questions.plannerStarted()
    questions.take().foreach { case (number, _) => questions.answer(number, "me") }
    assert(asked.get() === Some("me"))
  }

  test("without an answer in time there is none") {
    assert(new Questions(() => ()).ask("anybody?", 1) === None)
  }

  test("a question lets a waiting poll return") {
    val events = new EventQueue(16, () => System.currentTimeMillis(), body => body(Nil))
    assert(events.poll(10, 0).reset)
    val polled = CompletableFuture.supplyAsync[Batch](() => events.poll(10, 600000))
    events.nudge()
    assert(polled.get().events === Nil)
    assert(Batch.toJson(Batch(1, reset = false, 0, 0, Nil, asked = true)).contains("\"asked\":true"))
  }
}
