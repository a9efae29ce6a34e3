package org.apache.spark.scheduler.sparksched.lifecycles

import java.util.Properties
import java.util.concurrent.{ConcurrentHashMap, ConcurrentLinkedDeque, TimeUnit}
import java.util.concurrent.atomic.AtomicReferenceArray

import scala.collection.mutable
import scala.concurrent.Await
import scala.concurrent.duration.{DurationInt, FiniteDuration}
import scala.jdk.CollectionConverters._
import scala.util.{Failure, Random, Success, Try}

import org.apache.spark.{ShuffleDependency, SparkContext}
import org.apache.spark.resource.ResourceProfile
import org.apache.spark.scheduler.JobWaiter
import org.apache.spark.util.CallSite

/**
 * One Spark job.
 *
 * @param failingPartition fails `failures` times in each of the job's stages; -1: none does
 * @param sends what its results are to the driver, one of [[Fate]]'s
 */
final case class Action(
    rdd: SimulatedRdd, seed: Long, longestMs: Int, failingPartition: Int = -1, failures: Int = 0, mustFail: Boolean = false,
    sends: String = Fate.Plain)

/** The hang, the wrong result or the lost error of a lifecycle, in one sentence. */
final class LifecycleFailed(message: String) extends Exception(message)

/** What lifecycles share: the application, its cluster, and for how long nothing may happen. */
final class World(
    val context: SparkContext, val backend: SimulatedBackend, val shape: ClusterShape, val maxFailures: Int,
    val excludes: Boolean, val policies: Seq[String], stallMs: Long) {

  val outcomes = new ConcurrentHashMap[String, Integer]
  @volatile var failed = false
  private val latest = new ConcurrentLinkedDeque[String]

  /** Keys of the jobs that were submitted last. */
  def latestJobs: Seq[String] = latest.asScala.toSeq.distinct

  def submitted(job: String): Unit = {
    latest.addLast(job)
    if (latest.size > World.MostJobs) latest.pollFirst()
  }

  def count(outcome: String): Unit = outcomes.merge(outcome, 1, (a, b) => a + b)

  /** Nobody's task starts or ends, for too long. */
  def stalled: Boolean = System.nanoTime() - backend.lastActivityNs > TimeUnit.MILLISECONDS.toNanos(stallMs)
}

object World {
  private val MostJobs = 32
}

/** What one tenant does from beginning to end, drawn from a seed. */
final class Lifecycle(world: World, seed: Long) {
  import Lifecycle._

  private val random = new Random(seed)
  random.nextInt()
  private val context = world.context
  private val meddling = new Meddling(world, random)
  private val cancelledGroups = mutable.HashSet.empty[String]
  private var marks = 0

  def run(): Unit = within(Mark.draw(random, nextMark()), depth = 0)

  private def nextMark(): String = {
    marks += 1
    s"$seed-$marks"
  }

  private def within(mark: Mark, depth: Int): Unit = {
    (0 to random.nextInt(2)).foreach(_ => step(mark, depth))
    mark.end(context)
  }

  private def step(mark: Mark, depth: Int): Unit = random.nextInt(20) match {
    case 0 | 1 if depth < 2 => within(Mark.draw(random, nextMark()), depth + 1)
    case 2 | 3 => sharedStage(mark)
    case 4 => mapStage(mark)
    case 5 => barrier(mark)
    case 6 => failing(mark)
    case 7 => endsEarly(mark)
    case 8 =>
      world.backend.loseExecutor(random.nextInt(64), replacedAfterMs = random.nextInt(30))
      submit(mark, plain(chain())).await()
    case 9 | 10 => cancelled(mark)
    case 11 | 12 =>
      // Spark takes one that stays for one that an excluded task may still run on, and waits for it for ever.
      val goneAfterMs = Option.when(world.excludes || random.nextInt(4) > 0)(random.nextInt(40).toLong)
      world.backend.decommission(random.nextInt(64), replacedAfterMs = random.nextInt(30), goneAfterMs)
      submit(mark, plain(chain())).await()
    case 13 | 14 => operated(mark)
    case 15 => planned(mark)
    case 16 => wide(mark)
    case 17 => badResults(mark)
    case 18 => retagged(mark)
    case _ => submit(mark, plain(chain())).await()
  }

  // ---- kinds of steps --------------------------------------------------------------------------------------------

  /** Two Spark jobs read one shuffle; the one that submits its stage may be cancelled. */
  private def sharedStage(mark: Mark): Unit = {
    val shared = SimulatedRdd.shuffle(source(), width())
    val other = if (random.nextBoolean()) mark else Mark.draw(random, nextMark())
    val first = submit(mark, plain(reader(Seq(shared))))
    val second = submit(other, plain(reader(Seq(shared))))
    if (random.nextBoolean()) {
      pause()
      first.cancel(random.nextInt(2))
    }
    if (random.nextBoolean()) mark.end(context) // while both run
    first.await()
    second.await()
    if (other ne mark) other.end(context)
  }

