package org.apache.spark.scheduler.sparksched
package jobs

import scala.collection.mutable

import org.scalatest.funsuite.AnyFunSuite
import org.apache.spark.scheduler.sparksched.operators.StatusSource
import org.apache.spark.scheduler.sparksched.planner.ReceivedPlans
import schedcore.enforce.QueueUsage
import schedcore.events.{Event, EventQueue, HeldSlotEvents}
import schedcore.ledger.{Ledger, TaskShape}
import schedcore.marks.JobMark
import schedcore.settings.{Modes, QueueTree, Settings}
import schedcore.status.StageFacts

/** Jobs that wait in their queues, are refused, and come back. */
final class QueuedJobsSuite extends AnyFunSuite {
  private val noLater = "queue q runs 1 job, its most, and as many jobs wait as may"

  private final class World(limits: String, mode: String = Modes.On) {
    private val queue = new EventQueue(1000, () => 0L, body => body(Nil))
    private val ledger = new Ledger(new HeldSlotEvents(queue))
    private val plans = new ReceivedPlans(400)
    private var modeNow = mode
    val cancelled = mutable.ArrayBuffer.empty[(Int, String)]
    val usage = new QueueUsage(QueueTree.parse(s"""{"queues":[{"queue":"q",$limits}],"rules":[],"default":"q"}"""))
    val queued = new QueuedJobs(usage, ledger, (sparkJob, why) => if (modeNow == Modes.On) cancelled += sparkJob -> why)
    val registry = new Registry(
      Settings.from(Map("spark.sched.mode" -> mode)), ledger, queue, "me", _ => (), (_, _, _) => (), queued = Some(queued))
    registry.executors.offered("e", "h", profile = 0, 4, 0)

    def stage(sparkJob: Int, atMs: Long, name: String, marks: (String, String)*): String = {
      val property = marks.map { case (k, v) => JobMark.Prefix + k -> v }.toMap.get(_)
      registry.stageStarted(
        JobMark.from(property, sparkJob), plans, sparkJob, name, "", 2, DagOutlook(None, Nil, finalOfSparkJob = false, mapStageJob = false),
        barrier = false, restartable = true, shape = TaskShape(), pool = None, property, atMs).job
    }

    def stage(sparkJob: Int, atMs: Long, marks: (String, String)*): String = stage(sparkJob, atMs, s"$sparkJob.0", marks: _*)

    def ends(job: String, sparkJob: Int, atMs: Long): Unit = {
      registry.stageEnded(job, s"$sparkJob.0", completed = true, atMs)
      registry.sparkJobEnded(sparkJob, failed = false, atMs)
    }

    def switchTo(next: String, atMs: Long): Unit = {
      modeNow = next
      registry.switch(Event.SchedulingChanged(atMs, "fifo", next, false, "ann"), plans)
    }

    def refusals: Int = usage.uses.map(_.refused).sum
    def story(job: String): Seq[String] = registry.stories.of(job).map(_.text)
  }

  private val onePlace = """"max_running_jobs":1,"max_waiting_jobs":0"""

  test("a Spark job that begins before the end of the previous one is known gets its place") {
    val w = new World(onePlace)
    val first = w.stage(1, 0)
    val second = w.stage(2, 10)
    assert(!w.usage.admitted(second) && w.queued.waits(second, 1) === Some(s"has no place: $noLater"))
    w.registry.refuseOverdue(500)
    w.ends(first, 1, 600)
    assert(w.usage.admitted(second) && w.registry.admissions === 1 && w.story(second).contains("its queue admits it"))
    w.registry.refuseOverdue(5000)
    assert(w.cancelled === Nil && w.refusals === 0)
  }

  test("a job without a place is cancelled about a second later, and says so until it is gone") {
    val w = new World(onePlace)
    w.stage(1, 0)
    val second = w.stage(2, 10, "id" -> "x")
    w.stage(2, 20, "3.0", "id" -> "x")
    w.registry.refuseOverdue(1009)
    assert(w.cancelled === Nil)
    w.registry.refuseOverdue(1010)
    w.registry.refuseOverdue(2010)
    assert(w.cancelled === Seq(2 -> s"job mark-x: $noLater") && w.refusals === 1)
    assert(w.queued.waits(second, 1) === Some(s"refused: $noLater") && w.story(second).contains(s"refused: $noLater"))
    // A further stage of the cancelled Spark job, then a later Spark job.
    w.stage(2, 2020, "4.0", "id" -> "x")
    assert(w.cancelled.map(_._1) === Seq(2, 2))
    w.stage(5, 2030, "id" -> "x")
    w.registry.refuseOverdue(2040)
    assert(w.cancelled.map(_._1) === Seq(2, 2) && w.queued.waits(second, 1) === Some(s"has no place: $noLater"))
  }

