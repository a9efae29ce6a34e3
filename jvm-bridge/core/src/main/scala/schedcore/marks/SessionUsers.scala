package schedcore
package marks

import scala.collection.mutable

/** Whom servers know the users of SQL sessions and of job groups to be. Of a session the first evidence counts, for ever. */
final class SessionUsers {
  private val ofSessions = mutable.LinkedHashMap.empty[String, String]
  private val ofGroups = mutable.LinkedHashMap.empty[String, String]

  /** A server runs a job group for this user. */
  def groupStarted(group: String, user: String): Unit = synchronized {
    SessionUsers.put(ofGroups, PlainText.bounded(group), PlainText.bounded(user))
  }

  def ofGroup(group: String): Option[String] = synchronized(ofGroups.get(group))

  /** A session's user. It is remembered as long as it is asked for. */
  def of(session: String): Option[String] = synchronized {
    val user = ofSessions.remove(session)
    user.foreach(ofSessions(session) = _)
    user
  }

  /** Evidence of whose a session is. @return whose it is */
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
