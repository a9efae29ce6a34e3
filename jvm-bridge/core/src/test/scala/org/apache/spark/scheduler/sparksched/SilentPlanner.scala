package org.apache.spark.scheduler.sparksched

import java.nio.file.{Files, Path}
import java.nio.file.attribute.PosixFilePermissions

/** Runs in Python's place, and is never heard of. */
object SilentPlanner {
  /** @param test gets the path of the program */
  def apply(test: String => Unit): Unit = {
    val program: Path = Files.createTempFile("silent", ".sh")
    try {
      Files.writeString(program, "#!/bin/sh\nexec sleep 600\n")
      Files.setPosixFilePermissions(program, PosixFilePermissions.fromString("rwx------"))
      test(program.toString)
    } finally Files.delete(program)
  }
}
