package org.apache.spark.scheduler.sparksched

import java.lang.management.ManagementFactory

import scala.collection.mutable

import org.apache.spark.{SparkConf, SparkContext}

/** Processor time of this thread in each operation, in one round of one arm. */
final class Laps {
  private final class Lap { var times = 0; var ns = 0L }
  private val laps = mutable.LinkedHashMap.empty[String, Lap]
  val complaints: mutable.LinkedHashSet[String] = mutable.LinkedHashSet.empty

  def time[A](operation: String)(body: => A): A = {
    val startNs = Laps.nowNs
    val done = body
    val lap = laps.getOrElseUpdate(operation, new Lap)
    lap.ns += Laps.nowNs - startNs
    lap.times += 1
    done
  }
  def count(operation: String): Unit = laps.getOrElseUpdate(operation, new Lap).times += 1
  def complain(sentence: String): Unit = complaints += sentence

  /** By operation: how many, and microseconds of each. */
  def means: Seq[(String, Int, Double)] = laps.toSeq.map { case (operation, lap) =>
    (operation, lap.times, math.max(0.0, lap.ns.toDouble / lap.times - Laps.OverheadNs) / 1e3)
  }
}

object Laps {
  private val threads = ManagementFactory.getThreadMXBean
  def nowNs: Long = threads.getCurrentThreadCpuTime
  /** What a measurement adds to itself. */
  lazy val OverheadNs: Double = {
    def per(times: Int): Double = {
      val startNs = nowNs
      (0 until times).foreach(_ => nowNs)
      (nowNs - startNs).toDouble / times
    }
    per(100000)
    per(100000)
  }
}

/**
 * Measures cells: the arms of a cell take turns in this JVM. Prints one JSON document per line: operations by arm and round, and
 * at a cell's end what was wrong with it.
 *
 * Arguments: rounds; tasks that end in a round; then the cells, as
 * `executors,taskSets,holding,plan,FIFO|FAIR,marked|unmarked,deadline`. The first cell only warms up.
 */
object DriverScale {
  // Spark's own scheduler twice: the difference of the two is what the machine's noise makes of nothing.
  private val Arms = Seq("stock", Arm.Ours, "null")

  def main(arguments: Array[String]): Unit = {
    val conf = new SparkConf().setMaster("local[1]").setAppName("scale").set("spark.ui.enabled", "false")
      .set("spark.driver.host", "127.0.0.1").set("spark.driver.bindAddress", "127.0.0.1")
    val sc = new SparkContext(conf)
    sc.setLogLevel("ERROR")
    val Array(rounds, tasks) = arguments.take(2).map(_.toInt)
    val cells = arguments.drop(2).map(parsed)
    cells.zipWithIndex.foreach { case (cell, n) =>
      measure(sc, cell, n, rounds, tasks)
      System.gc()
    }
    // The contexts' threads are not daemons, and nothing is left to be saved.
    Runtime.getRuntime.halt(0)
  }

  private def parsed(text: String): Cell = text.split(',') match {
    case Array(executors, taskSets, holding, plan, mode, marked, deadline) =>
      Cell(executors.toInt, taskSets.toInt, holding.toInt, plan, mode, marked == "marked", deadline)
  }

  private def measure(sc: SparkContext, cell: Cell, number: Int, rounds: Int, tasks: Int): Unit = {
    val arms = Arms.map(new Arm(sc, _, cell))
    arms.foreach { arm =>
      arm.fill()
      arm.plan(new Laps)
      arm.churn(tasks, new Laps)
      arm.round(0, new Laps)
      arm.status(new Laps)
    }
    val complaints = mutable.LinkedHashSet.empty[String]
    for (round <- 0 until rounds) {
      val inTurn = arms.drop(round % arms.size) ++ arms.take(round % arms.size)
      inTurn.foreach { arm =>
        val laps = new Laps
        arm.plan(laps)
        arm.churn(tasks, laps)
        (0 until Rounds).foreach { _ => arm.round(0, laps) }
        (0 until Rounds).foreach { _ => arm.round(Cell.SlotsEach, laps) }
        arm.status(laps)
        complaints ++= laps.complaints
        laps.means.foreach { case (operation, times, us) =>
          println(f"""{"cell":$number,"arm":"${arm.name}","round":$round,"operation":"$operation","times":$times,"us":$us%.3f}""")
        }
      }
    }
    complaints ++= arms.flatMap(_.complaints)
    val quoted = complaints.map(sentence => "\"" + sentence.replace("\"", "'") + "\"").mkString("[", ",", "]")
    val ended = arms.map(arm => s""""${arm.name}":${arm.ended}""").mkString("{", ",", "}")
    val ours = arms.find(_.name == Arm.Ours).get
    println(s"""{"cell":$number,"ended":$ended,"held":${ours.held},"running":${ours.runs},"stock_running":${arms.head.runs},"complaints":$quoted}""")
    arms.foreach(_.close())
  }

  private val Rounds = 2 // of all executors, of either kind
}
