package org.apache.spark.scheduler.sparksched
package jobs

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import org.scalatest.funsuite.AnyFunSuite
import org.apache.spark.scheduler.sparksched.planner.ReceivedPlans
import schedcore.events.{Event, EventQueue, HeldSlotEvents}
import schedcore.ledger.{Ledger, TaskShape}
import schedcore.marks.{JobMark, Origin}
import schedcore.settings.{Modes, Settings}
import schedcore.status.{SlotTimes, StageFacts}

/** What becomes of jobs whose end comes early, late, or never. */
final class RegistrySuite extends AnyFunSuite {
  private val unknown = DagOutlook(None, Nil, finalOfSparkJob = false, mapStageJob = false)

  private final class World(given: (String, String)*) {
    val settings: Settings = Settings.from(given.toMap)
    val forgotten = mutable.ArrayBuffer.empty[String]
    val queue = new EventQueue(1000, () => 0L, body => body(Nil))
    queue.poll(1, 0) // From here on events are told one by one.
    val ledger = new Ledger(new HeldSlotEvents(queue))
    val registry = new Registry(settings, ledger, queue, "me", forgotten += _, (_, _, _) => ())
    val plans = new ReceivedPlans(400)
    registry.executors.offered("e", "h", profile = 0, 4, 0)

    def stage(name: String, sparkJob: Int, marks: (String, String)*): String = stage(name, sparkJob, unknown, marks: _*)

    def stage(name: String, sparkJob: Int, outlook: DagOutlook, marks: (String, String)*): String =
      stageIn(Origin(), name, sparkJob, outlook, marks: _*)

    /** A stage of a Spark job whose marks a session has SET. */
    def stageSetIn(session: String, name: String, sparkJob: Int, marks: (String, String)*): String =
      stageIn(Origin.of(session, World.marked(marks), registry.users.of(session)), name, sparkJob, unknown, marks: _*)

    def stageIn(origin: Origin, name: String, sparkJob: Int, outlook: DagOutlook, marks: (String, String)*): String = {
      val property = World.marked(marks).get(_)
      registry.stageStarted(
        JobMark.from(property, sparkJob, origin = origin), plans, sparkJob, name, "", 2, outlook, barrier = false,
        restartable = true, shape = TaskShape(), pool = None, property, 0).job
    }
    def ended: Seq[String] = queue.poll(1000, 0).events.collect { case e: Event.JobEnded => e.job }
  }

  private object World {
    def marked(marks: Seq[(String, String)]): Map[String, String] = marks.map { case (k, v) => JobMark.Prefix + k -> v }.toMap
  }

  test("a job whose Spark job ends while its stage is needed elsewhere closes, and ends with the stage") {
    val w = new World
    val job = w.stage("0.0", 1)
    w.registry.executors.taskLaunched(job, "0.0", 7, 0, "e", copy = false, slots = 1, 0)
    w.registry.sparkJobEnded(1, failed = false, 10)
    assert(w.ended === Nil && w.registry.priority(job) === 0 && w.registry.arrival(job) === 1)
    w.registry.executors.taskEnded(7, "success", 20)
    w.registry.stageEnded(job, "0.0", completed = true, 20)
    assert(w.ended === Seq(job) && w.forgotten === Seq(job))
    assert(w.registry.arrival(job) === Int.MaxValue)
  }

  test("a tenant who names each query differently has so many jobs and one more, which has all other work until it is idle") {
    val w = new World("spark.sched.limits.jobsPerUser" -> "3", "spark.sched.reservation.gap" -> "10s")
    def stage(n: Int, user: String): String = w.stage(s"$n.0", n, "name" -> s"q$n", "user" -> user, "priority" -> "5", "isolation" -> "1")
    val keys = (1 to 50).map(stage(_, "eve"))
    assert(keys.distinct === (1 to 3).map(n => s"mark-name-q$n") :+ "rest-eve")
    assert(w.registry.priority("rest-eve") === 0 && w.registry.marksOf("rest-eve").map(_.name) === Seq("(further jobs of eve)"))
    assert(stage(51, "ada") === "mark-name-q51")
    // A Spark job stays where it began, also when there is room again.
    w.registry.sparkJobEnded(1, failed = false, 0)
    w.registry.stageEnded("mark-name-q1", "1.0", completed = true, 0)
    w.registry.ends.endIdle(20000)
    assert(w.ended === Seq("mark-name-q1"))
    assert(w.stage("99.0", 50, "name" -> "q50", "user" -> "eve") === "rest-eve" && stage(52, "eve") === "mark-name-q52")
    (4 to 50).foreach { n =>
      w.registry.sparkJobEnded(n, failed = false, 0)
      w.registry.stageEnded("rest-eve", s"$n.0", completed = true, 0)
    }
    w.registry.stageEnded("rest-eve", "99.0", completed = true, 0)
    w.registry.ends.endIdle(20000)
    assert(w.ended === Seq("rest-eve") && w.registry.warnings.limited === 1 && w.ledger.violations() === Nil)
  }

