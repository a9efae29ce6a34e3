package schedcore
package settings

import java.net.{InetAddress, URI}
import java.util.Locale

import scala.util.Try

/**
 * Which requests to the UI come from a page that the UI itself served, or from no page at all.
 *
 * The owner of a domain can let its name point at this machine ("DNS rebinding"). To a browser a page of that domain and this UI
 * are then one site, and only the name in the request tells them apart. So a request must name this machine, or a gateway that
 * passes requests on to it. No name is looked up: its owner decides what it points at. What gateways add (`X-Forwarded-Host`)
 * does not count, since a page can add it, too.
 *
 * @param own names of this machine; read at the first request that needs them, as looking one up can take long
 * @param gateways names under which users reach gateways; [[TrustedHosts.Any]] among them trusts every name
 * @param isOwn whether this machine has the address
 */
final class TrustedHosts(own: () => Set[String], gateways: Set[String], isOwn: InetAddress => Boolean) {
  import TrustedHosts._

  private lazy val names = own().map(normal)
  private val others = gateways.map(normal)
  private val all = gateways.contains(Any)

  /** Why a request may not read; None: it may. @param host the header `Host` */
  def refusalToRead(host: Option[String]): Option[String] = host.flatMap(parsed) match {
    case _ if all => None
    case Some(named) if isThis(named.name) || others(named.name) => None
    case _ => Some(s"the request's host is '${shown(host)}', which is not known as a name of this machine: ${remedy("it")}")
  }

  /**
   * Why a request may not change anything; None: it may.
   *
   * @param origin the header `Origin`, which browsers send with every change
   * @param fetchSite the header `Sec-Fetch-Site`, in which browsers say what the page is to the UI
   */
  def refusalToChange(host: Option[String], origin: Option[String], fetchSite: Option[String]): Option[String] =
    refusalToRead(host).orElse {
      val here = host.flatMap(parsed)
      val page = origin.flatMap(ofOrigin)
      val trusted = all || page.exists(p => others(p.name) || here.exists(samePage(p, _)))
      val site = fetchSite.map(_.trim.toLowerCase(Locale.ROOT))
      if (site.contains("cross-site")) Some(s"a page of another site sent the request (Sec-Fetch-Site): $HowElse")
      else if (site.contains("same-site") && !trusted) Some(s"a page of another host sent the request (Sec-Fetch-Site): $HowElse")
      else if (origin.isDefined && !trusted)
        Some(s"a page of '${shown(origin)}' sent the request, which is not this UI: $HowElse, or, if a gateway serves this UI there, ${remedy("its host")}")
      else None
    }

  /** A gateway may leave the port out of the host. */
  private def samePage(page: Authority, here: Authority): Boolean =
    page.name == here.name && (here.port.isEmpty || page.port == here.port)

  private def isThis(name: String): Boolean = name == Localhost || address(name).fold(names(name))(isOwn)
}

object TrustedHosts {
  /** In the setting, every name. */
  val Any = "*"
  private val Localhost = "localhost"
  private val HowElse = "use the buttons of this UI or the command line"
  private val V4 = """(?:\d{1,3}\.){3}\d{1,3}""".r
  private val V6 = """[0-9a-f.]*:[0-9a-f.]*:[0-9a-f:.]*""".r
  private val WithPort = """(\[[^\[\]]+\]|[^\[\]:]+)(?::(\d{1,5}))?""".r
  private val Name = """[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?""".r

  /** A host's name or address in lower case, and its port if it is named. */
  final case class Authority(name: String, port: Option[Int])

  private def remedy(what: String): String = s"add $what to ${Settings.UiHosts.name} if users reach the UI by it"

  def parsed(authority: String): Option[Authority] = authority.trim match {
    case WithPort(name, port) => Some(Authority(normal(name), Option(port).map(_.toInt)))
    case _ => None
  }

  /** Of an origin or another address of the web. */
  def ofOrigin(url: String): Option[Authority] =
    Try(new URI(url.trim)).toOption.filter(u => u.getScheme != null && u.getRawAuthority != null).flatMap(u => parsed(u.getRawAuthority))

  /** The address that a literal stands for. No name is looked up. */
  private def address(name: String): Option[InetAddress] =
    if (V4.matches(name) || V6.matches(name)) Try(InetAddress.getByName(name)).toOption else None

  /** Whether a word of the setting can be meant: a name or an address without a port. */
  def isName(word: String): Boolean = word == Any || Name.matches(word) || V6.matches(normal(word))

  private def normal(name: String): String = {
    val low = name.trim.toLowerCase(Locale.ROOT)
    if (low.startsWith("[") && low.endsWith("]")) low.substring(1, low.length - 1) else low.stripSuffix(".")
  }

  private def shown(text: Option[String]): String = PlainText.shown(text.getOrElse(""))
}
