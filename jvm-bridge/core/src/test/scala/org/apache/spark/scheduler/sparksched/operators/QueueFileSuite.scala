package org.apache.spark.scheduler.sparksched
package operators

import java.io.File
import java.nio.file.{Files, Path}
import java.nio.file.attribute.FileTime

import scala.collection.mutable

import org.scalatest.funsuite.AnyFunSuite
import schedcore.operators.QueueChange

/** When the file of queues is read, and how a change is told. */
final class QueueFileSuite extends AnyFunSuite {
  private final class World {
    val file: Path = Files.createTempDirectory("queues").resolve("queues.toml")
    val took = mutable.ListBuffer.empty[Either[String, String]]
    val watch = new QueueFile(file.toFile, (f: File) => Right(Files.readString(f.toPath)), took += _)

    def write(text: String, atMs: Long): Unit = {
      Files.writeString(file, text)
      Files.setLastModifiedTime(file, FileTime.fromMillis(atMs))
    }

    def looks(n: Int): Seq[String] = {
      took.clear()
      (1 to n).foreach(_ => watch.look())
      took.map(_.fold(identity, identity)).toList
    }
  }

  test("a file is read once after each change, when two looks have found it the same") {
    val w = new World
    assert(w.looks(3) === Nil, "there is no file yet")
    w.write("one", 1000)
    assert(w.looks(1) === Nil, "it may still be written")
    assert(w.looks(3) === Seq("one"))
    w.write("two", 1000)
    w.watch.look()
    w.write("three", 2000)
    assert(w.looks(1) === Nil)
    assert(w.looks(2) === Seq("three"))
  }

  test("a file that goes and comes back as it was is no change") {
    val w = new World
    w.write("one", 1000)
    w.looks(2)
    val aside = w.file.resolveSibling("aside")
    Files.move(w.file, aside)
    assert(w.looks(2) === Nil)
    Files.move(aside, w.file)
    assert(w.looks(3) === Nil)
  }

  test("a change is told by queue and key, with both values") {
    val before = """{"default":"a","queues":[{"queue":"a","ceiling":4,"weight":2.0},{"queue":"old"}],"rules":[]}"""
    val after = """{"default":"a","queues":[{"queue":"a","ceiling":"30 %"},{"queue":"new","floor":1}],"rules":[{"queue":"a","user":"x"}]}"""
    assert(QueueChange.described(before, before) === "")
    assert(QueueChange.described(before, after) ===
      """queue old is gone; queue a: ceiling 4 -> 30 %, weight 2.0 -> none; queue new is new: floor none -> 1; """ +
        """rules [] -> [{"queue":"a","user":"x"}]""")
  }
}