  test("what a job holds is released when it begins to close, and no plan makes it hold again") {
    val w = new World
    val job = w.stage("0.0", 1, "id" -> "x", "priority" -> "5")
    (0 to 1).foreach(i => w.registry.executors.taskLaunched(job, "0.0", 10L + i, i, "e", copy = false, slots = 1, 0))
    w.registry.executors.taskEnded(10, "success", 10)
    assert(w.ledger.heldBy(job) === 1)
    w.registry.ends.markEnded("x", 20)
    assert(w.ledger.heldBy(job) === 0 && w.registry.priority(job) === 5)
    w.registry.applyPlan(w.plans, 30)
    w.registry.executors.taskEnded(11, "success", 40)
    assert(w.ledger.heldBy(job) === 0 && w.ledger.violations() === Nil)
  }

  for (endsFirst <- Seq("stage", "Spark job"))
    test(s"a cancelled action leaves nothing held, also where its $endsFirst ends first; the next action holds again") {
      val w = new World
      def run(n: Int): String = {
        val job = w.stage(s"$n.0", n, "id" -> "x", "priority" -> "5")
        (0 to 1).foreach(i => w.registry.executors.taskLaunched(job, s"$n.0", 10L * n + i, i, "e", copy = false, slots = 1, 0))
        w.registry.executors.taskEnded(10L * n, "success", 10)
        job
      }
      val job = run(1)
      assert(w.ledger.heldBy(job) === 1)
      w.registry.executors.taskEnded(11, "killed", 20)
      val ends = Seq(
        "stage" -> (() => w.registry.stageEnded(job, "1.0", completed = false, 20)),
        "Spark job" -> (() => w.registry.sparkJobEnded(1, failed = true, 20)))
      ends.filter(_._1 == endsFirst).foreach(_._2())
      assert(w.ledger.heldBy(job) === 2, "somebody may need them yet")
      ends.filter(_._1 != endsFirst).foreach(_._2())
      assert(w.ledger.heldBy(job) === 0 && w.ended === Nil)
      run(2)
      assert(w.ledger.heldBy(job) === 1 && w.ledger.violations() === Nil)
    }

  test("slots are held for the reader of a shuffle until a stage that reads it starts, whatever else of the job starts") {
    val w = new World
    val marks = Seq("id" -> "x", "priority" -> "5")
    val writer = unknown.copy(finalOfSparkJob = true, mapStageJob = true, written = Some(DagOutlook.Shuffle(7, 2)))
    val job = w.stage("0.0", 1, writer, marks: _*)
    (0 to 1).foreach(i => w.registry.executors.taskLaunched(job, "0.0", 10L + i, i, "e", copy = false, slots = 1, 0))
    (0 to 1).foreach(i => w.registry.executors.taskEnded(10L + i, "success", 10))
    w.registry.stageEnded(job, "0.0", completed = true, 10)
    assert(w.ledger.heldBy(job) === 2)
    w.stage("1.0", 2, unknown.copy(reads = Set(8)), marks: _*)
    w.registry.executors.offered("f", "h", profile = 0, 4, 20)
    (0 to 1).foreach(i => w.registry.executors.taskLaunched(job, "1.0", 20L + i, i, "f", copy = false, slots = 1, 20))
    assert(w.ledger.heldBy(job) === 2, "those of the reader of shuffle 7")
    w.stage("2.0", 3, unknown.copy(reads = Set(7)), marks: _*)
    (0 to 1).foreach(i => w.registry.executors.taskLaunched(job, "2.0", 30L + i, i, "e", copy = false, slots = 1, 40))
    assert(w.ledger.heldBy(job) === 0)
  }

