package schedcore
package operators

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

/**
 * The tenants' queues as they are in force.
 *
 * @param text the setting's line of JSON
 * @param version how many changes there were
 * @param from who made the last one; empty: they are as the settings have them
 */
final case class QueuesInForce(text: String, version: Long = 0L, from: String = "", sinceMs: Long = 0L)

/** What differs between two trees of queues, in words for people. */
object QueueChange {
  private val mapper = new ObjectMapper
  private val Parts = Seq("default", "rules", "preemption")

  /** Both texts are lines of JSON that `QueueTree` reads. Empty where nothing differs. */
  def described(before: String, after: String): String = {
    val (a, b) = (mapper.readTree(before), mapper.readTree(after))
    val (old, now) = (queues(a), queues(b))
    val gone = old.collect { case (path, _) if !now.exists(_._1 == path) => s"queue $path is gone" }
    val changed = now.flatMap { case (path, node) =>
      old.find(_._1 == path).fold(List(s"queue $path is new${keys(mapper.createObjectNode(), node)}")) { case (_, was) =>
        Some(keys(was, node)).filter(_.nonEmpty).map(said => s"queue $path$said").toList
      }
    }
    val parts = Parts.filter(part => a.path(part) != b.path(part)).map(part => s"$part ${value(a, part)} -> ${value(b, part)}")
    (gone ++ changed ++ parts).mkString("; ")
  }

  private def queues(tree: JsonNode): Seq[(String, JsonNode)] =
    tree.path("queues").elements.asScala.map(q => q.path("queue").asText -> q).toList

  private def keys(before: JsonNode, after: JsonNode): String = {
    val names = (before.fieldNames.asScala ++ after.fieldNames.asScala).filter(_ != "queue").toList.distinct
    val said = names.filter(name => before.path(name) != after.path(name)).map(name => s"$name ${value(before, name)} -> ${value(after, name)}")
    if (said.isEmpty) "" else said.mkString(": ", ", ", "")
  }

  private def value(node: JsonNode, name: String): String =
    Option(node.get(name)).fold("none")(v => if (v.isTextual) v.asText else v.toString)
}
