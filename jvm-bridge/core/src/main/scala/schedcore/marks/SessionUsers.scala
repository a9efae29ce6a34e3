package schedcore
package marks

import scala.collection.mutable

/** The users of SQL sessions and of job groups, as servers report them. A session keeps the first user that was reported. */
final class SessionUsers {
  private val ofSessions = mutable.LinkedHashMap.empty[String, String]
  private val ofGroups = mutable.LinkedHashMap.empty[String, String]

  /** A server runs a job group for this user. */
  def groupStarted(group: String, user: String): Unit = synchronized {
    SessionUsers.put(ofGroups, PlainText.bounded(group), PlainText.bounded(user))
  }

  def ofGroup(group: String): Option[String] = synchronized(ofGroups.get(group))

  /** A session's user. Sessions that nobody has asked for for longest are forgotten first. */
  def of(session: String): Option[String] = synchronized {
    val user = ofSessions.remove(session)
    user.foreach(ofSessions(session) = _)
    user
  }

  /** A server reports a session's user. @return the session's user */
  def learned(session: String, user: String): String = synchronized {
    of(session).getOrElse {
      val bounded = PlainText.bounded(user)
      SessionUsers.put(ofSessions, session, bounded)
      bounded
    }
  }
}

private object SessionUsers {
  /** Far more than sessions, and statements, that run at once. */
  private val Most = 10000

  private def put(users: mutable.LinkedHashMap[String, String], key: String, user: String): Unit = {
    users -= key
    users(key) = user
    if (users.size > Most) users -= users.head._1
  }
}