  test("a failed action leaves held what another action of the job may need") {
    val w = new World
    val job = w.stage("0.0", 1, "id" -> "x", "priority" -> "5")
    w.stage("1.0", 2, "id" -> "x", "priority" -> "5")
    (0 to 1).foreach(i => w.registry.executors.taskLaunched(job, s"$i.0", 10L + i, 0, "e", copy = false, slots = 1, 0))
    w.registry.executors.taskEnded(10, "success", 10)
    w.registry.stageEnded(job, "0.0", completed = false, 10)
    w.registry.sparkJobEnded(1, failed = true, 10)
    assert(w.ledger.heldBy(job) === 1)
    w.registry.executors.taskEnded(11, "success", 20)
    w.registry.stageEnded(job, "1.0", completed = true, 20)
    w.registry.sparkJobEnded(2, failed = false, 20)
    assert(w.ledger.heldBy(job) === 2)
  }

  test("people are shown what a job used by what became of its attempts, and its story stays after its end") {
    val w = new World
    val job = w.stage("0.0", 1, "id" -> "x", "priority" -> "5")
    w.registry.executors.taskLaunched(job, "0.0", 1, 0, "e", copy = false, slots = 2, 100)
    w.registry.executors.taskLaunched(job, "0.0", 2, 1, "e", copy = false, slots = 1, 100)
    w.registry.executors.taskLaunched(job, "0.0", 3, 1, "e", copy = true, slots = 1, 200)
    val Seq(now) = w.registry.jobFacts(300)(s => Some(StageFacts(s.stage, s.name, s.tasks, 0, 3, 0)))
    assert((now.runningSlots, now.copiedSlots, now.times.begunMs, now.priority) === (4, 1, Some(100L), 5))
    assert((now.slotTimes.runMs, now.slotTimes.copiedMs, now.tasks) === (600L, 100L, 2))
    w.registry.executors.taskEnded(1, "killed", 400, evicted = true)
    w.registry.executors.taskEnded(2, "success", 500)
    w.registry.executors.taskEnded(3, "killed", 600)
    w.registry.stageEnded(job, "0.0", completed = false, 600)
    w.registry.ends.markEnded("x", 700)
    assert(w.registry.jobFacts(700)(_ => None) === Nil)
    val Seq(over) = w.registry.stories.endedJobs
    assert((over.slotTimes.runMs, over.slotTimes.evictedMs, over.slotTimes.copiedMs, over.outcome) === (400L, 600L, 400L, Some("failed")))
    assert(w.registry.stories.of(job).map(_.text).take(4) === Seq(
      "submitted", "stage 0.0 of 2 tasks is ready: ", "lost 2 slots to an eviction by the plan",
      "stage 0.0 ended without all of its tasks"))
  }

  test("the story of an evicted job says who took its slots, and that of the other one where they are from") {
    val w = new World
    val (report, vip) = (w.stage("0.0", 1, "name" -> "report"), w.stage("1.0", 2, "name" -> "vip", "priority" -> "5"))
    (0 to 2).foreach(i => w.registry.executors.taskLaunched(report, "0.0", 10L + i, i, "e", copy = false, slots = 1, 0))
    (0 to 1).foreach(i => w.registry.executors.taskEnded(10L + i, "killed", 100L + i, Some(vip), evicted = true))
    w.registry.executors.taskEnded(12, "killed", 100, evicted = true)
    def told(job: String): Seq[String] = w.registry.stories.of(job).map(_.text).filter(_.contains(" slot"))
    assert(told(report) === Seq("lost 2 slots to vip", "lost 1 slot to an eviction by the plan"))
    assert(told(vip) === Seq("took 2 slots from report"))
  }

  test("a thread that outlives its block gives its work to a job that ends with that work") {
    val w = new World
    val job = w.stage("0.0", 1, "id" -> "x")
    w.registry.stageEnded(job, "0.0", completed = true, 10)
    w.registry.ends.markEnded("x", 20)
    assert(w.ended === Seq(job))
    assert(w.stage("1.0", 2, "id" -> "x") === job)
    w.registry.stageEnded(job, "1.0", completed = true, 30)
    assert(w.ended === Seq(job))
  }