  test("a job that waited for too long says that, also when a further stage of it begins") {
    val w = new World(""""max_running_jobs":1,"wait_timeout":"1s"""")
    w.stage(1, 0)
    val second = w.stage(2, 0)
    assert(w.queued.waits(second, 1) === Some("waits to be admitted: queue q runs 1 job, its most; number 1 of those that wait"))
    w.registry.refuseOverdue(1000)
    val why = "it waited for wait_timeout, and queue q runs 1 job, its most"
    w.stage(2, 1010, "3.0")
    assert(w.cancelled.map(_._1) === Seq(2, 2) && w.cancelled.forall(_._2.endsWith(why)))
    assert(w.queued.waits(second, 1) === Some(s"refused: $why"))
  }

  for (mode <- Seq(Modes.Shadow, Modes.Off); limits <- Seq(onePlace, """"max_running_jobs":1,"wait_timeout":"1s""""))
    test(s"a job that was refused in mode $mode and runs gets a place when the mode is on, or is cancelled: $limits") {
      for (isFull <- Seq(false, true)) {
        val w = new World(limits, mode)
        val first = w.stage(1, 0)
        val second = w.stage(2, 0)
        w.registry.refuseOverdue(1000)
        assert(w.refusals === 1 && w.cancelled === Nil)
        if (!isFull) w.ends(first, 1, 2000)
        w.switchTo(Modes.On, 3000)
        assert(w.usage.admitted(second) === !isFull)
        w.registry.refuseOverdue(4000)
        w.registry.refuseOverdue(5000)
        assert(w.cancelled.map(_._1) === (if (isFull) Seq(2) else Nil))
      }
    }

  for (marks <- Seq(Nil, Seq("id" -> "x")))
    test(s"a stage of a job that was cancelled before its admission runs for the other job that needs it, marks: $marks") {
      val w = new World(""""max_running_jobs":1""")
      w.stage(1, 0)
      val second = w.stage(2, 0, marks: _*)
      assert(w.usage.room(second, _ => false) === 0)
      w.registry.sparkJobEnded(2, failed = true, 10)
      assert(w.usage.room(second, _ => false) === QueueUsage.Unlimited && w.registry.admissions === 1)
      assert(w.usage.uses.head.waiting === 0)
      if (marks.nonEmpty) {
        w.stage(3, 20, marks: _*)
        assert(!w.usage.admitted(second) && w.usage.position(second) === 1, "its next Spark job waits again")
      }
    }

  test("a priority that a queue lowers is in the job's story and among its warnings; one that nobody set is no fault") {
    val w = new World(""""max_priority":3""")
    val job = w.stage(1, 0, "id" -> "x", "priority" -> "5")
    val lowered = "spark.sched.job.priority is 5 but max_priority of queue q is 3: lowered to it"
    assert(w.story(job).contains(s"mark: $lowered"))
    assert(w.registry.jobFacts(0)(_ => None).flatMap(_.mark.warnings).map(_.sentence) === Seq(lowered))
    val below = new World(""""max_priority":-2""")
    val plain = below.stage(1, 0)
    assert(below.registry.priority(plain) === -2 && below.registry.warnings.limited === 0)
    assert(below.registry.jobFacts(0)(_ => None).flatMap(_.mark.warnings) === Nil)
    val byUser = new World(""""max_priority":3,"max_priorities":[{"user":"ann","max_priority":9}]""")
    val jobs = Seq("ann", "bob").zipWithIndex.map { case (user, n) => byUser.stage(n, 0, "id" -> user, "user" -> user, "priority" -> "12") }
    assert(jobs.map(byUser.registry.priority) === Seq(9, 3))
    assert(byUser.story(jobs.head).contains(
      "mark: spark.sched.job.priority is 12 but max_priority of queue q is 9 for user ann: lowered to it"))
  }

  test("places among many that wait follow priority and arrival, also after one changes and one leaves") {
    val w = new World(""""max_running_jobs":1""")
    w.stage(1, 0)
    val jobs = (2 to 501).map(w.stage(_, 0))
    assert(jobs.map(w.usage.position) === (1 to 500))
    w.usage.ranked(jobs.last, 5)
    w.usage.left(jobs(1))
    assert(Seq(jobs.last, jobs.head, jobs(1), jobs(2)).map(w.usage.position) === Seq(1, 2, 0, 3))
  }

  test("a job's story has its place when it came and how long it waited, and none of the places between") {
    val w = new World(""""max_running_jobs":1""")
    val jobs = (1 to 4).map(w.stage(_, 1000))
    def look(atMs: Long): Unit = w.registry.jobFacts(atMs)(_ => None).foreach { job =>
      val waits = w.registry.queueWaits(job.mark.key, 1, None)
      w.registry.stories.look(job.copy(stages = Seq(StageFacts("1.0", "", 2, 0, 0, 2)),
        plan = job.plan.copy(queue = job.plan.queue.copy(waits = waits))), atMs)
    }
    look(2000)
    for (n <- 0 to 2) {
      w.ends(jobs(n), n + 1, 3000 + 15500 * n)
      look(3500 + 15500 * n)
    }
    val waits = "waits to be admitted: queue q runs 1 job, its most"
    assert(w.story(jobs(3)) === Seq(
      "submitted", s"$waits; number 3 of those that wait", "stage 4.0 of 2 tasks is ready: ", s"$waits, wants 2 slots",
      "its queue admits it after 33 s; it came as number 3 of those that waited", "waiting for slots, wants 2 slots"))
  }

  test("changed queues keep the jobs that they have, place the others again, and admit those that may run now") {
    val w = new World(onePlace.replace(""""max_waiting_jobs":0""", """"max_waiting_jobs":5"""))
    val Seq(first, second, third) = Seq(1, 2, 3).map(w.stage(_, 0))
    assert(Seq(first, second, third).map(w.usage.admitted) === Seq(true, false, false))
    w.registry.queuesChanged(QueueTree.parse("""{"queues":[{"queue":"q","max_running_jobs":2}],"rules":[],"default":"q"}"""), 10)
    assert(Seq(first, second, third).map(w.usage.admitted) === Seq(true, true, false) && w.registry.admissions === 1)
    assert(w.story(second).last.startsWith("its queue admits it after 0 s; it came as number 1"))
    val next = """{"queues":[{"queue":"other","max_running_jobs":1,"ceiling":1},{"queue":"rest"}],"rules":[{"queue":"other","user":"me"}],"default":"rest"}"""
    w.registry.queuesChanged(QueueTree.parse(next), 20)
    assert(w.usage.queueOf(first) === Some("other") && w.story(first).last === "its queue q is gone, and it is in queue other")
    // Two run, which is more than may, and none of them stops.
    assert(Seq(first, second, third).map(w.usage.admitted) === Seq(true, true, false) && w.usage.ceiling("other") === 1)
    w.ends(first, 1, 30)
    assert(!w.usage.admitted(third) && w.usage.violations() === Nil)
    w.ends(second, 2, 40)
    assert(w.usage.admitted(third))
  }

  test("jobs that came before there were queues run on in the queues that come, and after these are gone nobody waits") {
    val w = new World(onePlace)
    val tree = w.usage.tree
    w.registry.queuesChanged(QueueTree.Empty, 0)
    val jobs = Seq(1, 2).map(w.stage(_, 0))
    assert(w.usage.admitted(jobs(1)) && w.queued.waits(jobs(1), 1).isEmpty && w.queued.pathOf(jobs(1)).isEmpty)
    assert(w.usage.room(jobs(1), _ => false) === QueueUsage.Unlimited && w.usage.claim(jobs(1), 7, mutable.HashMap.empty, _ => false) === 7)
    w.usage.launched(jobs(1), 3)
    w.stage(1, 5, "1.1") // a second stage is no second entry
    w.registry.queuesChanged(tree, 10)
    assert(jobs.map(w.usage.queueOf) === Seq(Some("q"), Some("q")) && jobs.forall(w.usage.admitted))
    assert(w.usage.uses.map(use => (use.jobs, use.running)) === Seq((2, 3)) && w.usage.violations() === Nil)
    assert(w.story(jobs(1)).last === "the application has queues from now on, and it is in queue q")
    val third = w.stage(3, 20)
    assert(!w.usage.admitted(third))
    w.registry.queuesChanged(QueueTree.Empty, 30)
    assert(w.usage.admitted(third) && w.queued.waits(third, 1).isEmpty && w.registry.admissions === 1)
    assert(w.story(third).contains("the application has no queues any more"))
    w.registry.refuseOverdue(5000)
    assert(w.cancelled === Nil)
  }

  test("a user whose groups are unknown has no right of a group, and the job's story says so") {
    val tree = QueueTree.parse("""{"queues":[{"queue":"bi","groups":["bi"]},{"queue":"rest"}],"rules":[{"queue":"bi"}],"default":"rest"}""")
    val known = mutable.HashMap("ann" -> Set("staff", "bi"), "bob" -> Set("staff"))
    val queue = new EventQueue(1000, () => 0L, body => body(Nil))
    val ledger = new Ledger(new HeldSlotEvents(queue))
    val usage = new QueueUsage(tree)
    val registry = new Registry(Settings.from(Map.empty[String, String]), ledger, queue, "me", _ => (), (_, _, _) => (),
      queued = Some(new QueuedJobs(usage, ledger, (_, _) => (), known.get)))
    val jobs = Seq("ann", "bob", "eve").zipWithIndex.map { case (user, n) =>
      val property = Map(JobMark.Prefix + "user" -> user).get(_)
      registry.stageStarted(
        JobMark.from(property, n), new ReceivedPlans(400), n, s"$n.0", "", 2, DagOutlook(None, Nil, finalOfSparkJob = false, mapStageJob = false),
        barrier = false, restartable = true, shape = TaskShape(), pool = None, property, 0L).job
    }
    assert(jobs.map(usage.queueOf) === Seq(Some("bi"), Some("rest"), Some("rest")))
    val unknown = jobs.map(job => registry.stories.of(job).map(_.text).filter(_.contains("are unknown")))
    assert(unknown === Seq(Nil, Nil, Seq("the groups of user eve are unknown: queues, rules and priorities by group do not count for this job")))
  }

  test("a ceiling that is a share is too low for good only where no further executors may come") {
    def said(ceiling: String, capacity: (Int, Int), asksForExecutors: Boolean): Option[String] = {
      val w = new World(ceiling)
      w.queued.capacity(capacity._2)
      val job = w.stage(1, 0)
      StatusSource.tooFewSlots(4, capacity, asksForExecutors)(w.registry.queueTooNarrow(job, 4, _)).map(_._1)
    }
    val (share, number) = (""""ceiling":"50 %"""", """"ceiling":3""")
    assert(said(share, (0, 0), asksForExecutors = false) === None, "executors have yet to come")
    assert(said(share, (1, 2), asksForExecutors = true) === None, "more executors may come")
    assert(said(share, (1, 2), asksForExecutors = false) === Some("queue q has at most 1"))
    assert(said(share, (2, 8), asksForExecutors = false) === None)
    for (capacity <- Seq((0, 0), (1, 2), (2, 8)); asks <- Seq(false, true))
      assert(said(number, capacity, asks) === Some("queue q has at most 3"))
    assert(said(""""weight":1""", (1, 2), asksForExecutors = false) === Some("the executors have 2"))
    assert(said(""""weight":1""", (1, 2), asksForExecutors = true) === None)
  }

  test("below a ceiling that is a share, one in slots is named while executors may come") {
    val tree = """{"queues":[{"queue":"a","ceiling":"50 %"},{"queue":"a.b","ceiling":2}],"rules":[],"default":"a.b"}"""
    val w = new World(""""weight":1""")
    val job = w.stage(1, 0)
    w.registry.queuesChanged(QueueTree.parse(tree), 1)
    w.queued.capacity(4)
    assert(w.queued.tooNarrow(job, 4, mayGrow = true) === Some("a.b" -> 2))
    assert(w.queued.tooNarrow(job, 4, mayGrow = false) === Some("a" -> 2))
  }

  test("the place of a newcomer costs no memory for each of those that wait") {
    val w = new World(""""max_running_jobs":1""")
    def begins(job: Int): Option[String] = {
      val mark = JobMark.from(Map(s"${JobMark.Prefix}priority" -> (job % 7).toString).get(_), job)
      w.queued.began(mark, arrival = job, nowMs = job)
    }
    val threads = java.lang.management.ManagementFactory.getThreadMXBean.asInstanceOf[com.sun.management.ThreadMXBean]
    def allocated(body: => Unit): Long = {
      val before = threads.getThreadAllocatedBytes(Thread.currentThread.getId)
      body
      threads.getThreadAllocatedBytes(Thread.currentThread.getId) - before
    }
    (0 to 5000).foreach(begins)
    var said = Option.empty[String]
    val bytes = allocated { said = begins(5006) }
    assert(said === Some("waits to be admitted: queue q runs 1 job, its most; number 4287 of those that wait"))
    assert(bytes < 50000, "less than a list of those that wait")
  }
}
