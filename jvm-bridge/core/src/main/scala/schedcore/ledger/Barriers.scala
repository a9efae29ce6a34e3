package schedcore
package ledger

import scala.collection.mutable

/**
 * When a stage's barrier is likely to fall: the calibrated deadline of reservations.
 *
 * The twin of `spark_sched_lab.enforce.barriers`, whose terms and comments hold here: a stage's centre is its N/2-th shortest
 * task time, the longer half's times are logarithms of their ratio to it, and the surprisal of a barrier is -ln of the
 * probability that it falls no later. Golden sequences under `protocol/golden/` bind the two; see
 * `docs/adr/0022-calibrated-deadlines.md`. Not thread safe: the ledger's lock guards it.
 *
 * @param seed of the draws
 */
final class Barriers(seed: Long = 0) {
  import Barriers._

  private var nextJob = mixed(seed)
  private val ratios = new Ratios
  // By the origin of the ratios, this job's stages or all jobs': their errors differ.
  private val fromOwn = new Scores
  private val fromShared = new Scores

  /** Where the draws of the next job begin: see the twin. */
  private def startOfDraws(): Long = {
    val start = nextJob
    nextJob += RootOf2
    start
  }
}

object Barriers {

  private val RatiosKept = 2048
  private val ScoresKept = 32
  private val SharedWeight = 8.0
  private val RanksWeight = 8.0
  private val Few = 4.0
  private val Lowest = -20.0
  private val Highest = 5.0
  private val Steps = 30
  // 2^64 by the golden ratio and by the square root of 2, without whole parts.
  private val Golden = 0x9E3779B97F4A7C15L
  private val RootOf2 = 0x6A09E667F3BCC908L
  private val NoiseMs = 1e-3

  /** Deadlines for the stages of one job, and what became of them. */
  final class OfJob(all: Barriers) {
    private val ratios = new Ratios
    private val scores = new Scores
    private val ofWaves = new Scores
    private var stages = 0
    private lazy val start = all.startOfDraws() // from the first deadline on that needs a draw

    /** The barrier of a stage that starts. */
    def newStage(tasks: Int): OfStage = {
      if (tasks > 1) stages += 1
      new OfStage(tasks, stages)
    }

    /**
     * D from the stage's last launch, in whole ms; infinite until half of its tasks ended.
     *
     * @param isolation P, between 0 and 1, both excluded
     */
    def deadlineMs(stage: OfStage, isolation: Double): Double =
      if (stage.tasks < 2 || !stage.halfEnded) Double.PositiveInfinity
      else {
        if (stage.askedIsolation != isolation || stage.askedOpen != stage.openTasks) {
          val e = expect(stage)
          stage.end = e.own.fold(e.ranks.end(-math.log(isolation), 1.0)) { own =>
            e.ranks.end(calibrated(isolation, own, e.shared), stage.openRatios)
          }
          stage.askedIsolation = isolation
          stage.askedOpen = stage.openTasks
        }
        val endMs = stage.centreMs * math.exp(stage.end.logRatio)
        if (stage.end.after) math.floor(endMs + NoiseMs) + 1.0 else math.ceil(endMs - NoiseMs)
      }

    /** The stage's barrier fell, `barrierMs` after its last launch. */
    def ended(stage: OfStage, barrierMs: Double): Unit =
      if (stage.tasks >= 2 && stage.ended >= stage.tasks) {
        // 1. How surprising was it? Without earlier stages that is the draw alone, and tells nothing.
        val e = expect(stage)
        val centreMs = stage.centreMs
        val logRatio = math.log(barrierMs / centreMs)
        if (stage.inWaves) ofWaves.add(logRatio)
        if (e.ranks.longest.nonEmpty) e.own.foreach { own =>
          val surprisal = e.ranks.surprisal(logRatio, stage.openRatios)
          val score = if (surprisal > 0.0) math.min(Highest, math.max(Lowest, math.log(surprisal))) else Lowest
          own.add(score)
          e.shared.foreach(_.add(score))
        }
        // 2. What do its tasks tell?
        val above = stage.longerMs.iterator.map(t => math.log(t / centreMs)).toArray
        ratios.add(above)
        all.ratios.add(above)
      }

