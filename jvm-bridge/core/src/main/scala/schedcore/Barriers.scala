package schedcore

import scala.collection.mutable

/**
 * When a stage's barrier is likely to fall: the calibrated deadline of reservations.
 *
 * The twin of `spark_sched.sim.barriers`, whose terms and comments hold here: a stage's centre is its N/2-th shortest
 * task time, times are logarithms of their ratio to it, and the surprisal of a barrier is -ln of the probability that
 * it falls no later. Golden sequences under `protocol/golden/` bind the two; see `docs/adr/0022-calibrated-deadlines.md`.
 * Not thread safe: the ledger's lock guards it.
 */
final class Barriers {
  import Barriers._

  private val ratios = new Ratios
  // By what the prediction is made from: each kind errs in its own way.
  private val fromOwn = new Scores
  private val fromShared = new Scores
  private val fromNothing = new Scores
}

object Barriers {

  private val TasksKept = 4096
  private val ScoresKept = 32
  private val SharedWeight = 8.0
  private val Few = 4.0
  private val Lowest = -20.0
  private val Highest = 5.0
  private val Steps = 30

  /** Shape of the tail expected before task times tell, and how many of them it is worth. */
  final case class Prior(shape: Double, weight: Double)

  /** Deadlines for the stages of one job, and what became of them. */
  final class OfJob(all: Barriers) {
    private val ratios = new Ratios
    private val scores = new Scores

    /**
     * D from the stage's last launch; infinite until half of its tasks ended.
     *
     * @param isolation P, between 0 and 1, both excluded
     */
    def deadlineMs(stage: OfStage, isolation: Double, prior: Prior): Double =
      if (stage.tasks < 2 || stage.times.size < stage.half) Double.PositiveInfinity
      else {
        if (stage.askedIsolation != isolation || stage.askedOpen != stage.openTasks) {
          val e = expect(stage, prior)
          stage.logRatio = e.prediction.logRatio(calibrated(isolation, e.own, e.shared), stage.openTasks)
          stage.askedIsolation = isolation
          stage.askedOpen = stage.openTasks
        }
        stage.centreMs * math.exp(math.min(stage.logRatio, 700.0))
      }

    /** The stage's barrier fell, `barrierMs` after its last launch. */
    def ended(stage: OfStage, barrierMs: Double, prior: Prior): Unit =
      if (stage.tasks >= 2 && stage.times.size >= stage.tasks) {
        // 1. How surprising was it?
        val e = expect(stage, prior)
        val centreMs = stage.centreMs
        val surprisal = e.prediction.surprisal(math.log(barrierMs / centreMs), stage.openTasks)
        val score = if (surprisal > 0.0) math.min(Highest, math.max(Lowest, math.log(surprisal))) else Lowest
        e.own.add(score)
        e.shared.foreach(_.add(score))
        // 2. What do its tasks tell?
        val above = stage.times.iterator.drop(stage.half).map(t => math.log(t / centreMs)).toArray
        ratios.add(above, stage.times.size)
        all.ratios.add(above, stage.times.size)
      }

    private def expect(stage: OfStage, prior: Prior): Expected = stage.expected.getOrElse {
      val e =
        if (ratios.count > 0) Expected(ratios.prediction(prior), scores, Some(all.fromOwn))
        else if (all.ratios.count > 0) Expected(all.ratios.prediction(prior), all.fromShared, None)
        else Expected(fitted(stage, prior), all.fromNothing, None)
      stage.expected = Some(e)
      e
    }
  }

  /** Task times of one stage, and what is expected of its barrier. */
  final class OfStage(val tasks: Int) {
    var openTasks = 1 // that ran when the last one was launched: those that the barrier waits for
    private[Barriers] val times = mutable.ArrayBuffer.empty[Double] // of those that ended, the shortest first
    private[Barriers] var expected: Option[Expected] = None
    private[Barriers] var askedIsolation = Double.NaN
    private[Barriers] var askedOpen = 0
    private[Barriers] var logRatio = 0.0
    private[Barriers] val half: Int = (tasks + 1) / 2

    private[Barriers] def centreMs: Double = times(half - 1)

    def taskEnded(timeMs: Double): Unit = {
      var at = times.size
      while (at > 0 && times(at - 1) > timeMs) at -= 1
      times.insert(at, timeMs)
    }
  }

  private[Barriers] final case class Expected(prediction: Prediction, own: Scores, shared: Option[Scores])

  /** Logarithms of the latest surprisals. */
  private[Barriers] final class Scores {
    private val kept = mutable.ArrayDeque.empty[Double]
    def add(score: Double): Unit = {
      kept.append(score)
      if (kept.size > ScoresKept) kept.removeHead()
    }
    def size: Int = kept.size
    def iterator: Iterator[Double] = kept.iterator
  }