  test("a Spark job whose end nobody heard of is over when the DAG scheduler has missed it twice") {
    val w = new World
    val jobs = Seq(1, 2).map(n => w.stage(s"$n.0", n))
    jobs.zip(Seq("1.0", "2.0")).foreach { case (job, stage) => w.registry.stageEnded(job, stage, completed = true, 10) }
    w.registry.endMissing(_ == 1, 1000)
    assert(w.ended === Nil, "once may be chance")
    w.registry.endMissing(_ == 1, 2000)
    assert(w.ended === Seq(jobs(1)))
  }

  test("a stage's retry keeps its index, and a job of any length remembers the latest only") {
    val w = new World
    def index(stage: String): Int =
      w.registry.stageStarted(
        JobMark.from(Map("spark.jobGroup.id" -> "g").get, 1), w.plans, 1, stage, "", 1, unknown, barrier = false,
        restartable = true, shape = TaskShape(), pool = None, _ => None, 0).index
    assert((0 to 2000).map(n => index(s"$n.0")) === (0 to 2000))
    assert(index("2000.1") === 2000 && index("1999.1") === 1999)
    assert(index("0.1") === 2001, "too long ago to be retried")
  }

  for ((how, marks, end) <- Seq[(String, Map[String, String], World => Unit)](
      ("is idle for the gap and marked by its name", Map("spark.sched.job.name" -> "n"), _.registry.ends.endIdle(10021)),
      ("is idle for the gap and a job group", Map("spark.jobGroup.id" -> "g"), _.registry.ends.endIdle(10021)),
      ("is not there any more in its SQL session", Map("spark.sched.job.name" -> "n"), { w =>
        w.registry.ends.sqlSessionSeen("s", Map(JobMark.Prefix + "name" -> "n").get, 20)
        w.registry.ends.sqlSessionSeen("s", Map.empty[String, String].get, 10021)
      }),
      ("is idle at the application's end", Map("spark.sched.job.name" -> "n"), _.registry.ends.applicationEnds(_ => false, 10021))))
    test(s"a job that $how ended with its last activity") {
      val w = new World
      val deadline = Map("spark.sched.job.deadline" -> java.time.Instant.ofEpochMilli(5000).toString)
      val mark = JobMark.from((marks ++ deadline).get, 1, origin = Origin.of("s", marks - "spark.jobGroup.id"))
      val job = w.registry.stageStarted(
        mark, w.plans, 1, "0.0", "", 2, unknown, barrier = false, restartable = true, shape = TaskShape(), pool = None, _ => None, 0).job
      w.registry.stageEnded(job, "0.0", completed = true, 15)
      w.registry.sparkJobEnded(1, failed = false, 20)
      end(w)
      val Seq(told) = w.queue.poll(1000, 0).events.collect { case e: Event.JobEnded => e }
      assert((told.timeMs, told.endedMs) === (10021L, Some(20L)))
      assert(w.registry.stories.endedJobs.map(_.times.endedMs) === Seq(Some(20L)))
      assert(w.registry.stories.of(job).last.text.contains(" after 0.0 s,"))
      val sums = w.registry.sums.byClass.beside(Nil, 10021)("none")
      assert((sums.jctMs, sums.deadlinesMet, sums.deadlinesMissed) === (20L, 1L, 0L))
    }

  test("a new planner is told which tasks of a stage have ended well") {
    val w = new World
    val job = w.stage("0.0", 1)
    def done: Seq[Seq[Int]] = w.registry.state(0).collect { case e: Event.StageStarted => e.done }
    (0 to 1).foreach(i => w.registry.executors.taskLaunched(job, "0.0", 10L + i, i, "e", copy = false, slots = 1, 0))
    w.registry.executors.taskEnded(10, "failed", 10)
    assert(done === Seq(Nil))
    w.registry.executors.taskEnded(11, "success", 20)
    assert(done === Seq(Seq(1)))
    // Its output went with an executor.
    w.registry.executors.taskUndone(job, "0.0", 1, None, 30)
    assert(done === Seq(Nil))
    (0 to 1).foreach(i => w.registry.executors.taskLaunched(job, "0.0", 20L + i, i, "e", copy = false, slots = 1, 40))
    (0 to 1).foreach(i => w.registry.executors.taskEnded(20L + i, "success", 50))
    assert(done === Seq(Seq(0, 1)), "the stage goes on until their results are read")
  }

