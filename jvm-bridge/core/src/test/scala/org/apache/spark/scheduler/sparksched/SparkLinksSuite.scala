package org.apache.spark.scheduler.sparksched

import java.io.{BufferedReader, StringReader}
import java.nio.file.Paths

import org.apache.spark.SPARK_VERSION
import org.scalatest.funsuite.AnyFunSuite

class SparkLinksSuite extends AnyFunSuite {
  private val loader = getClass.getClassLoader
  private lazy val classes = Paths.get(classOf[SchedPlugin].getProtectionDomain.getCodeSource.getLocation.toURI)
  private lazy val links = SparkLinks.collect(classes, loader)

  private def refusal(list: Iterable[String], version: String = SPARK_VERSION, loader: ClassLoader = loader): Option[String] =
    SparkLinks.refusal(version, new BufferedReader(new StringReader(list.mkString("\n"))), loader)

  test("the list has what the bridge calls, extends and overrides of Spark") {
    def has(start: String, end: String = "") = links.exists(l => l.startsWith(start) && l.endsWith(end))
    assert(has("org/apache/spark/scheduler/TaskSetManager resourceOffer(", " override"))
    assert(has("org/apache/spark/scheduler/TaskSchedulerImpl createTaskSetManager(", " override"))
    assert(has("org/apache/spark/scheduler/TaskSchedulerImpl", "TaskSchedulerImpl"))
    assert(has("org/apache/spark/SparkContext listenerBus()"))
    assert(has("org/apache/spark/sql/execution/SparkPlan"))
    assert(!links.exists(_.contains("sparksched/")), "of the bridge's own classes nothing is needed")
  }

  test("the Spark that it was compiled for has all of it, whatever the patch version or the vendor") {
    val Array(major, minor, _ @ _*) = SPARK_VERSION.split('.')
    for (version <- Seq(SPARK_VERSION, s"$major.$minor.9", s"$major.$minor.0-vendor-1", s"$major.$minor.1.7.2"))
      assert(refusal(s"$major.$minor.0" +: links, version).isEmpty)
  }

  test("a Spark of another line is refused before its classes are read") {
    for (version <- Seq("3.5.4", "4.20.0", "5.0.0-preview1"))
      assert(refusal("4.2.0" +: Seq("org/apache/spark/Nothing"), version).exists(
        _.startsWith(s"its bridge is compiled for Spark 4.2.0 and this is Spark $version: compile it with")))
  }

  test("what is missing, final or private is named") {
    def of(link: String) = refusal(Seq(SPARK_VERSION, link)).getOrElse(fail(s"accepted $link"))
    assert(of("org/apache/spark/Nothing").contains("uses org.apache.spark.Nothing of Spark"))
    assert(of("org/apache/spark/SparkContext nothing()V").contains("uses org.apache.spark.SparkContext.nothing of Spark"))
    assert(of("org/apache/spark/SparkContext master()I").contains("SparkContext.master of"), "another type")
    assert(of("org/apache/spark/SparkContext nothing:I").contains("SparkContext.nothing of"), "a field")
    val private_ = "org/apache/spark/SparkContext org$apache$spark$SparkContext$$_conf()Lorg/apache/spark/SparkConf;"
    assert(of(s"$private_ override").contains("SparkContext.org$apache"))
  }

  test("members may be inherited, also from classes that are not Spark's") {
    val found = Seq(
      "org/apache/spark/scheduler/SparkListener hashCode()I", "org/apache/spark/scheduler/TaskSetManager logName()Ljava/lang/String;",
      "org/apache/spark/TaskKilled productIterator()Lscala/collection/Iterator;", "[Lorg/apache/spark/SparkConf;")
    assert(refusal(SPARK_VERSION +: found).isEmpty)
  }

  test("a driver without Spark SQL as a whole needs none of it") {
    val withoutSql = new ClassLoader(loader) {
      override def getResourceAsStream(name: String) =
        if (name.startsWith("org/apache/spark/sql/")) null else super.getResourceAsStream(name)
    }
    assert(refusal(SPARK_VERSION +: links, loader = withoutSql).isEmpty)
    val sql = "org/apache/spark/sql/Nothing"
    assert(refusal(Seq(SPARK_VERSION, sql)).nonEmpty)
  }
}
