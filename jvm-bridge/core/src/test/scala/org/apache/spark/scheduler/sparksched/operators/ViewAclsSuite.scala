package org.apache.spark.scheduler.sparksched
package operators

import org.apache.spark.{SecurityManager, SparkConf}
import org.scalatest.funsuite.AnyFunSuite

/** Who may read the status with SQL. */
final class ViewAclsSuite extends AnyFunSuite {
  private def refusal(user: Option[String], settings: (String, String)*): Option[String] =
    ViewAcls.of(new SecurityManager(new SparkConf(false).setAll(settings))).refusal(user)

  private val On = "spark.acls.enable" -> "true"

  test("without Spark's ACLs everybody may read, and nobody is asked who they are") {
    assert(refusal(None) === None)
    assert(refusal(Some("eve"), "spark.ui.view.acls" -> "alice") === None)
    val acls = new ViewAcls(() => false, _ => false, () => false)
    assert(acls.refusal(throw new AssertionError("was asked")) === None)
  }

  test("with them those may read whom Spark lets see its pages") {
    for (user <- Seq("alice", "root-of-all", System.getProperty("user.name")))
      assert(refusal(Some(user), On, "spark.ui.view.acls" -> "alice,bob", "spark.admin.acls" -> "root-of-all") === None, user)
    val refused = refusal(Some("eve"), On, "spark.ui.view.acls" -> "alice", "spark.modify.acls" -> "eve")
    assert(refused.exists(_.startsWith("user eve may not see the application's scheduling")))
    assert(refusal(Some("e\nve\u001b[2J"), On).exists(_.startsWith("user e ve\uFFFD[2J may not see")))
  }

  test("who has no name may read only if everybody may") {
    assert(refusal(None, On, "spark.ui.view.acls" -> "alice") === Some(ViewAcls.Nameless))
    assert(refusal(None, On, "spark.ui.view.acls" -> "*") === None)
  }
}