  test("a new planner is told that a stage that was given up waits for nothing, though a task of it runs") {
    val w = new World
    val job = w.stage("0.0", 1)
    w.registry.executors.taskLaunched(job, "0.0", 10, 0, "e", copy = false, slots = 1, 0)
    def told: Seq[Event] = w.registry.state(0).filter(e => e.isInstanceOf[Event.TaskLaunched] || e.isInstanceOf[Event.StageEnded])
    assert(told.map(_.kind) === Seq("task_launched"))
    w.registry.stageGivenUp(job, "0.0", completed = false, 10)
    assert(told.map(_.kind) === Seq("task_launched", "stage_ended"))
    w.registry.executors.taskEnded(10, "killed", 20)
    w.registry.stageEnded(job, "0.0", completed = false, 20)
    assert(w.queue.poll(1000, 0).events.count(_.isInstanceOf[Event.StageEnded]) === 1 && told === Nil)
  }

  test("a job whose block says that it is over ends then") {
    val w = new World
    val job = w.stage("0.0", 1, "id" -> "x")
    w.registry.stageEnded(job, "0.0", completed = true, 10)
    w.registry.sparkJobEnded(1, failed = false, 10)
    w.registry.ends.markEnded("x", 500)
    assert(w.queue.poll(1000, 0).events.collect { case e: Event.JobEnded => e.timeMs -> e.endedMs } === Seq(500L -> None))
    assert(w.registry.stories.endedJobs.map(_.times.endedMs) === Seq(Some(500L)))
  }

  test("each sentence about bad marks is logged once, whichever job comes with it, and each job's are counted") {
    val w = new World
    val said = LoggedLines.of(w.registry.warnings.getClass.getName) {
      Seq("high", "higher", "high").zipWithIndex.foreach { case (priority, n) =>
        w.stage(s"$n.0", n, "name" -> s"n$n", "priority" -> priority)
      }
      w.stage("3.0", 3, "name" -> "n0", "priority" -> "a\nb") // Of a job that is there already.
      val properties = new java.util.Properties
      properties.setProperty("spark.sched.job.priorty", "10")
      val unknown = w.registry.markOf(4, key => Option(properties.getProperty(key)), properties, 0).warnings
      assert(unknown.map(_.sentence) === Seq("unknown local property spark.sched.job.priorty: did you mean spark.sched.job.priority?"))
    }
    assert(said.map(_.takeWhile(_ != ',')) === Seq("high", "higher", "a b").map(text =>
      s"spark_sched: spark.sched.job.priority is '$text' but must be a whole number from -2147483648 to 2147483647"))
    assert((w.registry.warnings.ignored, w.registry.warnings.limited) === ((3L, 0L)))
  }

  test("what a job holds in shadow mode is told apart from what it holds") {
    val w = new World("spark.sched.mode" -> Modes.Shadow)
    val job = w.stage("0.0", 1, "id" -> "x", "priority" -> "5")
    (0 to 1).foreach(i => w.registry.executors.taskLaunched(job, "0.0", 10L + i, i, "e", copy = false, slots = 1, 0))
    w.registry.executors.taskEnded(10, "success", 10)
    def times(nowMs: Long): (Long, Long) = {
      val Seq(one) = w.registry.jobFacts(nowMs)(_ => None)
      assert(one.slotTimes.byName.toMap.getOrElse("would_have_held_idle", 0L) === one.slotTimes.wouldHaveHeldMs)
      assert(w.registry.heldIdleByOwner(nowMs).map(_.heldMs) === Seq(one.slotTimes.heldIdleMs))
      (one.slotTimes.heldIdleMs, one.slotTimes.wouldHaveHeldMs)
    }
    def switch(mode: String, nowMs: Long): Unit =
      w.registry.switch(Event.SchedulingChanged(nowMs, "reservation", mode, reservationsPaused = false, "a test"), w.plans)
    assert(w.ledger.heldBy(job) === 1 && times(30) === ((0L, 20L)))
    switch(Modes.On, 40)
    assert(times(50) === ((10L, 30L)))
    switch(Modes.Shadow, 60)
    assert(times(65) === ((20L, 35L)))
    w.registry.executors.taskEnded(11, "success", 70)
    w.registry.ends.markEnded("x", 70)
    w.registry.stageEnded(job, "0.0", completed = true, 70)
    val sums = w.registry.sums.byClass.beside(Nil, 100)("none").times
    assert((sums.heldIdleMs, sums.wouldHaveHeldMs) === ((20L, 40L)))
  }

