package org.apache.spark.scheduler.sparksched
package offers

import scala.collection.mutable

import org.apache.spark.scheduler.sparksched.jobs.Registry
import schedcore.enforce.{Enforcement, FloorVictim, QueueUsage, RunningAttempt}
import schedcore.events.Event
import schedcore.ledger.ShadowCounters

/**
 * Kills running tasks so that others get their slots, and counts the lost slot time. Spark does not count a killed task as
 * failed: it waits again. Tasks of stages that are not restartable are not killed: for a task of a barrier stage, for
 * example, Spark fails the whole stage, and after several such failures the job. Every method is
 * called under the scheduler's lock.
 *
 * @param managerOf the task set of an attempt that has not ended
 * @param waitingSlots slots that a job's tasks wait for, by resource profile of executors
 * @param openSlots that a job's waiting tasks may take of executors of a resource profile without an eviction
 * @param queues the tenants' queues
 * @param enforcing whether tasks are killed; otherwise they are only counted
 * @param kill an attempt, for a reason in words for people
 */
private[sparksched] final class Evictions(
    registry: Registry,
    managerOf: Long => Option[SchedTaskSetManager],
    waitingSlots: String => Map[Int, Int],
    openSlots: (String, Int) => Int,
    queues: () => Option[QueueUsage],
    enforcing: () => Boolean,
    kill: (Long, String) => Unit) {
  import Evictions._

  private val underWay = mutable.HashMap.empty[Long, Eviction]
  private val spared = mutable.HashSet.empty[Long] // attempts that would have been killed in shadow mode
  private var wouldHave = 0L
  private var observed = 0L // attempts that would have been evicted for floors
  private var total = 0L
  private var lostMs = 0L // slot-milliseconds

  def counters: Map[String, Long] = Map("evictions" -> total, "evictions_lost_slot_ms" -> lostMs) ++
    (if (observed > 0) Map("floor_evictions_observed" -> observed) else Map.empty) ++
    (if (wouldHave > 0) Map((ShadowCounters.Prefix + "evictions") -> wouldHave) else Map.empty)

  /** Takes all slots of these jobs. */
  def evict(jobs: Seq[String]): Unit = if (jobs.nonEmpty) {
    val attempts = registry.executors.attemptsOf(jobs.toSet)
    for (job <- jobs) {
      val running = attempts.getOrElse(job, Nil).filterNot(underWay.contains).map(tid => tid -> managerOf(tid).exists(_.place.restartable))
      Enforcement.victims(running).foreach(evict(_, Eviction(), "evicted by the plan: other jobs gain more than it loses"))
    }
  }

  /** Takes slots of the running tasks that the plan names for a job, as many as its waiting tasks need. */
  def preempt(job: String, named: Seq[Long]): Unit = {
    val coming = underWay.iterator.collect { case (tid, Eviction(Some(`job`), _)) => tid }.flatMap(managerOf(_)).toList
      .groupMapReduce(_.executorProfile)(_.slotsPerTask)(_ + _)
    val waiting = waitingSlots(job).map { case (profile, slots) => profile -> (slots - coming.getOrElse(profile, 0)) }
    val running = (tid: Long) => managerOf(tid).filterNot(_ => underWay.contains(tid))
      .map(m => RunningAttempt(registry.priority(m.job), m.place.restartable, m.slotsPerTask, m.executorProfile))
    // A slot of another tenants' queue that the order of queues would give back is not worth an eviction.
    def gives(tid: Long, going: List[Long]) = queues().forall(q => managerOf(tid).forall { m =>
      val forQueue = underWay.iterator.collect { case (other, eviction) if eviction.isFor(q, job) => other }.flatMap(managerOf(_)).toList
      val moved = (forQueue ++ going.flatMap(managerOf(_))).map(other => other.job -> other.slotsPerTask)
      q.cedes(m.job, job, m.slotsPerTask, openSlots(job, m.executorProfile), moved)
    })
    Enforcement.preempted(named, registry.priority(job), waiting, running, gives)
      .foreach(evict(_, Eviction(Some(job)), "evicted for a job of higher priority"))
  }

  /**
   * Takes slots for tenants' queues that stay below their floors, or counts what it would take.
   *
   * @param wanted slots that waiting tasks may take, by queue and resource profile
   */
  def forFloors(queues: QueueUsage, wanted: Seq[((String, Int), Int)], nowMs: Long): Unit = queues.preemption.foreach { floors =>
    floors.look(wanted, registry.executors.attempts.flatMap(victim(queues, _)).toList, nowMs).foreach { eviction =>
      val why = s"evicted for queue ${eviction.queue}, which has stayed below its floor"
      if (floors.evicts) evict(eviction.task, Eviction(queue = Some(eviction.queue)), why)
      else {
        observed += 1
        registry.executors.attempts.find(_.task == eviction.task).foreach(t => registry.stories.add(t.job, nowMs, s"a task of it would be $why"))
      }
    }
  }

  private def victim(queues: QueueUsage, t: Event.TaskLaunched): Option[FloorVictim] = queues.queueOf(t.job).map { queue =>
    val manager = managerOf(t.task)
    val restartable = manager.exists(_.place.restartable) && !underWay.contains(t.task)
    FloorVictim(t.task, queue, manager.fold(0)(_.executorProfile), t.slots, t.timeMs, restartable, t.evictions)
  }

  private def evict(tid: Long, eviction: Eviction, why: String): Unit = if (!enforcing()) {
    if (spared.add(tid)) wouldHave += 1
  } else {
    underWay(tid) = eviction
    managerOf(tid).foreach(_.evicting(tid))
    kill(tid, why)
  }

  /** An attempt ended. @return its eviction, if it was `killed` and had not ended by itself before */
  def ended(tid: Long, killed: Boolean): Option[Eviction] = {
    spared -= tid
    underWay.remove(tid).filter(_ => killed)
  }

  /** Counts an eviction, and the slot time that it lost. */
  def lost(slotMs: Long): Unit = {
    total += 1
    lostMs += math.max(0L, slotMs)
  }

  /** Attempts that were lost with their executor never end. */
  def keep(alive: Long => Boolean): Unit = {
    underWay.filterInPlace((tid, _) => alive(tid))
    spared.filterInPlace(alive)
  }
}

private[sparksched] object Evictions {

  /**
   * @param beneficiary the job that gets the slots; None: whoever comes first
   * @param queue the tenants' queue that stayed below its floor; None: the plan evicts
   */
  final case class Eviction(beneficiary: Option[String] = None, queue: Option[String] = None) {
    /** Whether its slots come to the job or to another one of its tenants' queue. */
    def isFor(queues: QueueUsage, job: String): Boolean = {
      val of = queues.queueOf(job)
      of.isDefined && queue.orElse(beneficiary.flatMap(queues.queueOf)) == of
    }
  }
}
