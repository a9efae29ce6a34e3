package schedcore
package settings

import org.scalatest.funsuite.AnyFunSuite

final class SettingsSuite extends AnyFunSuite {

  private def complaint(settings: (String, String)*): String =
    intercept[BadSetting](Settings.from(settings.toMap)).getMessage

  test("without any setting the defaults hold") {
    val s = Settings.from(Map("spark.app.name" -> "x"))
    assert(s.reservationEnabled)
    assert(s.minPriority === 1)
    assert(s.eventQueueCapacity === 10000)
    assert(s.defaults.isolation === 1.0)
    assert(s.defaults.maxHoldMs === 600000)
    assert(s.defaults.gapMs === 10000)
    assert(s.defaults.scaleMs === None)
    assert(s.defaults.wholeJob)
    assert(s.planner.enabled)
    assert(s.planner.stallTimeoutMs === 10000)
  }

  test("every default is a legal value of its setting") {
    Settings.from(Settings.All.map(k => k.name -> k.default).toMap)
  }

  test("limits are read, and what marks there are") {
    assert(Settings.from(Map.empty).limits === Limits())
    val s = Settings.from(Map(
      "spark.sched.limits.maxPriority" -> "10", "spark.sched.limits.maxIsolation" -> "0.5", "spark.sched.limits.marks" -> " name, priority "))
    assert(s.limits === Limits(10, 0.5, Set("name", "priority")))
    assert(Settings.from(Map("spark.sched.limits.marks" -> "")).limits.marks.isEmpty)
    assert(complaint("spark.sched.limits.marks" -> "name,colour") ===
      "spark.sched.limits.marks has 'colour' but must be some of id, name, user, priority, deadline, isolation, class, copies " +
        "with commas between them.")
  }

  test("a password in the history's URL is refused, and no message shows one") {
    Seq("postgresql://sched:hunter2@db/runs", "postgresql://sched@db/runs?password=hunter2",
      "postgresql://sched@db/runs?connect_timeout=3&sslpassword=hunter2").foreach { url =>
      val said = complaint("spark.sched.history.path" -> url)
      assert(said.contains("spark.sched.history.password"))
      assert(!said.contains("hunter2"))
    }
    val s = Settings.from(Map("spark.sched.history.path" -> "postgresql://sched@db:5432/runs", "spark.sched.history.password" -> "hunter2"))
    assert(s.historyPassword.text === "hunter2")
    assert(!s.toString.contains("hunter2"))
    Settings.from(Map("spark.sched.history.path" -> "/var/lib/a:b@c/history.sqlite"))
  }

  test("settings are read in their units") {
    val s = Settings.from(Map(
      "spark.sched.reservation.maxHold" -> " 2 min ", "spark.sched.reservation.gap" -> "1500ms",
      "spark.sched.copies.enabled" -> "FALSE", "spark.sched.reservation.lookahead" -> "stage",
      "spark.sched.reservation.isolation" -> "0.4", "spark.sched.reservation.minPriority" -> "-3"))
    assert(s.defaults.maxHoldMs === 120000)
    assert(s.defaults.gapMs === 1500)
    assert(!s.defaults.copies)
    assert(!s.defaults.wholeJob)
    assert(s.defaults.isolation === 0.4)
    assert(s.minPriority === -3)
  }

  test("a misspelt key names the nearest one") {
    assert(complaint("spark.sched.reservation.isolatoin" -> "1") ===
      "Unknown setting spark.sched.reservation.isolatoin: did you mean spark.sched.reservation.isolation?")
  }

  test("a key that is near to none points to the documentation") {
    assert(complaint("spark.sched.zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz" -> "1").endsWith("see docs/reference/configuration.md."))
  }

  test("options of policies pass, and the planner has to judge them") {
    assert(!Settings.from(Map.empty).planner.judges)
    assert(Settings.from(Map("spark.sched.policy.anybodys.option" -> "x")).planner.judges)
  }

  test("marks of jobs are no settings of the application") {
    Settings.from(Map("spark.sched.job.priority" -> "10", "spark.sched.job.anything" -> "x"))
  }

  test("a wrong value is one sentence with the key, the value and the remedy") {
    Seq(
      ("spark.sched.reservation.isolation", "1.5", "but must be a number from 0.0 to 1.0."),
      ("spark.sched.reservation.isolation", "NaN", "but must be a number from 0.0 to 1.0."),
      ("spark.sched.reservation.maxHold", "10 parsecs", "but must be a time such as 100ms, 10s, 5min or 1h."),
      ("spark.sched.reservation.gap", "-1s", "but must be a time such as 100ms, 10s, 5min or 1h."),
      ("spark.sched.reservation.enabled", "yes", "but must be true or false."),
      ("spark.sched.reservation.lookahead", "Job", "but must be one of job, stage."),
      ("spark.sched.reservation.minPriority", "high", s"but must be a whole number from ${Int.MinValue} to ${Int.MaxValue}."),
      ("spark.sched.events.queueCapacity", "1", "but must be a whole number from 16 to 10000000."),
      ("spark.sched.planner.interval", "soon", "but must be a time such as 100ms, 10s, 5min or 1h.")
    ).foreach { case (key, value, remedy) =>
      assert(complaint(key -> value) === s"$key is '$value' $remedy")
    }
  }

  test("times too long for milliseconds are refused") {
    assert(Words.millis("999999999999999999d") === None)
    assert(Words.millis("99999999999999999999s") === None)
    assert(Words.millis("365d") === Some(31536000000L))
  }

  test("the distance between words is that of Levenshtein") {
    assert(Words.distance("kitten", "sitting") === 3)
    assert(Words.distance("", "abc") === 3)
    assert(Words.distance("same", "same") === 0)
  }
}
