package schedcore
package ledger

import java.io.{BufferedReader, FileInputStream, InputStreamReader}
import java.nio.file.{Files, Path}
import java.util.zip.GZIPInputStream

import com.fasterxml.jackson.databind.JsonNode
import org.scalatest.funsuite.AnyFunSuite
import scala.collection.mutable
import scala.jdk.CollectionConverters._

/** Ledgers of drivers, as they were recorded: this one takes the same steps, as does the simulator's. */
final class LedgerReplaySuite extends AnyFunSuite {
  private def files: Seq[Path] = {
    val all = Files.list(Protocol.dir.resolve("golden/applications"))
    try all.iterator().asScala.filter(_.toString.endsWith(".jsonl.gz")).toSeq.sorted
    finally all.close()
  }

  /** The recordings of a file, each from its first line on. */
  private def recordings(file: Path): Seq[Seq[JsonNode]] = {
    val in = new BufferedReader(new InputStreamReader(new GZIPInputStream(new FileInputStream(file.toFile)), "UTF-8"))
    val found = mutable.ArrayBuffer.empty[mutable.ArrayBuffer[JsonNode]]
    try in.lines().iterator().asScala.map(Protocol.parse).foreach { line =>
      if (line.has("seed")) found += mutable.ArrayBuffer.empty
      found.last += line
    } finally in.close()
    found.map(_.toSeq).toSeq
  }

  for (file <- files; (lines, i) <- recordings(file).zipWithIndex)
    test(s"the ledger does what was recorded in ${file.getFileName}, application $i") {
      assert(lines.size > 50 && LedgerReplay.difference(lines) === None)
    }
}
