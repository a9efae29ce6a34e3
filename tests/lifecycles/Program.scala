package org.apache.spark.scheduler.sparksched.lifecycles

import java.lang.management.ManagementFactory
import java.util.concurrent.{ConcurrentLinkedQueue, CountDownLatch, TimeUnit}
import java.util.concurrent.atomic.AtomicInteger

import scala.jdk.CollectionConverters._
import scala.util.Random

import com.fasterxml.jackson.databind.ObjectMapper
import org.apache.logging.log4j.Level
import org.apache.logging.log4j.core.config.Configurator
import org.apache.spark.{SparkConf, SparkContext}
import org.apache.spark.scheduler._
import org.apache.spark.scheduler.sparksched.{SchedTaskScheduler, SparkSched}
import org.apache.spark.util.ThreadUtils
import schedcore.ledger.RecordedLedger
import schedcore.settings.Settings

/** `spark.master=simulated`: the scheduler under test before a cluster that runs nothing. */
final class SimulatedClusterManager extends ExternalClusterManager {
  override def canCreate(master: String): Boolean = master == "simulated"

  override def createTaskScheduler(context: SparkContext, master: String): TaskScheduler =
    new SchedTaskScheduler(context, Round.MaxFailures, false, Settings.from(context.conf.getAll.toMap))

  override def createSchedulerBackend(context: SparkContext, master: String, scheduler: TaskScheduler): SchedulerBackend =
    new SimulatedBackend(context, scheduler.asInstanceOf[TaskSchedulerImpl], Round.shape(context.conf))

  override def initialize(scheduler: TaskScheduler, backend: SchedulerBackend): Unit =
    scheduler.asInstanceOf[TaskSchedulerImpl].initialize(backend)
}

/**
 * Runs random lifecycles under each policy and prints one JSON line per round.
 *
 * Arguments: seed, lifecycles per policy, the planner's Python, policies divided by commas.
 */
object Program {
  def main(args: Array[String]): Unit = {
    val Array(seed, lifecycles, python, names) = args
    val policies = names.split(',').toSeq
    val before = Leftovers.alive()
    val rounds = for ((policy, number) <- policies.iterator.zipWithIndex) yield {
      // Half of the policies on each kind of cluster, and with the next seed the other half.
      val like = if ((number + seed.toLong) % 2 == 0) "local" else "cluster"
      val others = policies.filterNot(_ == policy)
      val other = if (others.isEmpty) policy else others(number % others.size)
      val round = new Round(policy, other, like == "cluster", lifecycles.toInt, seed.toLong * 1000003 + number, python)
      watched(s"$policy on a $like cluster")(round.run(before))
    }
    // What makes one fail may make all that follow fail, each after minutes.
    rounds.find(failed => failed)
  }

  /** Prints what became of the round. A lock that nobody gives back hangs whoever would tell of it, so a thread without locks does. */
  private def watched(name: String)(run: => (Boolean, String)): Boolean = {
    val watch = ThreadUtils.newDaemonSingleThreadScheduledExecutor("watch-of-round")
    watch.schedule((() => {
      val threads = ManagementFactory.getThreadMXBean.dumpAllThreads(true, true).map(Leftovers.stackOf)
      System.err.println(s"HANG $name has not ended after ${Round.LongestMin} minutes\n${threads.mkString("\n")}")
      Runtime.getRuntime.halt(3)
    }): Runnable, Round.LongestMin, TimeUnit.MINUTES)
    try {
      val (failed, report) = run
      println("ROUND " + report)
      failed
    } catch { case thrown: Throwable =>
      thrown.printStackTrace()
      Runtime.getRuntime.halt(1) // its context may be alive, and wait for something
      true
    } finally watch.shutdownNow()
  }
}

/** One application under one policy, which another one takes over from in the middle. */
final class Round(policy: String, other: String, likeCluster: Boolean, lifecycles: Int, seed: Long, python: String) {
  import Round._

  private val failures = new ConcurrentLinkedQueue[String]
  private val next = new AtomicInteger
  private val killed = new AtomicInteger
  private val ended = new AtomicInteger
  private val startedNs = System.nanoTime()

