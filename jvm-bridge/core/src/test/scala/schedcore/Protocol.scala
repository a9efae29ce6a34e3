package schedcore

import java.io.FileInputStream
import java.nio.file.{Files, Path, Paths}
import java.util.zip.GZIPInputStream

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import scala.jdk.CollectionConverters._

/** The files under `protocol/` that the Python tests read too. */
object Protocol {
  private val mapper = new ObjectMapper()

  /** Maven names the directory; other runners start in the checkout or in jvm-bridge. */
  val dir: Path = (sys.props.get("protocol.dir").toSeq ++ Seq("protocol", "../protocol")).map(Paths.get(_))
    .find(Files.isDirectory(_))
    .getOrElse(throw new IllegalStateException("protocol/ is not here: pass -Dprotocol.dir=<checkout>/protocol"))

  def text(name: String): String = Files.readString(dir.resolve(name))
  def json(name: String): JsonNode = parse(text(name))
  def parse(text: String): JsonNode = mapper.readTree(text)

  def goldenByHand: Seq[Path] = golden(".json")
  def goldenGenerated: Seq[Path] = golden(".json.gz")

  private def golden(ending: String): Seq[Path] = {
    val files = Files.list(dir.resolve("golden"))
    try files.iterator().asScala.filter(_.toString.endsWith(ending)).toSeq.sorted
    finally files.close()
  }

  def read(file: Path): JsonNode = {
    val raw = new FileInputStream(file.toFile)
    try mapper.readTree(if (file.toString.endsWith(".gz")) new GZIPInputStream(raw) else raw)
    finally raw.close()
  }
}
