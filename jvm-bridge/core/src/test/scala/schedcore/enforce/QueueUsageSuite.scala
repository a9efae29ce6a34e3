package schedcore
package enforce

import com.fasterxml.jackson.databind.JsonNode
import org.scalatest.funsuite.AnyFunSuite
import scala.collection.mutable
import scala.jdk.CollectionConverters._

import schedcore.settings.{BadSetting, QueueTree}

/** Golden sequences: these queues and the simulator's (tests/contract/test_queue_usage_golden.py) must decide alike. */
final class QueueUsageSuite extends AnyFunSuite {
  for (sequence <- Protocol.json("golden/queues/tree.json").required("sequences").elements().asScala)
    test(sequence.required("title").asText)(play(sequence))

  test("generated sequences") {
    Protocol.read(Protocol.dir.resolve("golden/queues/tree-random.json.gz")).required("sequences").elements().asScala.foreach(play)
  }

  test("a setting that conf does not write is refused") {
    for (text <- Seq("conf/queues.toml", "{", "[]", """{"queues":[{}]}""", """{"queues":[{"queue":"a"}],"rules":[],"default":"b"}"""))
      assert(intercept[BadSetting](QueueTree.parse(text)).getMessage.contains("spark-sched conf --queues FILE"))
    assert(QueueTree.parse("").isEmpty)
  }

  /** Without a tree: no queues. */
  private def treeOf(node: JsonNode): QueueTree = Option(node.required("tree")).filterNot(_.isNull).fold(QueueTree.Empty)(tree => QueueTree.parse(tree.toString))

  private def play(sequence: JsonNode): Unit = {
    val usage = new QueueUsage(treeOf(sequence))
    sequence.required("steps").elements().asScala.zipWithIndex.foreach { case (step, i) =>
      val expected = Option(step.get("expect")).filterNot(_.isNull).fold("()")(_.toString)
      assert(answer(usage, step) === expected, s"sequence ${sequence.path("seed")}, step ${i + 1}: $step")
      assert(usage.violations() === Nil)
    }
  }

  private def answer(usage: QueueUsage, step: JsonNode): String = {
    def text(key: String) = step.required(key).asText
    def int(key: String) = step.required(key).asInt
    def job = text("job")
    def texts(key: String) = step.required(key).elements().asScala.map(_.asText).toList
    text("op") match {
      case "capacity" =>
        usage.capacity(int("slots"))
        list(usage.uses.map(use => usage.ceiling(use.spec.path).toString))
      case "entered" => usage.entered(job, text("queue"), int("priority"), int("arrival"), step.required("now_ms").asLong).toString
      case "changed" =>
        val tree = treeOf(step)
        list(usage.changed(tree, job => tree.place(step.required("users").path(job).asText(""), "", "")).map(quoted))
      case "freed" =>
        val due = usage.nextFreedMs.fold("null")(_.toString)
        val admitted = usage.freed(step.required("now_ms").asLong)
        list(Seq(due, list(admitted.map(quoted)), list(usage.uses.map(_.day.slotMs.toString))))
      case "ranked" => usage.ranked(job, int("priority")).toString
      case "left" => list(usage.left(job).map(quoted))
      case "overdue" =>
        val due = usage.nextDueMs.fold("null")(_.toString)
        list(Seq(due, list(usage.overdue(step.required("now_ms").asLong).map(quoted))))
      case "launched" => usage.launched(job, int("slots"), int("own")).toString
      case "stopped" => usage.stopped(job, int("slots")).toString
      case "held" => usage.held(job).toString
      case "unheld" => usage.unheld(job).toString
      case "may_hold" => usage.mayHold(job).toString
      case "room" =>
        val safe = step.required("safe").elements().asScala.map(_.asText).toSet
        list(Seq(
          usage.room(job, safe).toString,
          usage.atCeiling(job, int("slots"), safe).fold("null")(quoted),
          list(usage.givesUp(job, int("slots"), safe).map(quoted)),
          usage.claim(job, int("slots"), mutable.HashMap.empty, safe).toString,
          usage.admitted(job).toString,
          { assert(usage.positionOfNewcomer(job) === usage.position(job)); usage.position(job).toString }))
      case "order" =>
        val shares = usage.shares.get
        list(Seq(texts("queues").sortBy(shares.standing), texts("queues").filter(shares.below)).map(queues => list(queues.map(quoted))))
      case "parts" =>
        val wanted = step.required("wanted").elements().asScala
          .map(w => Wanted(w.get(0).asText, w.get(1).asInt, w.get(2).asInt, w.get(3).asInt)).toList
        val open = step.required("open").properties().asScala.map(each => each.getKey.toInt -> each.getValue.asInt).toMap
        val parts = usage.shares.get.parts(wanted, open)
        list(texts("queues").map(parts.getOrElse(_, -1).toString))
      case "ceded" =>
        usage.shares.get.ceded(
          text("holder"), text("asker"), int("slots"), int("asks"), int("taken"), step.path("at_once").asBoolean(false)).toString
      case "cedes" =>
        val moved = step.required("moved").elements().asScala.map(m => m.get(0).asText -> m.get(1).asInt).toList
        usage.shares.get.cedes(text("holder"), text("asker"), int("slots"), int("taken"), moved).toString
      case "preempt" =>
        val preemption = usage.preemption.get
        val due = preemption.nextMs.fold("null")(_.toString)
        val wanted = step.required("wanted").elements().asScala.map(w => (w.get(0).asText, w.get(1).asInt) -> w.get(2).asInt).toList
        val running = step.required("running").elements().asScala.map { r =>
          FloorVictim(
            r.get(0).asLong, r.get(1).asText, r.get(2).asInt, r.get(3).asInt, r.get(4).asLong, r.get(5).asBoolean, r.get(6).asInt)
        }.toList
        val found = preemption.look(wanted, running, step.required("now_ms").asLong)
        list(Seq(due, list(found.map(each => list(Seq(each.task.toString, quoted(each.queue)))))))
      case "place" =>
        val groups = step.path("groups").elements().asScala.map(_.asText).toSet
        quoted(usage.tree.place(text("user"), text("name"), text("class"), groups))
      case "max_priority" =>
        usage.tree.maxPriority(text("queue"), text("user"), texts("groups").toSet).toString
      case "uses" => list(usage.uses.map(u => list(Seq(u.running, u.held, u.peak, u.jobs, u.waiting, u.refused).map(_.toString))))
    }
  }

  private def list(parts: Iterable[String]): String = parts.mkString("[", ",", "]")
  private def quoted(text: String): String = "\"" + text + "\""
}