  private val conf: SparkConf = {
    val common = new SparkConf(false).setMaster("simulated").setAppName(s"lifecycles-$policy")
    (Common ++ (if (likeCluster) LikeCluster else LikeLocal)).foreach { case (k, v) => common.set(k, v) }
    // Options of policies come with the command.
    sys.props.foreach { case (k, v) => if (k.startsWith("spark.sched.policy.")) common.set(k, v) }
    // Each round has a file of its own in the folder that this names.
    sys.props.get(RecordedLedger.Setting).foreach(folder => common.set(RecordedLedger.Setting, s"$folder/$policy-$seed.jsonl"))
    common.set(Settings.PlannerPython.name, python).set(Settings.PlannerPolicy.name, policy)
  }

  /** Whether it failed, and what happened as JSON. */
  def run(before: Leftovers.Alive): (Boolean, String) = {
    val context = new SparkContext(conf)
    // Broken invariants are logged; what fails on purpose would hide them.
    Configurator.setLevel("org.apache.spark.scheduler.sparksched", Level.ERROR)
    val backend = context.schedulerBackend.asInstanceOf[SimulatedBackend]
    val world = new World(context, backend, shape(conf), MaxFailures, likeCluster, Seq(policy, other), StallMs)
    if (!plans(context)) failures.add(s"no plan within ${QuietMs / 1000} s")
    backend.lastActivityNs = System.nanoTime() // nobody had anything to run until now
    tenants(world)
    if (failures.isEmpty) Leftovers.afterLifecycles(context, backend, QuietMs).foreach(failures.add)
    val counters = SparkSched.counters(context)
    context.stop()
    if (failures.isEmpty) Leftovers.afterStop(before, QuietMs).foreach(failures.add)
    (!failures.isEmpty, report(world, counters))
  }

  /** Lifecycles that are over before the planner is up say nothing of its plans. */
  private def plans(context: SparkContext): Boolean = {
    val until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(QuietMs)
    while (counter(context, "plans_accepted") == 0 && System.nanoTime() < until) Thread.sleep(20)
    counter(context, "plans_accepted") > 0
  }

  private def counter(context: SparkContext, name: String): Long =
    new ObjectMapper().readTree(SparkSched.counters(context)).get(name).asLong

  private def tenants(world: World): Unit = {
    val ended = new CountDownLatch(Tenants)
    (1 to Tenants).foreach { n =>
      val thread = new Thread(() => try tenant(world) finally ended.countDown(), s"tenant-$n")
      thread.setDaemon(true)
      thread.start()
    }
    ended.await()
  }

  private def tenant(world: World): Unit = {
    var number = next.getAndIncrement()
    while (number < lifecycles && !world.failed) {
      disturbPlanner(world, number)
      try new Lifecycle(world, seed * 100003 + number).run()
      catch { case t: Throwable => fail(world, t) }
      if (!world.failed) switchMode(world)
      number = next.getAndIncrement()
    }
  }

  /** Kills the planner three times; the second comes with another policy, the third with the first one again. The fourth falls silent. */
  private def disturbPlanner(world: World, number: Int): Unit = {
    val at = Seq(1, 2, 3, 4).map(_ * lifecycles / 5).indexOf(number)
    if (at == 3) {
      val planner = counter(world.context, "planner_pid")
      if (planner > 0) new ProcessBuilder("kill", "-STOP", planner.toString).start().waitFor()
    } else if (at >= 0) {
      world.context.conf.set(Settings.PlannerPolicy.name, if (at == 1) other else policy)
      ProcessHandle.of(counter(world.context, "planner_pid")).ifPresent { planner =>
        planner.destroyForcibly()
        killed.incrementAndGet()
      }
    }
  }

  /** A lifecycle has ended: off, shadow and on in turn while others run, and at the end as at the beginning. */
  private def switchMode(world: World): Unit = ended.synchronized {
    def mode = ModesInTurn(ended.get * ModesInTurn.size / (lifecycles + 1))
    val before = mode
    ended.incrementAndGet()
    if (mode != before) {
      val answer = SparkSched.steer(world.context, "mode", s"""{"name": "$mode"}""")
      if (answer.contains("error")) fail(world, new LifecycleFailed(answer))
      world.count(s"mode $mode")
    }
  }

