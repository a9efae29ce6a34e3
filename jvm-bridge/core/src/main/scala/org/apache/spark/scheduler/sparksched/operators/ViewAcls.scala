package org.apache.spark.scheduler.sparksched
package operators

import org.apache.spark.SecurityManager
import schedcore.PlainText

/**
 * Who may read the status with SQL. No filter of the UI is in the way there, so Spark's view ACLs are checked here.
 *
 * The UI lets requests without a user pass. A SQL session without one is a tenant whose server does not say who it is, so it may not read.
 *
 * @param aclsOn whether Spark's ACLs are in force
 * @param mayView whether a user is in the view ACLs
 * @param everybody whether the view ACLs name everybody
 */
private[sparksched] final class ViewAcls(aclsOn: () => Boolean, mayView: String => Boolean, everybody: () => Boolean) {

  /** Why this user may not read; None: they may. The user is asked for only where it matters. */
  def refusal(user: => Option[String]): Option[String] =
    if (!aclsOn() || everybody()) None
    else user match {
      case None => Some(ViewAcls.Nameless)
      case Some(name) if !mayView(name) =>
        Some(s"user ${PlainText.shown(name)} may not see the application's scheduling: ask to be added to spark.ui.view.acls")
      case _ => None
    }
}

private[sparksched] object ViewAcls {
  val Nameless: String = "spark.acls.enable is true but no server names the user of this SQL session, so that spark.ui.view.acls cannot " +
    "be checked: read the status in the Spark UI or from the application's own Python (spark_sched.status)"

  def of(security: SecurityManager): ViewAcls =
    new ViewAcls(() => security.aclsEnabled(), security.checkUIViewPermissions, () => security.getViewAcls == "*")
}
