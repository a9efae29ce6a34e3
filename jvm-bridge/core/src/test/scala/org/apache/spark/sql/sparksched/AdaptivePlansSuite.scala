package org.apache.spark.sql.sparksched

import org.scalatest.funsuite.AnyFunSuite

/** What the plans of real queries tell about the stages that follow. */
final class AdaptivePlansSuite extends AnyFunSuite with PlansFromTasks {
  private val having =
    """SELECT id % 10 AS k, seen('result', sum(id)) AS s FROM range(0, 100, 1, 4) GROUP BY id % 10
      |HAVING sum(id) > (SELECT seen('subquery', max(id)) FROM range(0, 8, 1, 2))""".stripMargin

  test("a subquery's result is not its query's end, the query's own result is") {
    val ends = looks()(having)(AdaptivePlans.isFinal)
    assert(ends === Map("subquery" -> Set(Some(false)), "result" -> Set(Some(true))))
  }

  test("the end of a query with two subqueries is told, also where one is nested and one is used twice") {
    val ends = looks()(
      """SELECT id % 10 AS k, seen('result', sum(id)) AS s FROM range(0, 100, 1, 4) GROUP BY id % 10
        |HAVING sum(id) > (SELECT seen('outer', max(id)) FROM range(0, 8, 1, 2)
        |                  WHERE id < (SELECT seen('inner', max(id)) FROM range(0, 7, 1, 2)))
        |   AND max(id) < 1000 + (SELECT seen('inner', max(id)) FROM range(0, 7, 1, 2))""".stripMargin)(AdaptivePlans.isFinal)
    assert(ends === Map("outer" -> Set(Some(false)), "inner" -> Set(Some(false)), "result" -> Set(Some(true))))
  }

  for (where <- Seq("HAVING sum(id) >" -> "result", "WHERE id >" -> "scan"))
    test(s"the width of a subquery's stages is known, also where only a ${where._2} stage needs it") {
      val subquery = "(SELECT max(n) FROM (SELECT sum(seen('subquery', id)) AS n FROM range(0, 80, 1, 4) GROUP BY id % 3))"
      val statement = where match {
        case (filter, "result") => s"SELECT sum(id) FROM range(0, 100, 1, 4) GROUP BY id % 10 $filter $subquery"
        case (filter, _) => s"SELECT sum(id) FROM range(0, 100, 1, 4) $filter $subquery GROUP BY id % 10"
      }
      assert(widths()(statement)(_ => Some(Array.fill(5)(1L))) === Map("subquery" -> Set(Some(1))))
    }

  private val notAdaptive = "spark.sql.adaptive.enabled" -> "false"

  test("where a query is not adaptive, neither the sample of what is sorted nor a subquery's result is its end") {
    val sorted = looks(notAdaptive)("SELECT seen('sorted', id) AS s FROM range(0, 100, 1, 4) ORDER BY s")(AdaptivePlans.isFinal)
    assert(sorted === Map("sorted" -> Set(Some(false))))
    val compared = looks(notAdaptive)(having)(AdaptivePlans.isFinal)
    assert(compared === Map("subquery" -> Set(Some(false)), "result" -> Set(Some(false))))
  }

  test("a query with one Spark job that is not adaptive is left to the DAG") {
    for (statement <- Seq("SELECT seen('one', id) FROM range(0, 100, 1, 4)", "SELECT sum(seen('one', id)) FROM range(0, 100, 1, 4)"))
      assert(looks(notAdaptive)(statement)(AdaptivePlans.isFinal) === Map("one" -> Set(None)))
  }
}
