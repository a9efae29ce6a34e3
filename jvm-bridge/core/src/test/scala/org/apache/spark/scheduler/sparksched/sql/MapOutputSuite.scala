package org.apache.spark.scheduler.sparksched
package sql

import org.apache.spark.scheduler.MapStatus
import org.apache.spark.storage.BlockManagerId
import org.scalatest.funsuite.AnyFunSuite

final class MapOutputSuite extends AnyFunSuite {

  private def output(tasks: Int) = new MapOutput("1.0", 7L, 3, tasks, 2, 1)
  private val one = MapStatus(BlockManagerId("e1", "host", 1), Array(1L, 0L), 0L)

  test("the outputs of more than half of the tasks tell what all will have written") {
    val four = output(4)
    assert(!four.add(0, one) && !four.add(2, one))
    assert(four.expected === None)
    assert(four.add(1, one))
    assert(four.expected.map(_.toSeq) === Some(Seq(4L, 0L)))
  }

  test("a task's second result counts nothing") {
    val four = output(4)
    Seq(0, 0, 0, 1).foreach(four.add(_, one))
    assert(four.expected === None)
  }

  test("of many tasks few outputs are worth a new look") {
    val many = output(1000)
    assert((0 until 1000).count(many.add(_, one)) === 5)
    assert(many.expected.map(_.toSeq) === Some(Seq(1000L, 0L)))
  }
}
