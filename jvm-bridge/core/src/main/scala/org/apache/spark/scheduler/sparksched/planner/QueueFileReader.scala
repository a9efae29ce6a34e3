package org.apache.spark.scheduler.sparksched
package planner

import java.io.{File, IOException}
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.Files
import java.util.concurrent.TimeUnit

import scala.collection.mutable
import scala.util.Try

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import org.apache.spark.SparkConf
import org.apache.spark.util.Utils
import schedcore.settings.PlannerSettings

/**
 * Has a Python of the planner's read the file of the tenants' queues, as `spark-sched conf` does: so the file has one reader, and one
 * sentence for each fault. The driver reads no TOML. Takes about half a second, so that it is called by the file's own thread only.
 */
private[sparksched] final class QueueFileReader(conf: SparkConf, settings: PlannerSettings) {
  import QueueFileReader._

  /** @return what is wrong with the file, or the setting that it becomes */
  def read(file: File): Either[String, String] = {
    val programs = PlannerPythons.of(conf, settings)
    val failed = mutable.ListBuffer.empty[String]
    val attempts = programs.iterator.map(run(_, settings.packageFolder, inJar = false, file)) ++
      programs.iterator.filter(_ => PlannerInJar.isThere).map { program =>
        val unpacked = PlannerInJar.unpack()
        try run(program, PlannerInJar.packageIn(unpacked), inJar = true, file) finally Utils.deleteRecursively(unpacked)
      }
    attempts.map { attempt => attempt.left.foreach(failed += _); attempt }.collectFirst { case Right(answer) => answer }.getOrElse(Left(
      s"$file was changed, but no Python could read it (${failed.mkString("; ")}): use `spark-sched queue load`"))
  }

  /** @return why the program gave no answer, or its answer */
  private def run(program: String, folder: String, inJar: Boolean, file: File): Either[String, Either[String, String]] = try {
    val command = program +: PlannerProcess.arguments(folder, Module, file.getPath)
    val builder = new ProcessBuilder(command: _*).directory(new File(File.separator)).redirectError(ProcessBuilder.Redirect.DISCARD)
    if (inJar) builder.environment.put("PYTHONPATH", PlannerInJar.pythonPath)
    val answer = Files.createTempFile("spark-sched-queues-", ".json")
    try {
      val process = builder.redirectOutput(answer.toFile).start()
      try {
        process.getOutputStream.close()
        if (!process.waitFor(MostS, TimeUnit.SECONDS)) Left(s"$program: no answer within $MostS s")
        else understood(new String(Files.readAllBytes(answer), UTF_8)).toRight(s"$program: it ended with status ${process.exitValue}")
      } finally process.destroyForcibly()
    } finally Files.deleteIfExists(answer)
  } catch { case e: IOException => Left(s"$program: ${e.getMessage}") }

  private def understood(said: String): Option[Either[String, String]] = Try(mapper.readTree(said)).toOption.flatMap { node =>
    def text(field: String) = Option(node.get(field)).filter(_.isTextual).map((_: JsonNode).asText)
    text("queues").map(Right(_)).orElse(text("error").map(Left(_)))
  }
}

private object QueueFileReader {
  val Module = "spark_sched.config.queue_check"
  val MostS = 60L
  private val mapper = new ObjectMapper
}
