package org.apache.spark.scheduler.sparksched

import java.nio.file.{Files, Path}

import org.apache.spark.{SparkConf, SparkContext}
import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite
import schedcore.Protocol
import schedcore.ledger.LedgerReplay
import scala.jdk.CollectionConverters._

/**
 * The ledgers of whole applications write down their steps, and another ledger does the same.
 *
 * `tools/ledger_replay.py` replays the files in the simulator's ledger. The variables `SPARK_SCHED_APPLICATIONS`, `_SEED` and
 * `_FOLDER` are how many, the first seed, and the folder for the files.
 */
final class RecordedApplicationsSuite extends AnyFunSuite with BeforeAndAfterAll {
  private def variable(name: String) = sys.env.get(s"SPARK_SCHED_APPLICATIONS$name")
  private val count = variable("").fold(10)(_.toInt)
  private val first = variable("_SEED").fold(1)(_.toInt)
  private lazy val folder = variable("_FOLDER").fold(Files.createTempDirectory("applications"))(name => Files.createDirectories(Path.of(name)))
  private lazy val context = new SparkContext(
    new SparkConf().setMaster("local[1]").setAppName("recorded").set("spark.ui.enabled", "false").set("spark.log.level", "ERROR"))

  override def afterAll(): Unit = context.stop()

  test("another ledger does what the ledgers of random applications did") {
    RandomApplication.addProfiles(context)
    (first until first + count).foreach { seed =>
      val file = folder.resolve(f"application-$seed%05d.jsonl")
      assert(new RandomApplication(context, seed, file).run() === 0, s"seed $seed")
      val lines = Files.readAllLines(file).asScala.map(Protocol.parse).toSeq
      assert(lines.size > 50 && LedgerReplay.difference(lines) === None, s"seed $seed")
    }
  }
}