  test("what a job holds is shown beside what equation 4 expects of it, where its isolation level bounds that") {
    val w = new World
    def timesAt(isolation: String): SlotTimes = {
      val job = w.stage(s"$isolation.0", isolation.hashCode, "id" -> isolation, "priority" -> "5", "isolation" -> isolation)
      (0 to 1).foreach(i => w.registry.executors.taskLaunched(job, s"$isolation.0", s"1$i$isolation".hashCode, i, "e", copy = false, slots = 1, 0))
      (0 to 1).foreach(i => w.registry.executors.taskEnded(s"1$i$isolation".hashCode, "success", 1000L + 500L * i))
      w.registry.stageEnded(job, s"$isolation.0", completed = true, 1500)
      w.registry.jobFacts(1500)(_ => None).find(_.mark.key == job).get.slotTimes
    }
    val half = timesAt("0.5")
    assert(half.heldAtMostMs > 0 && half.byName.toMap.apply("held_idle_at_most") === half.heldAtMostMs)
    assert(half.inWords(_.toString).contains(s"held idle (by equation 4 at most ${half.heldAtMostMs})"))
    val logged = new ObjectMapper().valueToTree[JsonNode](half.byName.toMap.asJava)
    assert(SlotTimes.ofNode(logged) === half, "the history server reads the event log")
    val whole = timesAt("1.0")
    assert(whole.heldIdleMs > 0 && !whole.byName.toMap.contains("held_idle_at_most"))
    assert((half + whole).heldAtMostMs === 0, "a sum has jobs without a bound")
    // The rule in force while a job is on hold, closing or paused has level 0, which bounds nothing that was held before.
    val key = w.registry.marksOf("1.0").map(_.key).head
    w.ledger.ruleChanged(key, w.ledger.ruleOf(key).get.copy(isolation = 0.0), 1600)
    assert(w.registry.jobFacts(1600)(_ => None).find(_.mark.key == key).get.slotTimes.heldAtMostMs === 0)
  }

  private def outcomes(w: World): Seq[Option[String]] = w.registry.stories.endedJobs.map(_.outcome)

  test("a job is what became of its last action: it failed, was cancelled by an operator, or neither") {
    val w = new World
    def action(id: String, n: Int, failed: Boolean, cancelled: Boolean): Unit = {
      val job = w.stage(s"$n.0", n, "id" -> id)
      if (cancelled) w.registry.cancelled(job)
      w.registry.stageEnded(job, s"$n.0", completed = !failed, 10)
      w.registry.sparkJobEnded(n, failed, 10)
    }
    def became(id: String, actions: (Boolean, Boolean)*): String = {
      actions.zipWithIndex.foreach { case ((failed, cancelled), n) => action(id, n, failed, cancelled) }
      w.registry.ends.markEnded(id, 20)
      outcomes(w).last.get
    }
    assert(became("a", true -> false) === "failed")
    assert(became("b", true -> true) === "cancelled")
    assert(became("c", true -> false, false -> false) === "ended")
    assert(became("d", true -> true, true -> false) === "failed", "the later action failed by itself")
    assert(became("e", false -> true) === "ended", "it was done before it could be cancelled")
    val told = w.queue.poll(1000, 0).events.collect { case e: Event.JobEnded => e.outcome }
    assert(told === Seq.fill(5)("ended"), "the planner is told as before")
  }

  test("a block that is over before the listener bus tells of its Spark job is what became of its last stage") {
    val w = new World
    for ((completed, cancelled, outcome) <- Seq((false, false, "failed"), (true, false, "ended"), (false, true, "cancelled"))) {
      val id = s"$outcome-1"
      val job = w.stage("1.0", 1, "id" -> id)
      if (cancelled) w.registry.cancelled(job)
      w.registry.stageEnded(job, "1.0", completed, 10)
      w.registry.ends.markEnded(id, 20)
      assert(outcomes(w).last === Some(outcome))
    }
  }

