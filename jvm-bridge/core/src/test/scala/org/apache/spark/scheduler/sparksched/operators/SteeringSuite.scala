package org.apache.spark.scheduler.sparksched
package operators

import java.net.URI
import java.net.http.{HttpClient, HttpRequest, HttpResponse}
import java.util.concurrent.{CountDownLatch, TimeUnit}

import scala.concurrent.{Await, Future}
import scala.concurrent.ExecutionContext.Implicits.global
import scala.concurrent.duration._
import scala.util.Try

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import jakarta.servlet.{Filter, FilterChain, ServletRequest, ServletResponse}
import jakarta.servlet.http.{HttpServletRequest, HttpServletRequestWrapper}
import org.apache.spark.{SparkConf, SparkContext}
import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite
import schedcore.status.{ExecutorFacts, HeldFor}

/** A running application is changed over its UI and from its own process. */
final class SteeringSuite extends AnyFunSuite with BeforeAndAfterAll {
  private lazy val context = new SparkContext(new SparkConf()
    .setMaster("spark-sched:local[2]").setAppName("steered").set("spark.ui.port", "0").set("spark.ui.showConsoleProgress", "false")
    .set("spark.sched.planner.enabled", "false")
    // Requests without the header are nobody's, whom Spark's own checks let in.
    .set("spark.ui.filters", classOf[UserOfHeader].getName).set("spark.acls.enable", "true")
    .set("spark.ui.view.acls", "ada,grace").set("spark.modify.acls", "ada")
    // What nobody ends stays until a test ends it, however slow the machine is.
    .set("spark.sched.reservation.gap", "1h"))
  private lazy val scheduler = context.taskScheduler.asInstanceOf[SchedTaskScheduler]
  private val mapper = new ObjectMapper

  override def afterAll(): Unit = context.stop()

