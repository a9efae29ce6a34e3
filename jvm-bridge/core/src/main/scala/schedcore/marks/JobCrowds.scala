package schedcore
package marks

import scala.collection.mutable

import schedcore.settings.{MarkWarning, Settings}

/**
 * How many jobs each user has at a time. Work beyond the most is one job of its user, so that a tenant who names each query
 * differently fills neither the driver's memory nor a page, a plan or the planner. Used under its owner's lock only.
 *
 * @param mostOfUser jobs of one user, besides the one that has the rest
 * @param most jobs of all users, whose names tenants may make up; the rest is one job of nobody
 */
final class JobCrowds(mostOfUser: Int, most: Int = Settings.MostJobs) {
  private val byUser = mutable.HashMap.empty[String, Int]
  private var all = 0

  def began(mark: JobMark): Unit = if (!JobCrowds.isRest(mark.key)) {
    val user = mark.user.getOrElse("")
    byUser(user) = byUser.getOrElse(user, 0) + 1
    all += 1
  }

  def ended(mark: JobMark): Unit = if (!JobCrowds.isRest(mark.key)) {
    val user = mark.user.getOrElse("")
    byUser.updateWith(user)(_.map(_ - 1).filter(_ > 0))
    all -= 1
  }

  /** The mark of a job that is not known yet: its own, or that of the job that has the rest. It has its user. */
  def admitted(mark: JobMark): JobMark = {
    val user = mark.user.getOrElse("")
    if (byUser.getOrElse(user, 0) >= mostOfUser)
      JobCrowds.rest(mark, Some(user), s"user $user has $mostOfUser jobs at a time, as many as ${Settings.JobsPerUser.name} allows")
    else if (all >= most) JobCrowds.rest(mark, None, s"the application has $most jobs at a time, which is the most")
    else mark
  }
}

object JobCrowds {
  private val RestPrefix = "rest-"

  def isRest(key: String): Boolean = key.startsWith(RestPrefix)

  /** No task of it runs twice: some of its parts may forbid that. */
  private def rest(mark: JobMark, user: Option[String], why: String): JobMark = {
    val whose = user.fold("")(u => s" of $u")
    JobMark(
      RestPrefix + user.getOrElse(""), s"(further jobs$whose)", user.orElse(mark.user), priority = math.min(0, mark.priority),
      isolation = None, deadlineMs = None, jobClass = None, copies = false, grouping = JobMark.ByGroup, endsByCall = false,
      warnings = Seq(MarkWarning(s"$why: further ones are one job without marks", limited = true)), runsOnce = true)
  }
}