    private def expect(stage: OfStage): Expected = stage.expected.getOrElse {
      val at = start + stage.number * Golden
      val e =
        if (stage.inWaves && ofWaves.size > 0) Expected(ranksOf(longestFirst(ofWaves.iterator.toArray), at), None, None)
        else if (ratios.longest.nonEmpty) Expected(ranksOf(ratios.longest, at), Some(scores), Some(all.fromOwn))
        else Expected(ranksOf(all.ratios.longest, at), Some(all.fromShared), None)
      stage.expected = Some(e)
      e
    }

    private def ranksOf(longest: Array[Double], at: Long) = new Ranks(longest, fraction(at), fraction(mixed(at)))
  }

  /** Sorts in place. At the end of each stage, under the scheduler's lock: numbers without boxes. */
  private def longestFirst(ratios: Array[Double]): Array[Double] = {
    java.util.Arrays.sort(ratios)
    var low = 0
    var high = ratios.length - 1
    while (low < high) {
      val shorter = ratios(low)
      ratios(low) = ratios(high)
      ratios(high) = shorter
      low += 1
      high -= 1
    }
    ratios
  }

  /** SplitMix64: any 64 bits for each number. */
  private def mixed(number: Long): Long = {
    var z = number + Golden
    z = (z ^ (z >>> 30)) * 0xBF58476D1CE4E5B9L
    z = (z ^ (z >>> 27)) * 0x94D049BB133111EBL
    z ^ (z >>> 31)
  }

  /** A number between 0 and 1, both excluded. */
  private def fraction(z: Long): Double = ((z >>> 12) + 0.5) * 2.220446049250313e-16 // 2^-52

  /**
   * Task times of one stage, and what is expected of its barrier.
   *
   * @param number among the job's stages of several tasks, from 1
   */
  final class OfStage private[Barriers] (val tasks: Int, private[Barriers] val number: Int) {
    var openTasks = 1 // running at the last launch: the barrier waits for these
    // Of the tasks that ended: the N/2 shortest times, the longest of these first, and the others. A list in order would cost
    // time for each end of a task in proportion to the stage's tasks, under the scheduler's lock.
    private val shorterMs = mutable.PriorityQueue.empty[Double]
    private[Barriers] val longerMs = mutable.ArrayBuffer.empty[Double]
    private[Barriers] var expected: Option[Expected] = None
    private[Barriers] var askedIsolation = Double.NaN
    private[Barriers] var askedOpen = 0
    private[Barriers] var end = Never
    private[Barriers] val half: Int = (tasks + 1) / 2

    private[Barriers] def ended: Int = shorterMs.size + longerMs.size

    private[Barriers] def halfEnded: Boolean = shorterMs.size >= half

    private[Barriers] def centreMs: Double = shorterMs.head

    /** How many of the open tasks are expected above the centre. */
    private[Barriers] def openRatios: Double = openTasks.toDouble * (tasks - half) / tasks

    /** Whether some of its tasks ended before the last one was launched. */
    private[Barriers] def inWaves: Boolean = openTasks < tasks

    def taskEnded(timeMs: Double): Unit = {
      shorterMs.enqueue(timeMs)
      if (shorterMs.size > half) longerMs += shorterMs.dequeue()
    }
  }

  /** @param own surprisals; without any the ranks are of barriers, and need no correction */
  private[Barriers] final case class Expected(ranks: Ranks, own: Option[Scores], shared: Option[Scores])

  /** Logarithms of the latest surprisals. */
  private[Barriers] final class Scores {
    private val kept = mutable.Queue.empty[Double]
    def add(score: Double): Unit = {
      kept += score
      if (kept.size > ScoresKept) kept.dequeue()
    }
    def size: Int = kept.size
    def iterator: Iterator[Double] = kept.iterator
  }

  /** When a deadline falls: at a ratio, so that a barrier at that ratio comes too late, or just after it. */
  private[Barriers] final case class End(logRatio: Double, after: Boolean)

  private val Never = End(Double.PositiveInfinity, after = false)
  private val AtCentre = End(0.0, after = false)

