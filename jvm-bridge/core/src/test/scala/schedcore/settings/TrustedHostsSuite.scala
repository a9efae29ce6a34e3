package schedcore
package settings

import org.scalatest.funsuite.AnyFunSuite

/** Which pages a request may come from. */
final class TrustedHostsSuite extends AnyFunSuite {
  private var looked = 0
  private val hosts = new TrustedHosts(
    () => { looked += 1; Set("Driver.Example", "driver-svc.team.svc") }, Set("gateway.example", "10.9.9.9"),
    address => address.isLoopbackAddress || address.getHostAddress == "10.0.0.7" || address.getHostAddress.endsWith("fe80:0:0:0:0:0:0:7"))

  private def reads(host: String): Boolean = hosts.refusalToRead(Option(host)).isEmpty
  private def changes(host: String, origin: String = null, site: String = null): Boolean =
    hosts.refusalToChange(Option(host), Option(origin), Option(site)).isEmpty

  test("this machine's addresses and names, and gateways, are hosts") {
    Seq(
      "localhost", "localhost:8080", "LOCALHOST:4040", "localhost.:4040", "127.0.0.1:4040", "127.8.7.6", "[::1]:4040", "10.0.0.7:4040",
      "[fe80::7]:4040", "driver.example:4040", "driver.example.", "driver-svc.team.svc:4040", "gateway.example", "gateway.example:443",
      "10.9.9.9:4040").foreach(host => assert(reads(host), host))
  }

  test("other names are none, whatever they look like and point at") {
    Seq(
      null, "", "evil.example:4040", "localhost.evil.example", "127.0.0.1.evil.example:4040", "evil.example:localhost", "10.0.0.8:4040",
      "[::2]:4040", "localhost:4040:1", "localhost evil", "user@localhost:4040", "localhost/evil", "0x7f.1:4040", "2130706433:4040",
      "127.1", "999.0.0.1").foreach(host => assert(!reads(host), s"$host"))
    assert(hosts.refusalToRead(Some("evil.example:4040")).get ===
      "the request's host is 'evil.example:4040', which is not known as a name of this machine: add it to spark.sched.ui.hosts if users reach the UI by it")
  }

  test("the machine's own names are looked up once, and not for usual hosts") {
    looked = 0
    val fresh = new TrustedHosts(() => { looked += 1; Set("here") }, Set.empty, _.isLoopbackAddress)
    assert(fresh.refusalToRead(Some("localhost:1")).isEmpty && fresh.refusalToRead(Some("127.0.0.1")).isEmpty && looked === 0)
    assert(fresh.refusalToRead(Some("here")).isEmpty && fresh.refusalToRead(Some("there")).isDefined && looked === 1)
  }

  test("a change comes from a page of this UI, from a gateway's or from no page") {
    assert(changes("localhost:4040"))
    assert(changes("localhost:4040", "http://localhost:4040", "same-origin"))
    assert(changes("[::1]:4040", "http://[::1]:4040"))
    assert(changes("gateway.example", "https://gateway.example", "same-origin"))
    // Spark's master as a reverse proxy names the driver, and the browser the master.
    assert(changes("driver.example:4040", "http://gateway.example:8080", "same-origin"))
    // A gateway may leave the port out.
    assert(changes("localhost", "http://localhost:8443", "same-origin"))
  }

  test("a change from another page is refused") {
    Seq(
      ("evil.example:4040", "http://evil.example:4040", "same-origin"), ("localhost:4040", "http://evil.example", null),
      ("localhost:4040", "http://localhost:3000", "same-site"), ("localhost:4040", "http://localhost:3000", null),
      ("localhost:4040", "null", null), ("localhost:4040", null, "cross-site"), ("localhost:4040", "http://localhost:4040", "cross-site"),
      ("localhost:4040", null, "same-site"), ("driver.example:4040", "http://other.example", "same-site"),
      ("localhost:4040", "http://localhost:4040.evil.example", null), ("gateway.example", "http://user@gateway.example", null),
      ("localhost:4040", "http://gateway.example@evil.example", null), ("localhost:4040", "", null))
      .foreach { case (host, origin, site) => assert(!changes(host, origin, site), s"$host $origin $site") }
  }

  test("a setting can trust every host, but no page that the browser calls another site's") {
    val any = new TrustedHosts(() => Set.empty, Set("*"), _ => false)
    assert(any.refusalToRead(Some("x.example")).isEmpty && any.refusalToRead(None).isEmpty)
    assert(any.refusalToChange(Some("x.example"), Some("http://y.example"), None).isEmpty)
    assert(any.refusalToChange(Some("x.example"), None, Some("cross-site")).isDefined)
    assert(Seq("a.example", "::1", "[::1]", "10.0.0.1", "*").forall(TrustedHosts.isName))
    assert(!Seq("http://a", "a:80", "a b", "", "a/b", "*.a").exists(TrustedHosts.isName))
  }
}
