package schedcore
package events

import scala.collection.mutable

/**
 * What planners learn from: the stages and tasks of every job, from its start until a planner has stored what its end taught.
 *
 * A planner that hangs or dies takes with it what it had read and not stored, and the whole state has neither jobs that are over
 * nor the earlier stages of those that go on. So the next planner gets both from here, as events marked as past.
 *
 * An attempt counts as a clean one of its task if it succeeded and the task had no copy and no other attempt: only its duration
 * tells how long a task of the stage takes.
 *
 * Not safe from several threads.
 *
 * @param mostEntries jobs, stages and tasks that are kept at most. Beyond it the jobs that ended first are dropped, then the stages of
 *                    the largest job: its runtime is learned, its stages are not.
 */
final class JobJournal(mostEntries: Int) {
  import JobJournal.Story

  private val active = mutable.LinkedHashMap.empty[String, Story]
  private val over = mutable.Queue.empty[Story] // in the order of their ends
  private var entries = 0
  // Jobs dropped for want of room that no planner has stored: how many, and the last one's number.
  private var dropped = 0L
  private var lastDropped = 0L
  private var lost = 0L

  def heard(event: Event): Unit = {
    event match {
      case e: Event.JobStarted => add(active.getOrElseUpdate(e.mark.key, new Story(e)), 1)
      case e: Event.StageStarted => of(e.job)(story => add(story, story.stageStarted(e)))
      case e: Event.TaskLaunched => of(e.job)(story => add(story, story.launched(e)))
      case e: Event.TaskEnded => of(e.job)(story => add(story, story.ended(e)))
      case e: Event.StageEnded => of(e.job)(_.stageEnded(e))
      case e: Event.JobEnded => active.remove(e.job).foreach { story =>
        story.end = Some(e)
        over.enqueue(story)
      }
      case _ =>
    }
    while (entries > mostEntries && makeRoom()) ()
  }

  /** A planner has stored what it learned from all events up to this one. */
  def stored(upto: Long): Unit = {
    while (over.headOption.exists(_.number <= upto)) entries -= over.dequeue().entries
    if (lastDropped <= upto) dropped = 0
  }

  /** The planner so far will store nothing more. */
  def plannerOver(): Unit = {
    lost += dropped
    dropped = 0
    (over.iterator ++ active.valuesIterator).filter(story => !story.whole && !story.counted).foreach { story =>
      story.counted = true
      lost += 1
    }
  }

  /** Jobs that are over and that no planner has stored. */
  def waiting: Long = over.size + dropped
  /** Jobs that no planner can learn any more, or only without their stages. */
  def unlearned: Long = lost

  /** @param state the events that rebuild the present state @return these, with the jobs that are over and the stages that are */
  def retold(state: Seq[Event]): Seq[Event] = {
    val now = state.collect { case s: Event.StageStarted => (s.job, s.stage) -> s }.toMap
    val told = mutable.HashSet.empty[(String, String)]
    over.iterator.flatMap(_.events).map(Event.Past(_)).toList ++ state.flatMap {
      case started: Event.JobStarted => active.get(started.mark.key).fold(Seq[Event](started)) { story =>
        told ++= story.activeIn(now)
        story.retold(started, now)
      }
      case stage: Event.StageStarted if told((stage.job, stage.stage)) => Nil
      case other => Seq(other)
    }
  }

  private def of(job: String)(act: Story => Unit): Unit = active.get(job).foreach(act)

  private def add(story: Story, more: Int): Unit = {
    story.entries += more
    entries += more
  }

  private def makeRoom(): Boolean =
    if (over.nonEmpty) {
      val story = over.dequeue()
      entries -= story.entries
      dropped += 1
      lastDropped = story.number
      true
    } else {
      // With one entry a job, the rest is bounded by the number of active jobs.
      val largest = active.valuesIterator.filter(_.whole).maxByOption(_.entries)
      largest.foreach(story => entries -= story.dropStages())
      largest.isDefined
    }
}

private object JobJournal {
  private final case class Clean(task: Long, durationMs: Long, executor: String)

  private final class Stage(val started: Event.StageStarted) {
    private val clean = mutable.LinkedHashMap.empty[Int, Clean]
    private val spoiled = mutable.HashSet.empty[Int]
    private var lastMs = started.timeMs
    /** Its end, and the tasks until then. */
    var past: Option[(Seq[Event.ShortTasks], Event.StageEnded)] = None

    /** @return entries more */
    def spoil(index: Int): Int = {
      spoiled += index
      if (clean.remove(index).isDefined) -1 else 0
    }