  private def post(action: String, body: String, user: String = "ada"): (Int, JsonNode) = {
    val request = HttpRequest.newBuilder(URI.create(s"${context.uiWebUrl.get}/sched/api/v1/steer/$action"))
      .header(SteeringServlet.Header, "1").header(UserOfHeader.Name, user).POST(HttpRequest.BodyPublishers.ofString(body)).build()
    val answer = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString())
    (answer.statusCode, mapper.readTree(answer.body))
  }

  private def steer(action: String, arguments: String = "{}"): JsonNode = mapper.readTree(SparkSched.steer(context, action, arguments))

  private def status: JsonNode = mapper.readTree(SparkSched.status(context))
  private def job(name: String): Option[JsonNode] =
    (0 until status.path("jobs").size).map(status.path("jobs").get(_)).find(_.path("name").asText == name)

  /** The latest job of this name, with its story. */
  private def told(name: String): JsonNode = {
    val jobs = mapper.readTree(SparkSched.explain(context, name)).path("jobs")
    jobs.get(jobs.size - 1)
  }

  private def until(what: String)(so: => Boolean): Unit = {
    val end = System.nanoTime() + TimeUnit.MINUTES.toNanos(10)
    while (!so && System.nanoTime() < end) Thread.sleep(5)
    assert(so, what)
  }

  /** A job of six tasks on two slots: each ends when it is let go. */
  private def started(name: String): Future[Unit] = {
    SteeringSuite.letGo = new CountDownLatch(1)
    Future {
      context.setLocalProperty("spark.sched.job.name", name)
      context.setLocalProperty("spark.sched.job.priority", "3")
      context.parallelize(0 until 6, 6).foreach(SteeringSuite.task)
    }
  }

  private def get(path: String): String = HttpClient.newHttpClient().send(
    HttpRequest.newBuilder(URI.create(context.uiWebUrl.get + path)).build(), HttpResponse.BodyHandlers.ofString()).body

  /** The status of an answer to this user. */
  private def asked(user: String, path: String, action: Option[String] = None): Int = {
    val request = HttpRequest.newBuilder(URI.create(context.uiWebUrl.get + path)).header(UserOfHeader.Name, user).header(SteeringServlet.Header, "1")
    val sent = action.fold(request)(body => request.POST(HttpRequest.BodyPublishers.ofString(body)))
    HttpClient.newHttpClient().send(sent.build(), HttpResponse.BodyHandlers.discarding()).statusCode
  }

  test("only who is in the view ACLs sees anything, and only who is in the modify ACLs changes anything") {
    assert(scheduler.steering.mode === "on")
    Seq("/jobs/", "/scheduling/", "/scheduling/job/?name=x", "/sched/api/v1/status", "/sched/api/v1/steering.js").foreach { path =>
      assert(asked("eve", path) === 403, path)
      assert(asked("grace", path) === 200, path)
    }
    val pause = "/sched/api/v1/steer/pause"
    assert(Seq("eve", "grace").map(asked(_, pause, Some("{}"))) === Seq(403, 403))
    assert(!scheduler.steering.reservationsPaused)
    // A request that no filter gave a user: Spark shows its pages to it, but it changes nothing.
    val nobody = HttpClient.newHttpClient().send(
      HttpRequest.newBuilder(URI.create(context.uiWebUrl.get + pause)).header(SteeringServlet.Header, "1")
        .POST(HttpRequest.BodyPublishers.ofString("{}")).build(), HttpResponse.BodyHandlers.ofString())
    assert(nobody.statusCode === 403 && nobody.body.contains("set spark.ui.filters to a filter that authenticates users"))
    // The attribute of a button, which the style of the page names without a value.
    assert(!scheduler.steering.reservationsPaused && !get("/scheduling/").contains("data-sched-action="))
    assert(asked("ada", pause, Some("{}")) === 200 && scheduler.steering.reservationsPaused)
    assert(asked("ada", "/sched/api/v1/steer/unpause", Some("{}")) === 200)
  }

  test("the tab draws what executors' slots were for, and whom they were held for") {
    val facts = ExecutorFacts("driver", "node", 4, 2, Seq(HeldFor("a", "<report>", 1)), copiedSlots = 1)
    scheduler.status.timeline.sample(Seq(facts), System.currentTimeMillis() - 60000)
    val done = started("drawn")
    until("two tasks were to run")(job("drawn").exists(_.at("/slots/running").asInt == 2))
    val page = get("/scheduling/")
    assert(page.contains("1 running, 1 copy, 1 held for &lt;report&gt; of 4 slots"))
    assert(Seq("running", "copies", "held").forall(kind => page.contains(s"""<rect class="sched-$kind""")))
    assert(get("/sched/api/v1/timeline.js").contains("sched-slots") && get("/sched/api/v1/steering.js").contains("sched-answer"))
    SteeringSuite.letGo.countDown()
    Await.result(done, 10.minutes)
    steer("end", """{"job": "drawn"}""")
  }

  test("marks are changed, and a job on hold starts nothing until it is resumed") {
    val done = started("report")
    until("two tasks were to run")(job("report").exists(_.at("/slots/running").asInt == 2))
    val (code, said) = post("set", """{"job": "report", "priority": 8, "deadline": "1h", "isolation": "0.25"}""")
    assert(code === 200 && said.path("done").asText.startsWith("job report: priority 3 -> 8, deadline none -> "), said)
    val changed = job("report").get
    assert((changed.path("priority").asInt, changed.path("isolation").asDouble) === ((8, 0.25)))
    assert(changed.path("deadline_ms").asLong - status.path("now_ms").asLong > 3500000)
    assert(post("hold", """{"job": "report"}""")._1 === 200)
    SteeringSuite.letGo.countDown()
    // Spark reads results after the tasks' slots are free.
    until("the last tasks were to end")(job("report").exists { j =>
      j.path("state_text").asText == "on hold" && j.path("tasks_done").asInt == 2 && j.at("/slots/waiting").asInt == 4
    })
    assert(scheduler.rootPool.getSortedTaskSetQueue.isEmpty)
    assert(steer("resume", """{"job": "report"}""").path("done").asText === "job report: resumed")
    Await.result(done, 10.minutes)
    val story = mapper.readTree(SparkSched.explain(context, "report")).findValuesAsText("text")
    assert(story.contains(s"resumed, by ${context.sparkUser}") && story.toString.contains("by ada at "))
  }

  test("a job's key comes before the names of others, and a name of several asks for a key") {
    val done = started("victim")
    until("two tasks were to run")(job("victim").exists(_.at("/slots/running").asInt == 2))
    val shadow = Future {
      context.setLocalProperty("spark.sched.job.name", "mark-name-victim")
      context.parallelize(0 until 1, 1).foreach(SteeringSuite.task)
    }
    until("the other job was to come")(job("mark-name-victim").isDefined)
    assert(steer("hold", """{"job": "mark-name-victim"}""").path("done").asText.startsWith("job victim: on hold"))
    assert(job("victim").exists(_.path("state").asText == "on_hold") && job("mark-name-victim").exists(_.path("state").asText != "on_hold"))
    val explained = mapper.readTree(SparkSched.explain(context, "mark-name-victim")).path("jobs")
    assert((explained.size, explained.at("/0/name").asText) === ((1, "victim")))
    assert(get("/scheduling/job/?name=mark-name-victim").contains("Story of victim"))
    assert(steer("hold", """{"job": "mark-name-mark-name-victim"}""").path("done").asText.startsWith("job mark-name-victim: on hold"))
    Seq("mark-name-victim", "mark-name-mark-name-victim").foreach(key => steer("resume", s"""{"job": "$key"}"""))
    SteeringSuite.letGo.countDown()
    Await.result(done, 10.minutes)
    Await.result(shadow, 10.minutes)
    Seq("mark-name-mark-name-victim", "mark-name-victim").foreach(key => steer("end", s"""{"job": "$key"}"""))
  }

  test("a job is cancelled with its Spark jobs") {
    val done = started("batch")
    until("two tasks were to run")(job("batch").exists(_.at("/slots/running").asInt == 2))
    assert(post("cancel", """{"job": "batch"}""")._2.path("done").asText === "job batch: cancelled with its 1 Spark jobs")
    val thrown = Try(Await.result(done, 10.minutes)).failed.get
    SteeringSuite.letGo.countDown()
    assert(thrown.getMessage.contains("cancelled by ada at "))
    until("its stage was to be over")(job("batch").exists(_.path("state").asText == "idle"))
    assert(post("end", """{"job": "batch"}""")._2.path("done").asText === "job batch: ended")
    val over = told("batch")
    assert((over.path("outcome").asText, over.path("state_text").asText) === (("cancelled", "cancelled")))
  }

  test("a job that nobody ends is ended, and what its mark submits then is another job") {
    for (waits <- Seq(false, true)) {
      val done = started("session")
      until("two tasks were to run")(job("session").exists(_.at("/slots/running").asInt == 2))
      def end(): String = steer("end", """{"job": "session"}""").path("done").asText
      if (waits) {
        assert(end() === "job session: it ends with its last stage" && job("session").isDefined)
        SteeringSuite.letGo.countDown()
        Await.result(done, 10.minutes)
        until("the job was to end with its stage")(job("session").isEmpty)
      } else {
        SteeringSuite.letGo.countDown()
        Await.result(done, 10.minutes)
        until("its stage was to be over")(job("session").exists(_.path("state").asText == "idle"))
        assert(end() === "job session: ended" && job("session").isEmpty)
      }
      val over = told("session")
      assert(over.path("outcome").asText === "ended" && over.path("ended_ms").isNumber)
      val story = over.path("story")
      assert((0 until story.size).exists(i => story.get(i).path("text").asText.matches("(ended|it ends with its last stage), by .+")))
    }
    assert(post("end", """{"job": "session"}""")._1 === 404)
  }

  test("reservations are paused and modes are switched for all jobs") {
    assert(post("pause", "")._2.path("done").asText === "reservations are paused: no job holds slots")
    assert(status.path("reservations_paused").asBoolean)
    assert(post("pause", "")._2.path("done").asText.endsWith("nothing was changed"))
    assert(steer("unpause").has("done") && !status.path("reservations_paused").asBoolean)
    assert(steer("mode", """{"name": "shadow"}""").path("done").asText === "the mode is shadow")
    assert(status.path("mode").asText === "shadow" && status.at("/counters/would_have_holds_total").isNumber)
    assert(!scheduler.enforcing)
    assert(steer("mode", """{"name": "on"}""").has("done") && scheduler.enforcing)
  }

  test("what cannot be changed is refused in one sentence") {
    def error(answer: (Int, JsonNode), code: Int): String = { assert(answer._1 === code, answer); answer._2.path("error").asText }
    assert(error(post("hold", """{"job": "nobody"}"""), 404).startsWith("job is 'nobody' but no such job is known: "))
    assert(error(post("delete", "{}"), 400).startsWith("action is 'delete' but must be one of cancel, end, hold, "))
    assert(error(post("hold", "{}"), 400) === "hold needs the argument 'job'")
    assert(error(post("pause", """{"job": "a"}"""), 400) === "unknown argument 'job' of pause: it takes none")
    assert(error(post("policy", """{"name": "fair"}"""), 409).contains("spark.sched.planner.enabled is false"))
    assert(steer("mode", """{"name": "dim"}""").path("error").asText === "mode is 'dim' but must be one of on, shadow, off")
  }

  test("an application without queues gets some, and loses them") {
    val tree = """{\"default\":\"a\",\"queues\":[{\"queue\":\"a\"}],\"rules\":[]}"""
    assert(scheduler.records.queues.isEmpty)
    assert(steer("queues", s"""{"tree": "$tree", "version": "0"}""").path("done").asText.startsWith("queue a is new"))
    assert(scheduler.records.queues.exists(_.tree.leaves === Set("a")))
    assert(steer("queues", """{"tree": "", "version": "0"}""").path("code").asText === "changed_meanwhile")
    for (empty <- Seq("", " \\n")) {
      val answer = steer("queues", s"""{"tree": "$empty"}""")
      assert(answer.path("code").asText === "bad_value" && answer.path("error").asText.startsWith("tree is empty, which would remove all queues"))
    }
    assert(scheduler.records.queues.exists(_.tree.leaves === Set("a")))
    assert(steer("queues", """{"tree": "", "version": "1"}""").path("done").asText.startsWith("queue a is gone"))
    assert(scheduler.records.queues.isEmpty)
    assert(steer("queues", """{"tree": "", "version": "2"}""").path("done").asText === "the queues are so already: nothing was changed")
    assert(steer("queues", """{"tree": "{}"}""").path("code").asText === "bad_value")
    assert(steer("queues").path("error").asText === "queues needs the argument 'tree'")
    assert(post("queues", s"""{"tree": "$tree"}""", "grace")._1 === 403)
  }
}

/** Tasks run in this very process. */
object SteeringSuite {
  @volatile var letGo = new CountDownLatch(1)
  val task: Int => Unit = _ => letGo.await()
}

/** As if the user had been authenticated whom a header names. */
final class UserOfHeader extends Filter {
  override def doFilter(request: ServletRequest, response: ServletResponse, chain: FilterChain): Unit = {
    val http = request.asInstanceOf[HttpServletRequest]
    chain.doFilter(new HttpServletRequestWrapper(http) {
      override def getRemoteUser: String = http.getHeader(UserOfHeader.Name)
    }, response)
  }
}

object UserOfHeader {
  val Name = "X-Test-User"
}
