package schedcore
package enforce

import scala.collection.mutable

/** A waiting all-or-nothing stage of a job, and the jobs whose held slots keep it waiting. */
final case class WaitingGang(job: String, arrival: Int, heldUpBy: Set[String])

/**
 * Jobs that hold slots while each waits for a slot that another of them holds.
 *
 * A job with ordinary tasks uses its held slots one by one and gets on. A gang (a barrier stage) starts with all its
 * tasks at once, so two gangs that each hold a part of what the other needs would wait for the end of both holds.
 */
object GangCycle {

  /** The youngest job of those that wait for themselves by way of others, if there is any: it is to give way. */
  def youngest(gangs: Seq[WaitingGang]): Option[String] = {
    val heldUpBy = gangs.groupMapReduce(_.job)(_.heldUpBy)(_ ++ _)
    val circling = gangs.filter(gang => reached(gang.heldUpBy, heldUpBy)(gang.job))
    circling.maxByOption(_.arrival).map(_.job)
  }

  private def reached(from: Set[String], edges: Map[String, Set[String]]): collection.Set[String] = {
    val seen = mutable.LinkedHashSet.empty[String]
    val waiting = mutable.Queue.from(from)
    while (waiting.nonEmpty) {
      val job = waiting.dequeue()
      if (seen.add(job)) waiting ++= edges.getOrElse(job, Set.empty)
    }
    seen
  }
}