    def ended(e: Event.TaskEnded): Int = {
      lastMs = e.timeMs
      if (past.isDefined) 0
      else if (e.outcome != "success") spoil(e.index)
      else if (e.copy || spoiled(e.index) || clean.contains(e.index)) 0
      else {
        clean(e.index) = Clean(e.task, e.durationMs, e.executor)
        1
      }
    }

    def close(end: Event.StageEnded): Unit = if (past.isEmpty) {
      past = Some((columns(_ => true), end))
      clean.clear()
      spoiled.clear()
    }

    /** The clean ends of the tasks, one event an executor. */
    def columns(tasks: Int => Boolean): Seq[Event.ShortTasks] = {
      val byExecutor = mutable.LinkedHashMap.empty[String, mutable.ArrayBuffer[(Int, Clean)]]
      clean.foreach { case (index, end) =>
        if (tasks(index)) byExecutor.getOrElseUpdate(end.executor, mutable.ArrayBuffer.empty) += index -> end
      }
      byExecutor.iterator.map { case (executor, ends) =>
        Event.ShortTasks(lastMs, started.job, started.stage, executor, ends.map(_._2.task).toArray.toSeq,
          ends.map(_._1).toArray.toSeq, ends.map(_._2.durationMs).toArray.toSeq)
      }.toList
    }

    def isClean(index: Int): Boolean = clean.contains(index)
  }

  private final class Story(started: Event.JobStarted) {
    var entries = 0
    var end: Option[Event.JobEnded] = None
    /** Whether its stages are all here. */
    var whole = true
    /** Whether it is counted as one that is not learned as a whole. */
    var counted = false
    private val stages = mutable.LinkedHashMap.empty[String, Stage]
    private val steps = mutable.ArrayBuffer.empty[(Stage, Boolean)] // a stage and whether it started, else it ended
    private var running = 0
    private var succeeded = false
    private var begunMs: Option[Long] = None
    private var lastEndMs: Option[Long] = None

    def number: Long = end.flatMap(_.number).getOrElse(0L)

    def stageStarted(e: Event.StageStarted): Int = if (!whole || stages.contains(e.stage)) 0 else {
      val stage = new Stage(e)
      stages(e.stage) = stage
      steps += stage -> true
      1
    }

    def launched(e: Event.TaskLaunched): Int = {
      running += 1
      if (begunMs.isEmpty) begunMs = Some(e.timeMs)
      if (e.copy) stages.get(e.stage).fold(0)(_.spoil(e.index)) else 0
    }

    def ended(e: Event.TaskEnded): Int = {
      running = math.max(0, running - 1)
      lastEndMs = Some(e.timeMs)
      succeeded ||= e.outcome == "success"
      // All of its work was lost: it starts over.
      if (running == 0 && !succeeded) begunMs = None
      stages.get(e.stage).fold(0)(_.ended(e))
    }

    def stageEnded(e: Event.StageEnded): Unit = stages.get(e.stage).filter(_.past.isEmpty).foreach { stage =>
      stage.close(e)
      steps += stage -> false
    }

    def dropStages(): Int = {
      whole = false
      stages.clear()
      steps.clear()
      val gone = entries - 1
      entries = 1
      gone
    }

    /** All of a job that is over. */
    def events: Seq[Event] =
      started.copy(begunMs = begunMs, lastEndMs = lastEndMs) +: steps.iterator.flatMap {
        case (stage, true) => stage.started +: (if (stage.past.isEmpty) stage.columns(_ => true) else Nil)
        case (stage, false) => stage.past.fold(Seq.empty[Event]) { case (tasks, end) => tasks :+ end }
      }.toList ++: end.toList

    /** Its stages that the state has. */
    def activeIn(now: Map[(String, String), Event.StageStarted]): Iterable[(String, String)] =
      stages.keys.map((started.mark.key, _)).filter(now.contains)

    /** A job that is not over, as the state has it, with what the state lacks. */
    def retold(job: Event.JobStarted, now: Map[(String, String), Event.StageStarted]): Seq[Event] =
      job.copy(lastEndMs = lastEndMs) +: steps.iterator.flatMap { case (stage, starts) =>
        (now.get((stage.started.job, stage.started.stage)), stage.past) match {
          case (Some(present), past) if starts =>
            // The end of a stage that was given up comes with the state, behind its attempts that run.
            val done = present.done.toSet
            val tasks = past.fold(stage.columns(done))(_._1)
            val known = tasks.iterator.flatMap(_.indices).toSet
            present.copy(done = present.done.filterNot(known)) +: tasks.map(Event.Past(_))
          case (None, Some(_)) if starts => Seq(Event.Past(stage.started))
          case (None, Some((tasks, end))) => (tasks :+ end).map(Event.Past(_))
          case _ => Nil
        }
      }.toList
  }
}