  private def fail(world: World, why: Throwable): Unit = synchronized {
    if (!world.failed) {
      val dump = Leftovers.dump(world.context)
      world.failed = true
      val sentence = why match {
        case ours: LifecycleFailed => ours.getMessage
        case _ => s"$why\n${why.getStackTrace.take(25).mkString("\n")}"
      }
      failures.add(s"$sentence\n$dump")
    }
  }

  private def report(world: World, counters: String): String = {
    val json = new ObjectMapper()
    val node = json.createObjectNode().put("policy", policy).put("like", if (likeCluster) "cluster" else "local")
      .put("seed", seed).put("lifecycles", math.min(next.get, lifecycles)).put("planners_killed", killed.get)
      .put("seconds", (System.nanoTime() - startedNs) / 1e9)
      .put("tasks", world.backend.launched.get).put("executors_lost", world.backend.lost.get)
      .put("executors_decommissioned", world.backend.decommissioned.get)
    node.set("outcomes", json.valueToTree(world.outcomes))
    node.set("counters", json.readTree(counters))
    node.set("failures", json.valueToTree(failures))
    node.toString
  }
}

object Round {
  val MaxFailures = 4
  private val ModesInTurn = Seq("on", "off", "shadow", "on", "shadow", "on")
  private val Tenants = 24
  /** Far longer than anything here takes on a crowded machine, and far shorter than `maxHold` and `planValidity`. */
  private val StallMs = 120000L
  private val QuietMs = 120000L
  /** A round takes seconds, and fails by itself when one of the times above is over. */
  val LongestMin = 15L

  private val Common = Seq(
    "spark.ui.enabled" -> "false",
    "spark.log.level" -> "OFF",
    "spark.driver.host" -> "127.0.0.1",
    "spark.stage.maxConsecutiveAttempts" -> "1000",
    // Of no use here: nothing is ever read from the broadcasts and shuffles.
    "spark.broadcast.compress" -> "false",
    "spark.broadcast.checksum" -> "false",
    "spark.cleaner.referenceTracking" -> "false",
    "spark.testing.schedInvariants" -> "true",
    // A hang must not end by any of these.
    Settings.MaxHold.name -> "1h",
    Settings.PlanValidity.name -> "1h",
    Settings.Gap.name -> "30ms",
    Settings.CopiesMinTaskTime.name -> "5ms",
    Settings.PlannerInterval.name -> "20ms",
    Settings.PlannerStallTimeout.name -> "5s",
    Settings.PlannerRestartBackoff.name -> "10ms",
    Settings.PlannerRestartBackoffMax.name -> "20ms")

  private val LikeLocal = Seq("spark.locality.wait" -> "0")

  private val LikeCluster = Seq(
    "spark.scheduler.mode" -> "FAIR",
    "spark.speculation" -> "true",
    "spark.speculation.interval" -> "10ms",
    "spark.speculation.quantile" -> "0.5",
    "spark.speculation.minTaskRuntime" -> "5ms",
    "spark.locality.wait" -> "10ms",
    "spark.excludeOnFailure.enabled" -> "true",
    "spark.excludeOnFailure.timeout" -> "100ms",
    "spark.excludeOnFailure.application.fetchFailure.enabled" -> "true",
    // Spark waits so long for other executors before it gives up a task that none of these may run.
    "spark.scheduler.excludeOnFailure.unschedulableTaskSetTimeout" -> "1s")

  /** Where Spark excludes executors, it waits for ever for a task that only those of other profiles are left for: there are none. */
  def shape(conf: SparkConf): ClusterShape = {
    val likeLocal = conf.get("spark.locality.wait") == "0"
    ClusterShape(hosts = 2, executors = 5, slotsPerExecutor = 2, reviveMs = if (likeLocal) 0 else 100, apart = if (likeLocal) 1 else 0)
  }
}