  test("a query is what Spark SQL says of it, whatever became of its Spark jobs") {
    val w = new World
    val failed = for ((sparkJobFailed, queryFailed) <- Seq((true, false), (false, true))) yield {
      val mark = JobMark.from(Map("spark.sql.execution.id" -> "7").get, 1)
      val job = w.registry.stageStarted(
        mark, w.plans, 1, "0.0", "", 2, unknown, barrier = false, restartable = true, shape = TaskShape(), pool = None, _ => None, 0).job
      w.registry.stageEnded(job, "0.0", completed = true, 10)
      w.registry.sparkJobEnded(1, sparkJobFailed, 10)
      w.registry.ends.sqlExecutionEnded(7, queryFailed, 20)
      outcomes(w)
    }
    assert(failed === Seq(Seq(Some("ended")), Seq(Some("failed"))))
  }

  test("a micro-batch ends when the next one starts, and the last one with its query") {
    val w = new World
    def batch(n: Int): String = {
      val property = Map("sql.streaming.queryId" -> "q", "streaming.sql.batchId" -> n.toString).get(_)
      val mark = JobMark.from(property, n)
      val key = w.registry.stageStarted(
        mark, w.plans, n, s"$n.0", "", 2, unknown, barrier = false, restartable = true, shape = TaskShape(), pool = None, property,
        n * 100).job
      w.registry.stageEnded(key, s"$n.0", completed = true, n * 100 + 50)
      w.registry.sparkJobEnded(n, failed = false, n * 100 + 50)
      key
    }
    val batches = (0 to 2).map(batch)
    assert(batches.distinct.size === 3 && w.ended === batches.take(2))
    w.registry.ends.seriesEnded("stream-q", 400)
    w.registry.ends.seriesEnded("stream-q", 500)
    assert(w.ended === batches.drop(2))
  }

  test("a session that drops its mark ends the job, and the name may come again") {
    val w = new World
    val marks = Map(JobMark.Prefix + "name" -> "report", JobMark.Prefix + "priority" -> "5")
    def statement(n: Int): String = {
      val key = w.stageSetIn("s", s"$n.0", n, "name" -> "report", "priority" -> "5")
      (0 to 1).foreach(i => w.registry.executors.taskLaunched(key, s"$n.0", 10L * n + i, i, "e", copy = false, slots = 1, 0))
      (0 to 1).foreach(i => w.registry.executors.taskEnded(10L * n + i, "success", 10))
      w.registry.stageEnded(key, s"$n.0", completed = true, 10)
      w.registry.sparkJobEnded(n, failed = false, 10)
      w.registry.ends.sqlSessionSeen("s", marks.get, 10)
      key
    }
    val key = statement(1)
    assert(key === "mark-name-session-s-report" && w.ledger.heldBy(key) === 2)
    w.registry.ends.sqlSessionSeen("s", Map.empty[String, String].get, 20)
    assert(w.ended === Seq(key) && w.ledger.heldSlots === 0)
    assert(statement(2) === key && w.ledger.heldBy(key) === 2)
  }

  test("a session that SETs the key of another's job, in any spelling, neither joins nor ends it") {
    val w = new World
    w.registry.users.learned("a", "alice")
    w.registry.users.learned("e", "eve")
    val alices = w.stageSetIn("a", "0.0", 0, "id" -> "nightly")
    assert(alices === "mark-5-alice-nightly")
    for ((id, n) <- Seq("nightly", "5-alice-nightly", "mark-5-alice-nightly").zipWithIndex; ran <- Seq(false, true)) {
      val set = Map(JobMark.Prefix + "id" -> id)
      if (ran) assert(w.stageSetIn("e", s"${n + 1}.0", n + 1, "id" -> id) === s"mark-3-eve-$id")
      w.registry.ends.sqlSessionSeen("e", set.get, 10)
      w.registry.ends.sqlSessionSeen("e", Map.empty[String, String].get, 20)
      w.registry.sparkJobEnded(n + 1, failed = false, 30)
    }
    assert(!w.ended.contains(alices) && w.registry.arrival(alices) === 1)
  }
}
