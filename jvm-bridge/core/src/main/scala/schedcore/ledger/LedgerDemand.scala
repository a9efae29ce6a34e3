package schedcore
package ledger

import scala.collection.mutable

/**
 * A stage that reads the output of an active one, as the DAG has it.
 *
 * @param vertex its name in the DAG
 * @param slots that its tasks need
 * @param ready all of its other parents have started or ended
 * @param shape what each of its tasks needs, where that is known
 */
final case class NextStage(vertex: String, slots: Int, ready: Boolean, shape: Option[TaskShape] = None)

/** A stage that has not started and reads what active stages write. */
private[schedcore] final class LedgerSuccessor {
  var slots = 0
  var known = true // how many slots it needs
  var bounded = false // `slots` is only an upper bound
  var ready = false
  var shape = TaskShape()
  var shaped = false // slots that its parents free may not fit its tasks
  val parents = mutable.LinkedHashMap.empty[String, LedgerStage] // the active ones
  val handed = mutable.LinkedHashMap.empty[Int, Int] // slots of parents that ended while it was ready, by their index
  var orphanMs: Option[Long] = None // since when no parent is active
  val written = mutable.HashSet.empty[String] // shuffles that it reads, where no DAG names it
}

/** What one job should have in all, held and running, for its stages and those that follow. */
private[schedcore] final class JobDemand {
  var slots = 0 // as of the last stage: between two Spark jobs it is all that is known
  var peakSlots = 0 // the most that ran at once
  val successors = mutable.LinkedHashMap.empty[String, LedgerSuccessor] // by their place in the DAG
  var overridden = 0 // held slots that a higher priority took: the job takes them back as they are released
}

/**
 * How many slots a job should hold for the stages that come next, by the edges of its DAG.
 *
 * A stage that is ''ready'' starts when its active parents end: all others have ended. What it needs less what its own parents
 * will hand over must be held by then; what other stages of the job still run on is theirs.
 *
 * `spark_sched_lab/enforce/ledger_demand.py` has the same.
 */