  /** Among which ratios of earlier stages, the longest first, the longest one of a stage falls: see the twin. */
  private[Barriers] final class Ranks(val longest: Array[Double], draw: Double, tie: Double) {

    def surprisal(logRatio: Double, open: Double): Double = {
      var rank = notLonger(logRatio)
      if (rank < longest.length && longest(rank) == logRatio) rank += above(rank, open)
      var total = 0.0
      var i = 0
      while (i < rank) {
        total += step(i, open)
        i += 1
      }
      total + within(step(rank, open))
    }

    def end(surprisal: Double, open: Double): End = {
      var left = surprisal
      var rank = 0
      while (step(rank, open) <= left) {
        left -= step(rank, open)
        rank += 1
      }
      if (within(step(rank, open)) >= left) { if (rank > 0) at(rank - 1, open) else Never }
      else if (rank < longest.length) at(rank, open)
      else AtCentre
    }

    private def at(rank: Int, open: Double): End = {
      val first = notLonger(longest(rank))
      End(longest(rank), rank - first < above(first, open))
    }

    private def notLonger(logRatio: Double): Int = {
      var low = 0
      var high = longest.length
      while (low < high) {
        val middle = (low + high) / 2
        if (longest(middle) > logRatio) low = middle + 1 else high = middle
      }
      low
    }

    /** How many of the ratios that equal the one of rank `first` rank above a barrier at the same. */
    private def above(first: Int, open: Double): Int = {
      var earlier = 0
      while (first + earlier < longest.length && longest(first + earlier) == longest(first)) earlier += 1
      val equal = earlier * open / longest.length
      var n = 0
      var probability = earlier / (earlier + equal)
      while (n < earlier && probability > tie) {
        n += 1
        probability *= (earlier - n) / (earlier - n + equal)
      }
      n
    }

    /** Surprisal of the next rank less that of this one. */
    private def step(rank: Int, open: Double): Double =
      if (rank < longest.length) math.log1p(open / (longest.length - rank)) else Double.PositiveInfinity

    /** Surprisal of a barrier within a rank, above the least there. */
    private def within(step: Double): Double = -math.log1p((1.0 - draw) * math.expm1(-step))
  }

  /** Task times of the latest stages above their centres, as ratios to these. */
  private[Barriers] final class Ratios {
    private val stages = mutable.Queue.empty[Array[Double]]
    var longest = Array.empty[Double]

    def add(aboveCentre: Array[Double]): Unit = {
      stages += aboveCentre
      var count = longest.length + aboveCentre.length
      while (count > RatiosKept && stages.size > 1) count -= stages.dequeue().length
      val all = new Array[Double](count) // a new one: predictions made before keep the old one
      var at = 0
      stages.foreach { stage =>
        System.arraycopy(stage, 0, all, at, stage.length)
        at += stage.length
      }
      longest = longestFirst(all)
    }
  }

  /** The surprisal that a share P of earlier barriers had at least: see the twin. */
  private def calibrated(isolation: Double, own: Scores, shared: Option[Scores]): Double = {
    val all = shared.filter(_.size > 0)
    val each = all.fold(0.0)(s => math.min(s.size.toDouble, SharedWeight) / s.size)
    val weight = own.size + all.fold(0.0)(each * _.size)
    if (weight == 0.0) -math.log(isolation)
    else {
      val scores = (own.iterator ++ all.iterator.flatMap(_.iterator)).toArray
      val steepness = 2.0 * math.pow(weight, 1.0 / 3.0)
      val ranks = math.max(1.0, RanksWeight - shared.getOrElse(own).size)
      val needed = isolation * (ranks + weight) + (isolation - 0.5) * weight / (Few + weight)
      var low = Lowest
      var high = Highest
      var step = 0
      while (step < Steps) {
        val middle = (low + high) / 2.0
        var atLeast = ranks * math.exp(-math.exp(middle))
        var i = 0
        while (i < scores.length) {
          atLeast += (if (i < own.size) 1.0 else each) / (1.0 + math.exp(steepness * (middle - scores(i))))
          i += 1
        }
        if (atLeast >= needed) low = middle else high = middle
        step += 1
      }
      math.exp(low)
    }
  }
}
