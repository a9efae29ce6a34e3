package schedcore
package settings

/** How far this project's scheduling goes. */
object Modes {
  val On = "on"
  /** Plans and holds are recorded and not enforced: Spark's own order applies. */
  val Shadow = "shadow"
  /** Spark's own scheduling; holds are not even recorded. */
  val Off = "off"
  val All: Seq[String] = Seq(On, Shadow, Off)
}
