package org.apache.spark.scheduler.sparksched

import java.io.{BufferedReader, InputStreamReader}
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path, Paths}

import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import schedcore.ClassFile

/**
 * What the bridge needs of Spark: each class and member that it refers to or overrides.
 *
 * A bridge that runs on another Spark than it was compiled for fails where Spark does not expect it, such as in the
 * thread of the DAG scheduler, and the application waits without end. So the build writes a list beside the classes, and
 * the list is compared with the class files of the Spark that runs before anything of an application is changed.
 *
 * A line of the list is `Class`, `Class member` or `Class member override`. The first line has Spark's version.
 */
private[spark] object SparkLinks {
  private final val Resource = "spark-links.txt"
  private final val Override = "override"
  private final val Ours = "org/apache/spark/"
  private final val Sql = "org/apache/spark/sql/"
  private final val Remedy = "compile it with `spark-sched conf`, with SPARK_HOME set to this Spark and SPARK_SCHED_COMPILE=1"

  /** The build's step: `main(directory of the classes, Spark's version)` writes the list among the classes. */
  def main(arguments: Array[String]): Unit = {
    val classes = Paths.get(arguments(0))
    val list = classes.resolve(getClass.getPackage.getName.replace('.', '/')).resolve(Resource)
    Files.write(list, (arguments(1) +: collect(classes, getClass.getClassLoader)).asJava)
  }

  /** The list's lines without the first, for the compiled classes in this directory. */
  private[sparksched] def collect(directory: Path, loader: ClassLoader): Seq[String] = {
    val files = Files.walk(directory)
    val own =
      try files.iterator.asScala.filter(_.toString.endsWith(".class")).map(file => ClassFile.parse(Files.readAllBytes(file)))
        .map(c => c.name -> c).toMap
      finally files.close()
    val spark = new ClassFiles(loader)
    def isSparks(name: String) = name.startsWith(Ours) && !own.contains(name)
    val referred = own.valuesIterator.flatMap(_.refersTo).filter(r => isSparks(r.owner))
      .map(r => if (r.member == null) r.owner else s"${r.owner} ${r.member}")
    val overridden = for {
      c <- own.valuesIterator
      ancestors = sparkAncestors(c, own).distinct
      (member, flags) <- c.members.asScala.iterator
      if member.contains('(') && !member.startsWith("<") && !ClassFile.isOwn(flags)
      ancestor <- ancestors.find(spark.find(_, member).exists(!ClassFile.isOwn(_)))
    } yield s"$ancestor $member $Override"
    (referred ++ overridden).toSet.toList.sorted
  }

  /** The nearest classes of Spark that the class extends. */
  private def sparkAncestors(c: ClassFile, own: Map[String, ClassFile]): Seq[String] =
    c.parents.toList.flatMap(parent => own.get(parent).fold(Seq(parent).filter(_.startsWith(Ours)))(sparkAncestors(_, own)))

  /**
   * Why this bridge must not run here: a sentence that ends with the remedy, or none. Throws nothing.
   *
   * @param version Spark's
   */
  private[sparksched] def refusal(version: String): Option[String] =
    try {
      val stream = getClass.getResourceAsStream(Resource)
      // Without the list these are classes that a development tool has compiled, not a jar.
      if (stream == null) None
      else {
        val lines = new BufferedReader(new InputStreamReader(stream, UTF_8))
        try refusal(version, lines, getClass.getClassLoader)
        finally lines.close()
      }
    } catch {
      case thrown @ (NonFatal(_) | _: LinkageError) => Some(s"its bridge cannot run on Spark $version ($thrown): $Remedy")
    }

  private[sparksched] def refusal(version: String, list: BufferedReader, loader: ClassLoader): Option[String] = {
    val compiledFor = list.readLine()
    if (line(version) != line(compiledFor))
      Some(s"its bridge is compiled for Spark $compiledFor and this is Spark $version: $Remedy")
    else missing(Iterator.continually(list.readLine()).takeWhile(_ != null), loader).map(what =>
      s"its bridge uses $what of Spark $compiledFor, which this Spark $version does not have: $Remedy")
  }

  /** The first link that does not hold, as a person writes it. */
  private def missing(links: Iterator[String], loader: ClassLoader): Option[String] = {
    val spark = new ClassFiles(loader)
    // A driver may lack Spark SQL as a whole.
    val hasSql = spark(s"${Sql}execution/SparkPlan").isDefined
    links.filter(hasSql || !_.startsWith(Sql)).find(!isThere(_, spark))
      .map(_.split("[(:]")(0).replace(' ', '.').replace('/', '.'))
  }

  private def isThere(link: String, spark: ClassFiles): Boolean = link.split(' ') match {
    case Array(owner) => owner.startsWith("[") || spark(owner).isDefined
    case Array(owner, member) => spark.find(owner, member).isDefined
    case Array(owner, member, _) => spark.find(owner, member).exists(ClassFile.isOverridable)
  }

  /** `4.3` of `4.3.0-vendor.1`. */
  private def line(version: String): String = version.replaceFirst("^([0-9]+\\.[0-9]+).*", "$1")

  /** The class files that a class loader finds, each read once. */
  private final class ClassFiles(loader: ClassLoader) {
    private val read = mutable.HashMap.empty[String, Option[ClassFile]]

    def apply(name: String): Option[ClassFile] = read.getOrElseUpdate(name, {
      val stream = loader.getResourceAsStream(s"$name.class")
      if (stream == null) None else try Some(ClassFile.parse(stream.readAllBytes())) finally stream.close()
    })

    /** The flags of the member that this class has, of its own or from a parent. */
    def find(owner: String, member: String): Option[Int] = apply(owner).flatMap { c =>
      Option(c.members.get(member)).map(_.intValue).orElse(c.parents.iterator.flatMap(find(_, member)).nextOption())
    }
  }
}
