package schedcore
package events

import org.scalatest.funsuite.AnyFunSuite
import schedcore.marks.JobMark

/** What a planner is told of jobs and stages that were over before it began. */
final class JobJournalSuite extends AnyFunSuite {
  private val job = JobMark.from(Map("spark.sched.job.id" -> "etl").get(_), 1)
  private val key = job.key

  private def stage(n: Int, tasks: Int, timeMs: Long = 0): Event.StageStarted =
    Event.StageStarted(timeMs, key, s"$n.0", s"stage $n", n, tasks, None, last = false, barrier = false)
  private def launched(task: Long, n: Int, index: Int, timeMs: Long, copy: Boolean = false): Event =
    Event.TaskLaunched(timeMs, key, s"$n.0", task, index, "e", copy)
  private def ended(task: Long, n: Int, index: Int, timeMs: Long, outcome: String = "success", copy: Boolean = false): Event =
    Event.TaskEnded(timeMs, key, s"$n.0", task, index, "e", 10L, outcome, copy)
  private def over(n: Int, timeMs: Long): Event = Event.StageEnded(timeMs, key, s"$n.0", completed = true)
  private def end(number: Long): Event = Event.JobEnded(100, key, "ended", number = Some(number))

  private def journal(events: Event*)(implicit most: Int = 1000): JobJournal = {
    val made = new JobJournal(most)
    (Event.JobStarted(0, job) +: events).foreach(made.heard)
    made
  }

  test("a job that is over is told with its begin, its last end, its stages in their order and the times of its tasks") {
    val made = journal(
      stage(0, 2), launched(1, 0, 0, 5), launched(2, 0, 1, 6), ended(1, 0, 0, 15), ended(2, 0, 1, 16), over(0, 17),
      stage(1, 1, 20), launched(3, 1, 0, 21), ended(3, 1, 0, 31), over(1, 32), end(11))
    val told = made.retold(Nil)
    assert(told.forall(_.isInstanceOf[Event.Past]))
    assert(told.collect { case Event.Past(event) => event } === Seq(
      Event.JobStarted(0, job, begunMs = Some(5), lastEndMs = Some(31)),
      stage(0, 2), Event.ShortTasks(16, key, "0.0", "e", Seq(1L, 2L), Seq(0, 1), Seq(10L, 10L)), over(0, 17),
      stage(1, 1, 20), Event.ShortTasks(31, key, "1.0", "e", Seq(3L), Seq(0), Seq(10L)), over(1, 32), end(11)))
  }

  test("tasks with a copy, a failure or a lost result have no time, whichever attempt ended first") {
    val made = journal(
      stage(0, 4), launched(1, 0, 0, 0), launched(2, 0, 1, 0), launched(3, 0, 2, 0), launched(4, 0, 3, 0),
      launched(5, 0, 0, 1, copy = true), ended(5, 0, 0, 2, copy = true), ended(1, 0, 0, 3, "killed"),
      ended(2, 0, 1, 3, "failed"), launched(6, 0, 1, 4), ended(6, 0, 1, 5),
      ended(3, 0, 2, 6), ended(3, 0, 2, 7, "lost"), ended(4, 0, 3, 8), over(0, 9), end(20))
    assert(made.retold(Nil).collect { case Event.Past(tasks: Event.ShortTasks) => tasks.indices }.flatten === Seq(3))
  }

  test("a job that goes on is told with the stages that are over, and with the times of the tasks that are") {
    val made = journal(
      stage(0, 1), launched(1, 0, 0, 5), ended(1, 0, 0, 15), over(0, 16),
      stage(1, 3, 20), launched(2, 1, 0, 21), ended(2, 1, 0, 31), launched(3, 1, 1, 22, copy = true), ended(3, 1, 1, 33, copy = true))
    val present = stage(1, 3, 20).copy(done = Seq(0, 1)) // as the ledger knows
    val state = Seq(Event.JobStarted(0, job, begunMs = Some(5)), present)
    assert(made.retold(state) === Seq(
      Event.JobStarted(0, job, begunMs = Some(5), lastEndMs = Some(33)),
      Event.Past(stage(0, 1)), Event.Past(Event.ShortTasks(15, key, "0.0", "e", Seq(1L), Seq(0), Seq(10L))), Event.Past(over(0, 16)),
      present.copy(done = Seq(1)), Event.Past(Event.ShortTasks(33, key, "1.0", "e", Seq(2L), Seq(0), Seq(10L)))))
  }

  test("a stage that was given up while its tasks run stays as the state has it") {
    val given = Event.StageEnded(10, key, "0.0", completed = false)
    val made = journal(stage(0, 2), launched(1, 0, 0, 5), ended(1, 0, 0, 6), given)
    val state = Seq(Event.JobStarted(0, job), stage(0, 2).copy(done = Seq(0)), given)
    assert(made.retold(state).collect { case e: Event.StageEnded => e; case Event.Past(e: Event.StageEnded) => e } === Seq(given))
  }

  test("beyond its size the jobs that ended first go, which counts where the planner that read them stored nothing") {
    val made = new JobJournal(4)
    for (n <- 1 to 6) {
      val mark = JobMark.from(Map("spark.sched.job.id" -> s"j$n").get(_), n)
      made.heard(Event.JobStarted(0, mark))
      made.heard(Event.JobEnded(1, mark.key, "ended", number = Some(n)))
    }
    assert(made.waiting === 6 && made.unlearned === 0)
    assert(made.retold(Nil).collect { case Event.Past(e: Event.JobEnded) => e.number.get } === Seq(3, 4, 5, 6))
    made.plannerOver()
    assert(made.waiting === 4 && made.unlearned === 2)
  }

  test("jobs that had no room do not count once a planner stored what they taught") {
    val made = new JobJournal(1)
    for (n <- 1 to 3) {
      val mark = JobMark.from(Map("spark.sched.job.id" -> s"j$n").get(_), n)
      made.heard(Event.JobStarted(0, mark))
      made.heard(Event.JobEnded(1, mark.key, "ended", number = Some(n)))
    }
    made.stored(3)
    made.plannerOver()
    assert(made.waiting === 0 && made.unlearned === 0)
  }

  test("of a job that has no room of its own the begin and the end are told, and it counts once") {
    val events = stage(0, 5) +: (0 until 5).flatMap(i => Seq(launched(i, 0, i, i), ended(i, 0, i, 10L + i)))
    val made = journal(events: _*)(4)
    made.plannerOver()
    made.heard(over(0, 20))
    made.heard(end(30))
    made.plannerOver()
    assert(made.unlearned === 1)
    assert(made.retold(Nil) === Seq(
      Event.Past(Event.JobStarted(0, job, begunMs = Some(0), lastEndMs = Some(14))), Event.Past(end(30))))
  }

  test("attempts that were all lost before one succeeded are no begin") {
    val made = journal(stage(0, 1), launched(1, 0, 0, 5), ended(1, 0, 0, 6, "lost"))
    assert(made.retold(Seq(Event.JobStarted(0, job))) === Seq(Event.JobStarted(0, job, lastEndMs = Some(6))))
    val over = journal(stage(0, 1), launched(1, 0, 0, 5), ended(1, 0, 0, 6, "lost"), launched(2, 0, 0, 7), ended(2, 0, 0, 17), end(9))
    assert(over.retold(Nil).collectFirst { case Event.Past(e: Event.JobStarted) => e.begunMs } === Some(Some(7)))
  }
}
