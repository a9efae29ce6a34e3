package org.apache.spark.scheduler.sparksched
package backend

import org.scalatest.funsuite.AnyFunSuite

final class InnerMasterSuite extends AnyFunSuite {
  import InnerMaster._

  test("every form of master that Spark knows is read") {
    assert(parse("local") === Right(Local(1, 1)))
    assert(parse("local[4]") === Right(Local(4, 1)))
    assert(parse("local[*]") === Right(Local(Runtime.getRuntime.availableProcessors(), 1)))
    assert(parse("local[4,3]") === Right(Local(4, 3)))
    assert(parse("local[ 4 , 3 ]") === Right(Local(4, 3)))
    assert(parse("local-cluster[2,1,1024]") === Right(LocalCluster(2, 1, 1024)))
    assert(parse("yarn") === Right(Other("yarn")))
    assert(parse("k8s://https://host:443") === Right(Other("k8s://https://host:443")))
  }

  test("several standalone masters are several addresses") {
    parse("spark://a:7077,b:7078") match {
      case Right(Standalone(urls)) => assert(urls.toSeq === Seq("spark://a:7077", "spark://b:7078"))
      case other => fail(s"$other")
    }
  }

  test("a master that Spark does not know is one sentence with the nearest form") {
    val said = parse("lcal[4]").swap.getOrElse(fail("accepted"))
    assert(said.startsWith("The master behind 'spark-sched:' is 'lcal[4]', which Spark does not know: did you mean local[4]?"))
  }

  test("nothing, half an address and a wrapped wrapper are refused") {
    Seq("", "spark://host", "spark://", "local[", "local[-1]", "local[x]", "spark-sched:local[2]", "mesos://host:5050").foreach { m =>
      assert(parse(m).isLeft, m)
    }
  }

  test("zero where a positive number must stand is refused") {
    Seq("local[0]", "local-cluster[1,0,1024]", "local-cluster[1,1,0]").foreach { m =>
      assert(parse(m) === Left(s"The master '$m' has a zero where a positive number must stand."))
    }
  }

  test("no retries and no workers are what Spark takes, too") {
    assert(parse("local[2,0]") === Right(Local(2, 0)))
    assert(parse("local-cluster[0,1,1024]") === Right(LocalCluster(0, 1, 1024)))
  }

  test("a number that no machine has is refused, not thrown") {
    Seq("local[99999999999]", "local[2,99999999999]", "local-cluster[1,1,99999999999]").foreach { m =>
      assert(parse(m) === Left(s"The master '$m' has 99999999999 where a number up to 2147483647 must stand."))
    }
  }
}
