package org.apache.spark.sql.sparksched

import org.scalatest.funsuite.AnyFunSuite

/** The tasks of stages as plans tell them while shuffles are written, beside those that Spark then runs. */
final class AdaptiveWidthsSuite extends AnyFunSuite with PlansFromTasks {
  private val noBroadcasts = "spark.sql.autoBroadcastJoinThreshold" -> "-1"
  private val bySize = "spark.sql.adaptive.coalescePartitions.parallelismFirst" -> "false"
  private val notCoalesced = "spark.sql.adaptive.coalescePartitions.enabled" -> "false"
  private val anySize = "spark.sql.adaptive.coalescePartitions.minPartitionSize" -> "1"
  /** A partition of some 100 kB is skewed. */
  private val skewed = Seq(
    noBroadcasts, bySize, anySize, "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes" -> "20000",
    "spark.sql.adaptive.skewJoin.skewedPartitionFactor" -> "2")

  /** Four tasks write most rows of a side for one key; those of the other side are few. */
  private def join(kind: String, left: String = "wide", right: String = "narrow", select: String = "w.text"): String = {
    val sides = Map(
      "wide" -> "(SELECT IF(id % 10 < 8, 0, id % 40) AS k, sha2(string(seen('wide', id)), 512) AS text FROM range(0, 4000, 1, 4))",
      "narrow" -> "(SELECT seen('narrow', id) AS k, sha2(string(id), 512) AS text FROM range(0, 40, 1, 2))")
    s"SELECT $select FROM ${sides(left)} w $kind JOIN ${sides(right)} n ON w.k = n.k"
  }

  private def agrees(statement: String, settings: Seq[(String, String)], tasks: Int => Boolean): Unit = {
    val (ran, told) = checked(settings: _*)(statement)
    assert(told === Set(Some(ran)))
    assert(tasks(ran))
  }

  // Four tasks read what four tasks wrote for the skewed partition, and others the other four partitions.
  for ((coalescing, setting, most) <- Seq(("with", anySize, 4 + 3), ("without", notCoalesced, 4 + 4))) {
    test(s"a skewed partition is read by as many tasks as wrote it at most, $coalescing coalescing") {
      agrees(join("INNER"), skewed :+ setting :+ ("spark.sql.adaptive.advisoryPartitionSizeInBytes" -> "1000"), _ == most)
    }

    test(s"a skewed partition is read in parts of the wanted size, $coalescing coalescing") {
      agrees(join("INNER"), skewed :+ setting :+ ("spark.sql.adaptive.advisoryPartitionSizeInBytes" -> "300000"), _ < most)
    }
  }

  for ((kind, left, right, divided) <- Seq(
      ("LEFT", "wide", "narrow", true), ("LEFT", "narrow", "wide", false), ("RIGHT", "wide", "narrow", false),
      ("RIGHT", "narrow", "wide", true), ("FULL", "wide", "narrow", false), ("LEFT SEMI", "wide", "narrow", true)))
    test(s"a $kind join of a $left and a $right side reads skewed partitions ${if (divided) "in parts" else "whole"}") {
      val select = if (kind == "LEFT SEMI") "w.text" else "w.text, n.text"
      agrees(
        join(kind, left, right, select), skewed :+ ("spark.sql.adaptive.advisoryPartitionSizeInBytes" -> "1000"),
        tasks => (tasks > 5) === divided)
    }

  test("a skewed partition is read whole where an aggregate above the join needs its rows together") {
    val counted = join("INNER", select = "w.k, max(w.text), max(n.text)") + " GROUP BY w.k"
    agrees(counted, skewed :+ ("spark.sql.adaptive.advisoryPartitionSizeInBytes" -> "1000"), _ <= 5)
  }

  test("a join is known to read both its shuffles before anything tells its number of tasks") {
    val found = looks(noBroadcasts)(join("INNER"))(reader(_, begun = 2, _ => None)(Some(_)))
    val readers = found.values.flatten.flatten.toSeq
    assert(readers.nonEmpty && readers.forall(r => r.tasks.isEmpty && r.ready) && readers.map(_.name).distinct.size === 1)
  }

  private val sums = "SELECT id % 50 AS k, sum(seen('sums', id)) AS s FROM range(0, 4000, 1, 4) GROUP BY id % 50"
  private val one: Int => Option[Array[Long]] = _ => Some(Array.fill(5)(1L))

  test("what takes some rows begins with one partition, whatever the sizes") {
    for (setting <- Seq(anySize, notCoalesced))
      assert(widths(setting)(s"$sums LIMIT 3")(_ => None) === Map("sums" -> Set(Some(1))))
    assert(
      widths(notCoalesced, "spark.sql.limit.initialNumPartitions" -> "2")(s"$sums LIMIT 3")(one) === Map("sums" -> Set(Some(2))))
    assert(widths(notCoalesced)(s"$sums OFFSET 3")(one) === Map("sums" -> Set(Some(5))))
  }

  test("a shuffle that is joined with a cached table is not coalesced") {
    spark.sql("CACHE TABLE cached AS SELECT /*+ REPARTITION(5, k) */ id AS k, id AS v FROM range(0, 50, 1, 2)")
    try agrees(s"SELECT a.s, c.v FROM ($sums) a JOIN cached c ON a.k = c.k", Seq(noBroadcasts, bySize), _ == 5)
    finally spark.sql("UNCACHE TABLE cached")
  }

  test("what a nested loop joins is coalesced to the smallest partitions that are allowed") {
    val loop = s"SELECT a.s, b.id FROM ($sums) a LEFT JOIN range(0, 3) b ON a.s > b.id"
    agrees(loop, Seq(bySize, anySize), _ > 1)
    agrees(loop, Seq(bySize), _ == 1)
  }
}
