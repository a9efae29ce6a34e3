package org.apache.spark.scheduler.sparksched

import java.util.concurrent.{CountDownLatch, TimeUnit}

import scala.collection.mutable

import org.scalatest.funsuite.AnyFunSuite

final class AllStepsSuite extends AnyFunSuite {

  test("all steps run in their order, though one of them fails") {
    val ran = mutable.ArrayBuffer.empty[Int]
    AllSteps(() => ran += 1, () => throw new IllegalStateException("a test"), () => ran += 3)
    assert(ran === Seq(1, 3))
    assert(!Thread.interrupted())
  }

  test("steps of an interrupted thread may wait, and the interrupt counts after them") {
    val (open, ran) = (new CountDownLatch(1), mutable.ArrayBuffer.empty[Boolean])
    Thread.currentThread.interrupt()
    AllSteps(() => ran += open.await(1, TimeUnit.MILLISECONDS), () => throw new InterruptedException, () => ran += true)
    assert(Thread.interrupted())
    assert(ran === Seq(false, true))
  }

  test("an interrupt of a step counts after the others") {
    var ran = false
    AllSteps(() => throw new InterruptedException, () => ran = !Thread.currentThread.isInterrupted)
    assert(Thread.interrupted())
    assert(ran)
  }
}
