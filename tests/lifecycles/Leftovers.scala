package org.apache.spark.scheduler.sparksched.lifecycles

import java.lang.management.ThreadInfo
import java.nio.charset.StandardCharsets.ISO_8859_1
import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._
import scala.util.Try
import scala.util.control.NonFatal

import org.apache.spark.SparkContext
import org.apache.spark.scheduler.TaskSchedulerImpl
import org.apache.spark.scheduler.sparksched.SparkSched

/** What must be gone when all lifecycles are over, and what to print when it is not. */
object Leftovers {
  /** Collections that may hold something on an idle cluster. */
  private val MayStay = Seq(
    "records.registry.executors.executors", "records.ledger.holdings.executors", // those that are alive
    "records.plans.refusals", // one number per reason
    "planner.pythons.candidates", // those of the configuration that were not tried in vain
    "records.ledger.barriers.", // what deadlines learn from, bounded
    "records.tally.shadow.before", "records.tally.shadow.past", "records.registry.orders.switched", // one number per sum, one switch
    "slots.needs", "slots.shapes", // one per resource profile
    "records.usage.inForce.paths", // the tree of queues
    "records.statementUsers.silent", // the latest, so many at most
    "records.registry.heldIdle.", "records.registry.sums.", "status.metrics.", "views.", // sums, of so many users, names and classes at most
    "steering.policies", // the names that a planner knows
    "records.registry.ends.blocks.", "records.registry.warnings.logged", "records.registry.stories.over", "records.registry.stories.fresh", // the latest, so many at most
    "arrivals.sqlOutlook.writers", "arrivals.sqlOutlook.results", // the same
    "status.timeline.", // what the UI draws of the executors that are there, so many samples at most
    "records.plans.current.about.", // what the last plan says to people, of so many jobs at most
    "records.plans.current.queueWeights", "records.plans.queues", "round.enforcement.turns") // one number per queue

  /** Sentences; empty once the application is as idle as when it began. Waits for that. */
  def afterLifecycles(context: SparkContext, backend: SimulatedBackend, withinMs: Long): Seq[String] = settled(withinMs) {
    val (free, running) = backend.state
    leftovers(context) ++ Option.when(running.nonEmpty)(s"tasks $running still run") ++
      free.collect { case (executor, n) if n < backend.shape.slotsPerExecutor => s"executor $executor has only $n slots free" }
  }

  /** Sentences; empty once nothing of ours or Spark's knows of any job. Waits for that; called from Python, too. */
  def ofIdle(context: SparkContext, withinMs: Long): Array[String] = settled(withinMs)(leftovers(context)).toArray

  private def leftovers(context: SparkContext): Seq[String] = try {
    val scheduler = context.taskScheduler.asInstanceOf[TaskSchedulerImpl]
    val ours = Fields.entries(scheduler).collect {
      case (path, size, text) if !MayStay.exists(path.startsWith) && mayLeak(path) => s"$path still has $size: $text"
    }
    ours ++ Fields.ofSpark(scheduler, context.dagScheduler).map { case (name, size) => s"Spark's $name still has $size" }
  } catch { case NonFatal(thrown) => Seq(s"fields cannot be read, or change meanwhile: $thrown") } // They are read without their locks.

  /** Settings are collections, too. */
  private def mayLeak(path: String): Boolean = !path.startsWith("settings") && !path.contains("Process.settings")

  /** Threads and processes that were not there before. */
  def afterStop(before: Alive, withinMs: Long): Seq[String] = settled(withinMs) {
    val now = alive()
    (now.processes -- before.processes).map(p => s"process $p is left: ${commandOf(p)}").toSeq ++
      (now.threads -- before.threads).map(name => s"thread $name is left")
  }

  /** Threads of this project's and processes of anybody's after the application's end, with no other one before it. */
  def ofStopped(withinMs: Long): Array[String] = settled(withinMs) {
    val now = alive()
    // Python's threads have threads of py4j's in this JVM, too.
    now.processes.map(p => s"process $p is left: ${commandOf(p)}").toSeq ++
      now.threads.filter(_.startsWith("spark-sched")).map(name => s"thread $name is left")
  }.toArray

  /** Of a process, a file of the kernel's; empty if there is none any more. */
  private def told(process: Long, file: String): String =
    Try(Files.readString(Path.of(s"/proc/$process/$file"), ISO_8859_1)).getOrElse("")

  private def commandOf(process: Long): String = told(process, "cmdline").replace('\u0000', ' ')

  /** It has ended, and nobody asked how. Spark's script spark-class becomes this JVM, which so inherits a shell of the script's, and
    * never asks for its end, if that shell ended too late for the script to have done so. */
  private def isZombie(process: Long): Boolean = {
    val stat = told(process, "stat")
    stat.drop(stat.lastIndexOf(')') + 2).startsWith("Z") // a command's name may have anything in it
  }

  final case class Alive(threads: Set[String], processes: Set[Long])

  def alive(): Alive = Alive(
    Thread.getAllStackTraces.asScala.collect { case (thread, stack) if isOurs(thread.getName, stack) => thread.getName }.toSet,
    ProcessHandle.current().descendants().iterator().asScala.map(_.pid).filterNot(isZombie(_)).toSet)

  private def isOurs(name: String, stack: Array[StackTraceElement]): Boolean =
    Seq("spark-sched", "simulated", "tenant").exists(name.contains) ||
      stack.exists(frame => Seq("sparksched", "schedcore", "py4j").exists(frame.getClassName.contains) && name != "main")

  private def settled(withinMs: Long)(found: => Seq[String]): Seq[String] = {
    val until = System.nanoTime() + withinMs * 1000000
    var left = found
    while (left.nonEmpty && System.nanoTime() < until) {
      Thread.sleep(20)
      left = found
    }
    left
  }

  /** What a thread does, and for whose lock it waits. */
  def stackOf(thread: ThreadInfo): String = {
    val waits = Option(thread.getLockName).fold("")(lock => s" for $lock of ${thread.getLockOwnerName}")
    s"${thread.getThreadName} ${thread.getThreadState}$waits\n${thread.getStackTrace.take(40).map("    " + _).mkString("\n")}"
  }

  /** All that tells why nothing happens: counters, task sets, fields and stacks. */
  def dump(context: SparkContext): String = {
    val scheduler = context.taskScheduler.asInstanceOf[TaskSchedulerImpl]
    val sets = Try(scheduler.rootPool.getSortedTaskSetQueue.map { m =>
      s"task set ${m.name}: ${m.tasksSuccessful} of ${m.taskSet.tasks.length} done, ${m.runningTasks} running, barrier ${m.isBarrier}, " +
        s"zombie ${m.isZombie}, schedulable ${m.isSchedulable}, profile ${m.taskSet.resourceProfileId}"
    }.toSeq).getOrElse(Nil)
    val fields = Try(Fields.entries(scheduler).map { case (path, size, text) => s"$path ($size): $text" }).getOrElse(Nil)
    val stacks = Thread.getAllStackTraces.asScala.toSeq.collect {
      case (thread, stack) if stack.exists(_.getClassName.contains("sched")) =>
        s"${thread.getName} ${thread.getState}\n" + stack.take(12).map("    " + _).mkString("\n")
    }
    val counters = Try(SparkSched.counters(context)).getOrElse("")
    val cluster = s"cluster ${Try(context.schedulerBackend.asInstanceOf[SimulatedBackend].state)}"
    ((counters +: cluster +: sets) ++ fields ++ stacks).mkString("\n")
  }
}
