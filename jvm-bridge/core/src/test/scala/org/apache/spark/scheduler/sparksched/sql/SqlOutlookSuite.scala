package org.apache.spark.scheduler.sparksched
package sql

import java.util.concurrent.{CountDownLatch, LinkedBlockingQueue, TimeUnit}

import org.scalatest.funsuite.AnyFunSuite

final class SqlOutlookSuite extends AnyFunSuite {

  for ((unlessTold, answers) <- Seq(true -> Seq(false, true), false -> Seq(false)))
    test(s"no stage is its query's last before the plan is read; without a plan the DAG's answer counts ($unlessTold)") {
      val told = new LinkedBlockingQueue[(String, Boolean)]
      val outlook = new SqlOutlook((_, _, _, _, _) => (), (stage, last) => told.put(stage -> last))
      try {
        outlook.resultBegan("1.0", execution = -1L, Nil, ends = true, unlessTold)
        assert(answers.map(_ => told.poll(60, TimeUnit.SECONDS)) === answers.map("1.0" -> _))
      } finally outlook.stop()
    }

  test("what waits behind a plan that is waited for has a bound, and is read in the end") {
    val plan = new CountDownLatch(1)
    val told = new LinkedBlockingQueue[String]
    val outlook = new SqlOutlook((_, _, _, _, _) => (), (stage, _) => { plan.await(); told.put(stage) })
    def began(stage: String): Unit = outlook.resultBegan(stage, execution = -1L, Nil, ends = true, unlessTold = false)
    try {
      val stages = 2 * SqlOutlook.MostWaiting
      (1 to stages).foreach(n => began(s"$n.0"))
      assert(outlook.waiting === SqlOutlook.MostWaiting)
      plan.countDown()
      (1 to SqlOutlook.MostWaiting).foreach(n => assert(told.poll(600, TimeUnit.SECONDS) === s"$n.0"))
      while (outlook.waiting > 0) Thread.sleep(1)
      began("later.0")
      Iterator.continually(told.poll(600, TimeUnit.SECONDS)).find(_ == "later.0")
    } finally outlook.stop()
  }
}