  /** A distribution of a stage's barrier, as the logarithm of its ratio to the centre. */
  private[Barriers] sealed trait Prediction {
    def surprisal(logRatio: Double, tasks: Int): Double
    def logRatio(surprisal: Double, tasks: Int): Double
  }

  private final class Fitted(shape: Double, centre: Double) extends Prediction {
    def surprisal(logRatio: Double, tasks: Int): Double = {
      val over = centre + logRatio
      val within = if (over > 0.0) -math.expm1(-shape * over) else 0.0
      if (within > 0.0) -tasks * math.log(within) else Double.PositiveInfinity
    }

    def logRatio(surprisal: Double, tasks: Int): Double =
      -math.log(-math.expm1(-surprisal / tasks)) / shape - centre
  }

  private final class Empirical(longest: Array[Double], count: Int, tail: Double, tailScale: Double) extends Prediction {

    def surprisal(logRatio: Double, tasks: Int): Double = {
      val above = logRatio - longest(0)
      val rank = if (above >= 0.0) math.exp(-tail * math.log1p(above / tailScale)) else rankAt(logRatio)
      surprisalOf(rank, tasks)
    }

    def logRatio(surprisal: Double, tasks: Int): Double = {
      val rank = rankOf(surprisal, tasks)
      if (rank <= 1.0) longest(0) + tailScale * math.expm1(-math.log(rank) / tail)
      else {
        val below = rank.toInt
        if (below < longest.length) {
          val near = longest(below - 1)
          near + (rank - below) * (longest(below) - near)
        } else {
          // Nothing is kept of the tasks below the centre: evenly down to a ratio of 0.
          val left = (count - rank) / (count - longest.length)
          longest.last + (if (left > 0.0) math.log(left) else Double.NegativeInfinity)
        }
      }
    }

    private def rankAt(logRatio: Double): Double = {
      var low = 0 // the first that is no longer
      var high = longest.length
      while (low < high) {
        val middle = (low + high) / 2
        if (longest(middle) > logRatio) low = middle + 1 else high = middle
      }
      if (low < longest.length) {
        val near = longest(low - 1)
        low + (near - logRatio) / (near - longest(low))
      } else longest.length + (count - longest.length) * -math.expm1(logRatio - longest.last)
    }

    private def surprisalOf(rank: Double, tasks: Int): Double = {
      val whole = math.min(rank.toInt, count - 1)
      var total = 0.0
      var i = 0
      while (i < whole) {
        total += math.log1p(tasks.toDouble / (count - i))
        i += 1
      }
      total + (rank - whole) * math.log1p(tasks.toDouble / (count - whole))
    }

    private def rankOf(surprisal: Double, tasks: Int): Double = {
      var left = surprisal
      var i = 0
      var found = -1.0
      while (found < 0.0 && i < count) {
        val step = math.log1p(tasks.toDouble / (count - i))
        if (left <= step) found = i + left / step
        left -= step
        i += 1
      }
      if (found < 0.0) count.toDouble else found
    }
  }

  /** Task times of the latest stages, as ratios to their centres. */
  private[Barriers] final class Ratios {
    private val stages = mutable.ArrayDeque.empty[(Array[Double], Int)]
    private var longest = Array.empty[Double]
    var count = 0

    def add(aboveCentre: Array[Double], tasks: Int): Unit = {
      stages.append((aboveCentre, tasks))
      count += tasks
      while (count > TasksKept && stages.size > 1) count -= stages.removeHead()._2
      // A new array: predictions made before keep the old one.
      val sorted = stages.iterator.flatMap(_._1).toArray
      java.util.Arrays.sort(sorted)
      longest = sorted.reverse
    }

    def prediction(prior: Prior): Prediction = {
      val beyond = math.min(longest.length - 1, math.max(2, math.ceil(math.sqrt(count.toDouble)).toInt))
      var excess = 0.0
      var i = 0
      while (i < beyond) {
        excess += longest(i) - longest(beyond)
        i += 1
      }
      new Empirical(
        longest, count, math.max(1.0, beyond + prior.weight), math.max(1e-9, excess + prior.weight / prior.shape))
    }
  }

  /** The paper's form, fitted to the shorter half of the stage's tasks, the longer half censored at the centre. */
  private def fitted(stage: OfStage, prior: Prior): Prediction = {
    val shortest = stage.times(0)
    val centre = math.log(stage.centreMs / shortest)
    var sumLogRatios = (stage.tasks - stage.half) * centre
    stage.times.iterator.take(stage.half).foreach(t => sumLogRatios += math.log(t / shortest))
    new Fitted(Pareto.shape(stage.half, sumLogRatios, prior.shape, prior.weight), centre)
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
      val needed = isolation * (1.0 + weight) + (isolation - 0.5) * weight / (Few + weight)
      var low = Lowest
      var high = Highest
      var step = 0
      while (step < Steps) {
        val middle = (low + high) / 2.0
        var atLeast = math.exp(-math.exp(middle))
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
