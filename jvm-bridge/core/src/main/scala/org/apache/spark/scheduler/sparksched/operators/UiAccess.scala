package org.apache.spark.scheduler.sparksched
package operators

import java.net.{InetAddress, NetworkInterface, URI}

import scala.util.Try

import org.apache.spark.{SecurityManager, SparkConf, SparkContext}
import org.apache.spark.internal.config.UI.UI_KILL_ENABLED
import org.apache.spark.util.Utils
import schedcore.plan.Refusal
import schedcore.settings.TrustedHosts

/**
 * Who may read and change what over the network. That a user is in the view ACLs is checked by Spark's own filter.
 *
 * @param steering whether the settings let anybody change anything
 * @param aclsOn whether Spark's ACLs are in force
 * @param mayModify whether a user is in the modify ACLs. Spark lets those in who have no name, as long as no filter demands one
 * @param everybody whether the modify ACLs name everybody
 */
private[sparksched] final class UiAccess(
    hosts: TrustedHosts, steering: Boolean, aclsOn: () => Boolean, mayModify: String => Boolean, everybody: () => Boolean) {

  /** Why a request may not read; None: it may. @param header the request's headers by name, null where there is none */
  def refusalToRead(header: String => String): Option[Refusal] = hosts.refusalToRead(Option(header("Host"))).map(notAllowed)

  /** Why a request of this user, a change, may not change anything; None: it may. */
  def refusalToChange(header: String => String, user: String): Option[Refusal] =
    hosts.refusalToChange(Option(header("Host")), Option(header("Origin")), Option(header("Sec-Fetch-Site"))).map(notAllowed)
      .orElse(refusalOf(user))

  /** Why this user, null for nobody, may not change anything; None: they may. */
  def refusalOf(user: String): Option[Refusal] =
    if (!steering) Some(notAllowed("spark.sched.steering.enabled or spark.ui.killEnabled is false: nothing can be changed here"))
    else if (user == null && aclsOn() && !everybody()) Some(notAllowed(UiAccess.Nameless))
    else if (!mayModify(user))
      Some(notAllowed(s"user ${Option(user).getOrElse("nobody")} may not change the application: ask to be added to spark.modify.acls"))
    else None

  private def notAllowed(sentence: String): Refusal = Refusal("not_allowed", sentence)
}

private[sparksched] object UiAccess {
  val Nameless: String = "spark.acls.enable is true but the request names no user, so that spark.modify.acls cannot be checked: " +
    "set spark.ui.filters to a filter that authenticates users, or change the application from its own Python (spark_sched.steer)"

  def of(context: SparkContext, security: SecurityManager, settings: schedcore.settings.Settings): UiAccess = new UiAccess(
    hosts(context, settings.uiHosts), settings.steeringEnabled && context.conf.get(UI_KILL_ENABLED), () => security.aclsEnabled(),
    security.checkModifyPermissions, () => security.getModifyAcls == "*")

  private def hosts(context: SparkContext, more: Set[String]): TrustedHosts = {
    val conf = context.conf
    // In the order of their cost: the last ones ask the system's resolver.
    def own: Set[String] =
      (Seq("spark.driver.host", "spark.driver.bindAddress").flatMap(conf.getOption) ++
        Seq("SPARK_PUBLIC_DNS", "SPARK_LOCAL_HOSTNAME").flatMap(name => Option(conf.getenv(name))) ++ context.uiWebUrl.flatMap(host) ++
        Seq(() => Utils.localHostName(), () => Utils.localCanonicalHostName(), () => InetAddress.getLocalHost.getHostName)
          .flatMap(name => Try(name()).toOption)).toSet
    new TrustedHosts(() => own, gateways(conf) ++ more, isOwn)
  }

  /** Of gateways that Spark's settings name: those that the UI's links point at, and masters that proxy their applications' UIs. */
  private def gateways(conf: SparkConf): Set[String] = {
    val addresses = Seq("spark.ui.proxyRedirectUri", "spark.ui.reverseProxyUrl", "spark.ui.proxyBase").flatMap(conf.getOption) ++
      sys.props.get("spark.ui.proxyBase") ++ sys.env.get("APPLICATION_WEB_PROXY_BASE")
    val masters = if (conf.getBoolean("spark.ui.reverseProxy", defaultValue = false)) masterHosts(conf.get("spark.master", "")) else Nil
    (addresses.flatMap(host) ++ masters).toSet
  }

  private val Masters = """(?:.*:)?spark://(.*)""".r

  private def masterHosts(master: String): Seq[String] = master match {
    case Masters(list) => list.split(',').toSeq.flatMap(TrustedHosts.parsed(_)).map(_.name)
    case _ => Nil
  }

  private def host(url: String): Option[String] = Try(new URI(url)).toOption.flatMap(u => Option(u.getHost))

  private def isOwn(address: InetAddress): Boolean =
    address.isLoopbackAddress || address.isAnyLocalAddress || Try(NetworkInterface.getByInetAddress(address)).toOption.exists(_ != null)
}