  /** As adaptive execution does: a Spark job for the shuffle alone, then one that reads it. */
  private def mapStage(mark: Mark): Unit = {
    val shuffle = SimulatedRdd.shuffle(source(least = 1), width()) // Spark refuses one without tasks.
    val job = submitMapStage(mark, shuffle)
    if (random.nextInt(3) == 0) {
      pause()
      job.cancel(0)
    }
    job.await()
    submit(mark, plain(reader(Seq(shuffle)))).await()
  }

  private def barrier(mark: Mark): Unit = {
    val size = 1 + random.nextInt(world.shape.slots / 2)
    val parents = if (random.nextBoolean()) Seq(SimulatedRdd.shuffle(source(), size)) else Nil
    val job = submit(mark, plain(new SimulatedRdd(context, size, parents, Nil, barrier = true)))
    random.nextInt(4) match {
      case 0 => job.operate()
      case 1 => job.plan()
      case _ =>
    }
    job.await()
  }

  private def failing(mark: Mark): Unit = {
    val rdd = chain()
    val times = 1 + random.nextInt(world.maxFailures)
    val mustFail = times == world.maxFailures && rdd.getNumPartitions > 0
    // Attempts that are killed or lost have numbers, too, but do not count as failures.
    val failures = if (mustFail) Int.MaxValue else times
    submit(mark, plain(rdd).copy(failingPartition = 0, failures = failures, mustFail = mustFail)).await()
  }

  private def endsEarly(mark: Mark): Unit = {
    val job = submit(mark, plain(chain()))
    pause()
    mark.end(context)
    job.await()
  }

  private def cancelled(mark: Mark): Unit = {
    val job = submit(mark, plain(chain()))
    pause()
    job.cancel(random.nextInt(6))
    job.await()
    if (random.nextInt(3) == 0) submit(mark, plain(chain())).await() // of a group that may be cancelled for good
  }

  private def operated(mark: Mark): Unit = {
    val job = submit(mark, plain(chain()))
    pause()
    job.operate()
    job.await()
  }

  private def planned(mark: Mark): Unit = {
    val job = submit(mark, plain(chain()))
    job.plan()
    job.await()
  }

  /** Spark jobs of one job with other tags than the one before, which still runs. */
  private def retagged(mark: Mark): Unit = {
    val first = submit(mark, plain(chain()))
    pause()
    val second = submit(mark.retagged(random), plain(chain()))
    world.count("tags changed")
    if (random.nextBoolean()) second.operate()
    first.await()
    second.await()
  }

  /** Tasks that take no time, as many as make every look at all of them felt. */
  private def wide(mark: Mark): Unit = {
    val tasks = if (random.nextInt(8) == 0) 1000 else 50
    val rdd = new SimulatedRdd(context, tasks, Nil, hosts(), barrier = false)
    submit(mark, plain(reader(Seq(SimulatedRdd.shuffle(rdd, width())))).copy(longestMs = 0)).await()
  }

  /** Results that Spark gives up a job for. */
  private def badResults(mark: Mark): Unit = {
    val rdd = chain()
    val sends = if (random.nextBoolean()) Fate.TooLarge else Fate.Unreadable
    submit(mark, plain(rdd).copy(sends = sends, mustFail = rdd.getNumPartitions > 0)).await()
  }

  private def pause(): Unit = Thread.sleep(random.nextInt(12))

  // ---- DAGs ------------------------------------------------------------------------------------------------------

  private def width(): Int = if (random.nextInt(40) == 0) 0 else 1 + random.nextInt(6)
  private def hosts(): Seq[String] =
    if (world.shape.reviveMs > 0 && random.nextInt(3) == 0) Seq(s"host${random.nextInt(world.shape.hosts)}") else Nil

  private def profile(): Option[ResourceProfile] = random.nextInt(10) match {
    case 0 => Some(Profiles.Wide)
    case 1 if world.shape.apart > 0 => Some(Profiles.Apart)
    case _ => None
  }

  private def source(least: Int = 0): SimulatedRdd =
    new SimulatedRdd(context, math.max(least, width()), Nil, hosts(), barrier = false, profile(), random.nextInt(8) == 0)

  private def reader(shuffles: Seq[ShuffleDependency[Int, Int, Int]]): SimulatedRdd = {
    val width = shuffles.head.partitioner.numPartitions
    new SimulatedRdd(context, width, shuffles, Nil, barrier = false, profile(), random.nextInt(8) == 0)
  }

  /** One to four stages, in a line or with two that feed the last. */
  private def chain(): SimulatedRdd = random.nextInt(4) match {
    case 0 => source()
    case 1 => reader(Seq(SimulatedRdd.shuffle(source(), width())))
    case 2 => reader(Seq(SimulatedRdd.shuffle(reader(Seq(SimulatedRdd.shuffle(source(), width()))), width())))
    case 3 =>
      val wide = width()
      reader(Seq(SimulatedRdd.shuffle(source(), wide), SimulatedRdd.shuffle(source(), wide)))
  }

  private def plain(rdd: SimulatedRdd): Action =
    Action(rdd, random.nextInt(1 << 20), longestMs = random.nextInt(8))

