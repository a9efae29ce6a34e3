package schedcore
package ledger

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.{MissingNode, TextNode}
import scala.collection.mutable

/** Plays what a [[RecordedLedger]] wrote; `tools/ledger_replay.py` is its twin. */
object LedgerReplay {

  /** The first step that another ledger does not do alike, with how it differs. */
  def difference(lines: Seq[JsonNode]): Option[String] = {
    val rules = mutable.HashMap.empty[String, Rule]
    val head = lines.head
    val steps = new LedgerSteps(rules, LedgerSteps.limits(head), head.required("seed").asLong)
    var state: JsonNode = MissingNode.getInstance
    lines.tail.iterator.flatMap { line =>
      if (line.has("fields")) {
        rules(line.required("rule").asText) = LedgerSteps.rule(line.required("fields"))
        None
      } else {
        val outcome = steps.run(line)
        val now = Option(line.get("now_ms")).map(_.asLong)
        if (line.has("state")) state = line.get("state")
        val after = TextNode.valueOf(RecordedLedger.stateOf(steps.ledger, now))
        val answer = if (outcome.has("keep")) outcome.get("keep") else outcome.path("answer")
        val told = if (line.has("told")) line.get("told") else steps.nothing
        Seq("answer" -> (line.path("answer") -> answer), "told" -> (told -> outcome.get("told")), "state" -> (state -> after))
          .collectFirst { case (what, (wanted, seen)) if wanted != seen => s"$line: $what is $seen here" }
      }
    }.nextOption()
  }
}