private[schedcore] object LedgerDemand {
  // The vertex after a stage whose successors the DAG does not name.
  private val Unnamed = ">"

  /**
   * What one successor needs, and which active stages hand their slots over to it.
   *
   * @param given slots that parents handed over which ended
   * @param past it is known, and its parents are past the threshold of pre-reservation
   * @param shape what each of its tasks needs
   */
  final case class Edge(need: Int, parents: Seq[LedgerStage], given: Int, past: Boolean, shape: TaskShape)

  /**
   * The least number of slots that, beside `have` slots of each parent, suffices for all successors.
   *
   * A slot goes to one successor, so this is the sum of the needs less the largest flow from parents to successors.
   *
   * @param edges of each successor its need and its parents
   */
  def lacking[P](edges: IndexedSeq[(Int, Seq[P])])(have: P => Int): Int =
    if (edges.size == 1) {
      // The most frequent case by far, with each task that ends.
      var left = edges.head._1
      edges.head._2.foreach(p => left -= have(p))
      math.max(0, left)
    } else {
      val left = mutable.HashMap.empty[P, Int]
      edges.foreach(_._2.foreach(p => left(p) = have(p)))
      val flow = mutable.HashMap.empty[(Int, P), Int].withDefaultValue(0)

      // Up to `slots` more for one successor, by taking other successors' from a parent that both share and giving them
      // those of another one.
      def handOver(to: Int, slots: Int, tried: mutable.Set[P]): Int = {
        var found = 0
        val parents = edges(to)._2.iterator
        while (found == 0 && parents.hasNext) {
          val p = parents.next()
          if (tried.add(p)) {
            found = math.min(slots, left(p))
            if (found > 0) left(p) -= found
            else {
              var other = 0
              while (found == 0 && other < edges.size) {
                val taken = flow((other, p))
                if (other != to && taken > 0) {
                  found = handOver(other, math.min(slots, taken), tried)
                  flow((other, p)) -= found
                }
                other += 1
              }
            }
            if (found > 0) flow((to, p)) += found
          }
        }
        found
      }

      edges.indices.iterator.map { to =>
        var open = edges(to)._1
        var found = 1
        while (open > 0 && found > 0) {
          found = handOver(to, open, mutable.HashSet.empty)
          open -= found
        }
        open
      }.sum
    }

  /** A stage started: it is no successor any more, and `successors` wait for it. */
  def started(j: LedgerJob, p: LedgerStage, vertex: String, successors: Seq[NextStage], reads: Set[String]): Unit = {
    j.changed()
    val waiting = j.demand.successors
    if (waiting.remove(vertex).isEmpty) {
      val orphans = waiting.iterator.filter { case (name, s) => isUnnamed(name) && s.parents.isEmpty }.toList
      // It follows the stage whose shuffle it reads. Otherwise it is assumed to follow a stage whose successors are unknown.
      val reader = orphans.filter(_._2.written.exists(reads))
      (if (reader.nonEmpty) reader else orphans.find(_._2.written.isEmpty).toList).foreach(waiting -= _._1)
    }
    val next = if (successors.isEmpty) Seq(NextStage(Unnamed + p.key, 0, ready = true)) else successors
    next.foreach { n =>
      val s = waiting.getOrElseUpdate(n.vertex, new LedgerSuccessor)
      s.slots = n.slots
      s.ready = n.ready
      s.orphanMs = None
      s.parents(p.key) = p
      s.handed -= p.index
      if (isUnnamed(n.vertex)) s.written ++= p.following.reads
      s.shape = n.shape.getOrElse(shapeOf(p))
      s.shaped = n.shape.exists(t => t.slots > 1 || t.profile != p.profile)
    }
  }

  /** The stage ended. If all of its tasks are done, its successors are about to start. */
  def stopped(j: LedgerJob, p: LedgerStage, nowMs: Long): Unit = {
    j.changed()
    val well = p.done.count == p.tasks
    j.demand.successors.toList.foreach { case (name, s) =>
      if (s.parents.remove(p.key).isDefined) {
        if (well && s.ready) s.handed(p.index) = p.slots
        if (s.parents.isEmpty) {
          s.orphanMs = Some(nowMs)
          if (!well || (p.isLast && isUnnamed(name))) j.demand.successors -= name
        }
      }
    }
  }

  /**
   * What reads the stage's output and that of `inputs`, as became known while it runs: no DAG names it before it starts.
   *
   * @param slots that it needs; None while that is not known
   */
  def learned(p: LedgerStage, vertex: String, slots: Option[Int], ready: Boolean, inputs: Seq[String]): Unit = {
    p.job.changed()
    val waiting = p.job.demand.successors
    val name = Unnamed + vertex
    waiting.filterInPlace { (at, s) => at == name || s.parents.remove(p.key).isEmpty || s.parents.nonEmpty }
    val s = waiting.getOrElseUpdate(name, new LedgerSuccessor)
    s.ready = ready
    s.orphanMs = None
    s.parents(p.key) = p
    s.written ++= p.following.reads
    s.shape = shapeOf(p)
    // The demand that was assumed after an ended input is this one; it gets the slots that the input handed over.
    inputs.map(Unnamed + _).filter(_ != name).flatMap(waiting.remove(_)).foreach { other =>
      s.parents ++= other.parents
      s.handed ++= other.handed
      s.written ++= other.written
    }
    slots.foreach { n =>
      s.parents.valuesIterator.foreach(_.following.learned = Some(n))
      // Slots that were pre-reserved for a larger n and are released do not count towards n - m.
      p.preReserved = math.min(p.preReserved, math.max(0, n - p.slots))
    }
  }

  /** Sets what the job may have in all, held and running. */
  def refresh(j: LedgerJob, nowMs: Long): Unit = {
    val rest = rests(j).map(_._1).maxOption.getOrElse(0)
    // Tasks that wait for a slot may use what is held, and a failed task's slot is kept for its retry.
    val next = edges(j, nowMs)
    // Where slots must fit, `LedgerFit` says which are held: this bounds their number.
    val more =
      if (LedgerFit.shaped(j)) next.iterator.map(e => e.shape.roundUp(e.need)).sum
      else lacking(next.map(e => e.need -> e.parents))(_.left)
    j.demand.slots = math.max(left(j) + more, rest)
    j.changed()
  }

  /** Slots that must be held for the stages that read the output of the stage. */
  def neededAfter(p: LedgerStage, nowMs: Long): Int = {
    val j = p.job
    val own = edges(j, nowMs).filter(_.parents.contains(p)).map(e => e.need -> e.parents)
    val rest = if (goesOn(j)) p.rest._1 - left(j) else 0
    math.max(0, math.max(if (own.isEmpty) 0 else lacking(own)(_.left), rest))
  }

  /** How many slots released by other jobs this one wants beside its own (Algorithm 1, lines 14-17). */
  def wanted(j: LedgerJob, nowMs: Long): Int =
    if (!j.mayHold || j.deadlineMs <= nowMs || j.demand.slots <= j.running + j.held) 0
    else if (j.stages.isEmpty) math.min(j.demand.overridden, j.demand.slots - j.running - j.held)
    else {
      var most = j.demand.overridden
      val reserved = sum(j)(_.preReserved)
      val all = edges(j, nowMs)
      if (all.exists(_.past)) {
        // Before the threshold a successor gets the slots of its parents and no other ones.
        val needs = all.map(e => if (e.past) e.need else math.min(e.need, e.parents.iterator.map(_.slots).sum + e.given))
        val now = lacking(needs.zip(all).map { case (n, e) => n -> e.parents })(_.left)
        val more = lacking(needs.zip(all).map { case (n, e) => math.max(0, n - e.given) -> e.parents })(_.slots)
        most = math.max(most, math.min(now - j.held, more - reserved))
      }
      rests(j).foreach { case (n, known, p) =>
        if (known && p.pastThreshold) most = math.max(most, math.min(n - left(j) - j.held, n - sum(j)(_.slots) - reserved))
      }
      math.min(most, j.demand.slots - j.running - j.held)
    }

  /**
   * Until when [[wanted]] stays 0 while nothing of the job changes. Less time until its deadline never makes it want more, but a
   * stage that did not start in time is forgotten when somebody asks.
   */
  def standsUntilMs(j: LedgerJob, nowMs: Long): Long = {
    var until = Long.MaxValue
    j.demand.successors.valuesIterator.foreach(_.orphanMs.foreach { since =>
      val over = since + j.rule.gapMs
      if (over > nowMs) until = math.min(until, over)
    })
    until
  }

  /**
   * The active stages that determine the deadline of the job's holds: the remaining work of its other stages does not tell how
   * long the holds last.
   *
   * A stage owns what its ended tasks left, with the other parents of the stage that waits for it, and what its own tasks wait
   * to start on. Without any owner all stages count.
   */
  def owners(j: LedgerJob): Iterable[LedgerStage] = if (j.stages.size == 1) j.stages.values else {
    val begun = j.stages.valuesIterator.filter(p => p.done.count > 0 && !p.isLast).toSet
    val found = mutable.Set.from(begun) ++= j.stages.valuesIterator.filter(_.waits)
    j.demand.successors.valuesIterator.foreach { s =>
      if (s.ready && s.parents.valuesIterator.exists(begun)) found ++= s.parents.valuesIterator.filterNot(_.isLast)
    }
    if (found.isEmpty) j.stages.values else found
  }

  /** Until when slots wait for the stages that the DAG says start now, since their parents have ended. */
  def dueByMs(j: LedgerJob): Iterator[Long] = j.demand.successors.iterator.flatMap { case (name, s) =>
    if (s.ready && !isUnnamed(name)) s.orphanMs.map(_ + j.rule.gapMs) else None
  }

  /** Slots of the job's tasks that are not done. */
  def left(j: LedgerJob): Int = sum(j)(_.left)

  private def shapeOf(p: LedgerStage) = TaskShape(p.slotsPerTask, 1, p.profile)

  /** The stages that start when the active ones end; those that nobody started in time are forgotten. */
  def edges(j: LedgerJob, nowMs: Long): IndexedSeq[Edge] = {
    val waiting = j.demand.successors
    waiting.filterInPlace { (_, s) => !s.orphanMs.exists(_ + j.rule.gapMs <= nowMs) } // They did not start in time.
    waiting.iterator.filter { case (name, s) => s.ready && !endsAt(name, s) }.map { case (name, s) =>
      val parents = s.parents.values.toList
      if (isUnnamed(name) && parents.nonEmpty) {
        val stated = parents.flatMap(_.nextSlots)
        s.known = stated.nonEmpty
        s.bounded = parents.exists(_.nextIsBound) && parents.forall(p => p.nextSlots.isEmpty || p.nextIsBound)
        // With n unknown the paper expects m again.
        s.slots = if (s.known) stated.max else parents.iterator.map(_.slots).max
      }
      val given = s.handed.valuesIterator.sum
      // While another stage runs, which may be the other input, only what the parents handed over is kept for a mere bound.
      if (parents.isEmpty && s.bounded && j.stages.nonEmpty) Edge(math.min(s.slots, given), parents, given, past = false, s.shape)
      else Edge(s.slots, parents, given, s.known && parents.forall(_.pastThreshold), s.shape)
    }.toIndexedSeq
  }

  /** Whether nothing follows the stages whose next stages are unknown. */
  private def endsAt(name: String, s: LedgerSuccessor): Boolean =
    isUnnamed(name) && s.parents.nonEmpty && s.parents.valuesIterator.forall(_.isLast)

  private def isUnnamed(name: String): Boolean = name.startsWith(Unnamed)

  /** Whether another action may follow, which no DAG contains yet. */
  private def goesOn(j: LedgerJob): Boolean = j.rule.wholeJob && j.marked

  /** What a marked job's next action needs: by stage, its slots and whether that is known. */
  private def rests(j: LedgerJob): Seq[(Int, Boolean, LedgerStage)] =
    if (!goesOn(j)) Nil
    else j.stages.valuesIterator.filterNot(_.isLast).map { p => val (n, known) = p.rest; (n, known, p) }.toList

  private def sum(j: LedgerJob)(of: LedgerStage => Int): Int = j.stages.valuesIterator.map(of).sum
}