  // ---- Spark jobs ------------------------------------------------------------------------------------------------

  private def properties(mark: Mark, action: Action, tag: String): Properties = {
    val all = new Properties
    mark.properties.foreach { case (key, value) => all.setProperty(key, value) }
    all.setProperty("spark.job.tags", (mark.properties.get("spark.job.tags").toSeq :+ tag).mkString(","))
    Fate.put(all, action)
    all
  }

  private def submit(mark: Mark, action: Action): Submitted = {
    val results = new AtomicReferenceArray[java.lang.Long](action.rdd.getNumPartitions)
    val tag = nextMark()
    val put = (partition: Int, value: Long) =>
      if (results.getAndSet(partition, value) != null) world.count("result given twice")
    val waiter = context.dagScheduler.submitJob[(Int, Int), Long](
      action.rdd, (_, _) => 0L, 0 until results.length, CallSite.empty, put, properties(mark, action, tag))
    world.submitted(mark.keyOf(waiter.jobId))
    new Submitted(waiter, mark, tag, action, partition => Option(results.get(partition)).map(_.longValue))
  }

  private def submitMapStage(mark: Mark, shuffle: ShuffleDependency[Int, Int, Int]): Submitted = {
    val rdd = shuffle.rdd.asInstanceOf[SimulatedRdd]
    val action = plain(rdd)
    val tag = nextMark()
    val waiter = context.dagScheduler.submitMapStage[Int, Int, Int](
      shuffle, _ => (), CallSite.empty, properties(mark, action, tag))
    world.submitted(mark.keyOf(waiter.jobId))
    new Submitted(waiter, mark, tag, action, partition => Some(Fate.result(action.seed, partition)))
  }

  private final class Submitted(
      waiter: JobWaiter[_], mark: Mark, tag: String, action: Action, result: Int => Option[Long]) {
    private val group = mark.properties.get("spark.jobGroup.id")
    private var cancelSent = false

    def operate(): Unit = meddling.operate(mark.keyOf(waiter.jobId))

    def plan(): Unit = (0 to random.nextInt(3)).foreach { _ =>
      meddling.plan()
      pause()
    }

    def cancel(way: Int): Unit = {
      cancelSent = true
      (way, group) match {
        case (0, _) => waiter.cancel()
        case (1, Some(name)) =>
          cancelledGroups += name
          context.cancelJobGroup(name)
        case (4, Some(name)) =>
          cancelledGroups += name
          context.cancelJobGroupAndFutureJobs(name)
        case (5, _) => meddling.steer("cancel", "job" -> mark.keyOf(waiter.jobId))
        case (2, _) => context.statusTracker.getJobInfo(waiter.jobId).foreach(_.stageIds().headOption.foreach(context.cancelStage(_)))
        case _ => context.cancelJobsWithTag(tag)
      }
    }

    /** Waits for the end and judges it. */
    def await(): Unit = {
      val done = waiter.completionFuture
      val until = System.nanoTime() + TimeUnit.MINUTES.toNanos(6)
      while (!done.isCompleted && !world.failed) {
        Try(Await.ready(done, LookAgain))
        Option(world.backend.thrown.get).foreach(throw _)
        if (world.stalled) fail("nothing happens any more and it has not ended")
        if (System.nanoTime() > until) fail("others go on and it has not ended")
      }
      if (!world.failed) done.value.get match {
        case Success(_) => succeeded()
        case Failure(error) => failed(String.valueOf(error.getMessage))
      }
    }

    private def succeeded(): Unit = {
      if (action.mustFail) fail("it ended well although a task failed as often as it may")
      (0 until action.rdd.getNumPartitions).foreach { p =>
        if (!result(p).contains(Fate.result(action.seed, p))) fail(s"partition $p has the result ${result(p)}")
      }
      world.count("succeeded")
    }

    private def failed(message: String): Unit =
      if (action.mustFail && OnPurpose.exists(message.contains)) world.count("failed as it must")
      else if (message.contains("cancelled") && (cancelSent || group.exists(cancelledGroups))) world.count("cancelled")
      else if (world.excludes && message.contains("excludeOnFailure")) world.count("excluded")
      // Spark cannot take back what results were made of outputs that it must make again.
      else if (Seq("indeterminate", "cannot rollback").exists(message.contains)) world.count("indeterminate")
      // Spark cannot run part of a barrier stage again that gives results.
      else if (action.rdd.isBarrier() && message.contains("failed barrier ResultStage")) world.count("barrier broken")
      else fail(s"it failed: ${message.linesIterator.take(3).mkString(" ")}")

    private def fail(why: String): Nothing =
      throw new LifecycleFailed(s"lifecycle $seed, Spark job ${waiter.jobId} (${mark.properties}): $why")
  }
}

object Lifecycle {
  /** How often whoever waits for a Spark job looks whether the whole application hangs. */
  private val LookAgain: FiniteDuration = 20.millis

  /** What Spark says of jobs that are to fail. */
  private val OnPurpose = Seq(SimulatedBackend.OnPurpose, "maxResultSize", "Exception while getting task result")
}
