package org.apache.spark.scheduler.sparksched
package backend

import scala.util.matching.Regex

import schedcore.settings.Words

/** The master behind `spark-sched:`; what is between the lines is Spark's own syntax. */
private[sparksched] sealed trait InnerMaster

private[sparksched] object InnerMaster {
  /** @param maxFailures attempts of a task; plain local masters do not retry */
  final case class Local(threads: Int, maxFailures: Int) extends InnerMaster
  final case class LocalCluster(workers: Int, coresPerWorker: Int, memoryPerWorkerMib: Int) extends InnerMaster
  final case class Standalone(urls: Array[String]) extends InnerMaster
  final case class Other(url: String) extends InnerMaster

  // A constant of the language: who compares with it initialises nothing here.
  final val Prefix = "spark-sched:"

  private val LocalN: Regex = """local\[\s*([0-9]+|\*)\s*\]""".r
  private val LocalNF: Regex = """local\[\s*([0-9]+|\*)\s*,\s*([0-9]+)\s*\]""".r
  private val Cluster: Regex = """local-cluster\[\s*([0-9]+)\s*,\s*([0-9]+)\s*,\s*([0-9]+)\s*\]""".r
  private val SparkUrl: Regex = """spark://([^,/\s]+:[0-9]+(?:,[^,/\s]+:[0-9]+)*)""".r
  private val Known = Seq("local", "local[4]", "local[*]", "local[4,2]", "local-cluster[2,1,1024]", "spark://host:7077", "yarn", "k8s://https://host:port")

  /** Either one clear sentence or the master. */
  def parse(inner: String): Either[String, InnerMaster] = inner match {
    case "local" => Right(Local(1, 1))
    case LocalN(n) => threads(inner, n).map(Local(_, 1))
    case LocalNF(n, failures) => for (t <- threads(inner, n); f <- count(inner, failures)) yield Local(t, f)
    case Cluster(w, c, m) =>
      // An application without workers starts, and waits for what its first job needs.
      for (workers <- count(inner, w); cores <- positive(inner, c); mib <- positive(inner, m)) yield LocalCluster(workers, cores, mib)
    case SparkUrl(hosts) => Right(Standalone(hosts.split(",").map("spark://" + _)))
    case "yarn" => Right(Other(inner))
    case k8s if k8s.startsWith("k8s://") => Right(Other(inner))
    case other =>
      val near = Known.minBy(k => Words.distance(k, other))
      Left(s"The master behind '$Prefix' is '$other', which Spark does not know: did you mean $near? " +
        s"Known forms: ${Known.mkString(", ")}.")
  }

  private def threads(master: String, n: String): Either[String, Int] =
    if (n == "*") Right(Runtime.getRuntime.availableProcessors()) else positive(master, n)

  private def positive(master: String, digits: String): Either[String, Int] =
    count(master, digits).filterOrElse(_ > 0, s"The master '$master' has a zero where a positive number must stand.")

  private def count(master: String, digits: String): Either[String, Int] =
    digits.toIntOption.toRight(s"The master '$master' has $digits where a number up to ${Int.MaxValue} must stand.")
}
