package schedcore
package settings

/** How far this project's scheduling goes. */
object Modes {
  val On = "on"
  /** All is planned and written down, and offers are Spark's own. */
  val Shadow = "shadow"
  /** Spark's own scheduling; nothing is held, not even on paper. */
  val Off = "off"
  val All: Seq[String] = Seq(On, Shadow, Off)
}
