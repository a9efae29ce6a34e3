package org.apache.spark.scheduler.sparksched

import java.util.concurrent.{LinkedBlockingQueue, TimeUnit}

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
}
