package org.apache.spark.scheduler.sparksched

import org.apache.spark.{SparkConf, SparkContext}
import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite
import schedcore.Protocol
import scala.jdk.CollectionConverters._

/** Golden applications: the driver's rounds of offers and the simulator (tests/contract/test_application_golden.py) start tasks alike. */
final class WholeApplicationGoldenSuite extends AnyFunSuite with BeforeAndAfterAll {
  private val applications =
    Protocol.read(Protocol.dir.resolve("golden/enforcement/applications.json.gz")).required("applications").elements().asScala.toSeq
  private lazy val context = new SparkContext(
    new SparkConf().setMaster("local[1]").setAppName("applications").set("spark.ui.enabled", "false").set("spark.log.level", "ERROR"))

  override def afterAll(): Unit = context.stop()

  test("each task of an application starts when and where it was generated") {
    WholeApplication.addProfiles(context)
    assert(applications.size >= 300)
    val different = applications.flatMap { written =>
      val expected = written.required("expect").elements().asScala
        .map { l => (l.get(0).asLong, l.get(1).asInt, l.get(2).asInt, l.get(3).asInt, l.get(4).asInt) }.toSeq
      val started = new WholeApplication(context, written).run()
      Option.when(started != expected) {
        val at = started.zip(expected).indexWhere { case (a, b) => a != b }
        s"seed ${written.required("seed")}, launch $at: ${started.lift(at)} and not ${expected.lift(at)}"
      }
    }
    assert(different === Nil, different.mkString("\n", "\n", "\n"))
  }
}
