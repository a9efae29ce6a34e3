package org.apache.spark.scheduler.sparksched

/** Plans with the fields of each policy's, as text. */
object PlanText {
  val None = "none"

  /** @param shape the policy whose plans it is like; `victims`: one job in twenty names tasks to evict */
  def apply(shape: String, jobs: IndexedSeq[String], number: Long, snapshot: Long, nowMs: Long): String = {
    val waits = Set("3sigma", "slearn")(shape)
    val weights = if (shape == "slearn") (0 until Queues).map(n => math.pow(0.1, n)).mkString(""","queue_weights":[""", ",", "]") else ""
    val ends = jobs.take(Shown).map { job =>
      s""""$job":{"end_ms":[${nowMs + 1000},${nowMs + 2000},${nowMs + 9000}],"deadline_probability":0.73}"""
    }
    s"""{"schema":1,"plan":$number,"snapshot":$snapshot,"made_at_ms":$nowMs,"valid_for_ms":600000,"policy":"$shape",""" +
      s""""ordered":${shape != "reservation"},"jobs":[${jobs.indices.map(n => job(shape, jobs(n), n, nowMs)).mkString(",")}]""" +
      s"""${if (waits) ""","new_jobs_wait":true""" else ""}$weights,"solve_ms":3.1,"forecasts":{${ends.mkString(",")}}}"""
  }

  private def job(shape: String, key: String, rank: Int, nowMs: Long): String = {
    val priority = if (key.startsWith("mark-holding")) 5 else if (key.startsWith("mark")) 1 else 0
    val reservation =
      if (priority == 0) "null"
      else if (shape == "reservation") rule(""""alpha":1.6203,"t_m_ms":12.5""", "[4,4,4,4]")
      else rule(""""alpha":null,"t_m_ms":null""", "[]")
    val more = shape match {
      case "3sigma" if priority < 5 => start(rank, nowMs)
      case "slearn" if rank % 10 == 3 => s""","queue":${rank % Queues},"pilots":{"stage":0,"tasks":[0,1,2]}"""
      case "slearn" => s""","queue":${rank % Queues}"""
      case "victims" if rank % 20 == 0 => (1 to 4).map(n => (1L << 40) + n).mkString(""","victims":[""", ",", "]")
      case _ => ""
    }
    s"""{"job":"$key","rank":$rank,"priority":$priority,"reservation":$reservation,""" +
      s""""reason":"priority $priority: the configured isolation; 4 stages as in 3 earlier runs"$more}"""
  }

  private def rule(pareto: String, stages: String): String =
    s"""{"isolation":1.0,$pareto,"prereserve_threshold":0.5,"stage_tasks":$stages,"copies":true,"gap_ms":null}"""

  /** Of ten jobs one starts anywhere, two start now, four later, and three have no start. */
  private def start(rank: Int, nowMs: Long): String = rank % 10 match {
    case 0 => ""
    case 1 | 2 => s""","start_ms":$nowMs,"share":{"0":100000}"""
    case 3 | 4 | 5 | 6 => s""","start_ms":${nowMs + 3600000L + rank},"deferred":true"""
    case _ => ""","deferred":true"""
  }

  private val Queues = 10
  private val Shown = 200
}
