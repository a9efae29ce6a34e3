package schedcore
package plan

import org.scalatest.funsuite.AnyFunSuite
import scala.jdk.CollectionConverters._

/** Golden sequences: these queues and the simulator's (tests/contract/test_queue_turns_golden.py) must take turns alike. */
final class QueueTurnsSuite extends AnyFunSuite {
  for (sequence <- Protocol.json("golden/queues/turns.json").required("sequences").elements().asScala)
    test(sequence.required("title").asText) {
      val queues = new QueueTurns
      val running = new Array[Int](10)
      queues.put(weights(sequence))
      sequence.required("steps").elements().asScala.zipWithIndex.foreach { case (step, i) =>
        step.required("op").asText match {
          case "started" => running(step.required("queue").asInt) += 1
          case "ended" =>
            val queue = step.required("queue").asInt
            running(queue) -= 1
            queues.stopped(queue, step.required("ran_ms").asLong, step.required("now_ms").asLong)
          case "plan" => queues.put(weights(step))
          case "next" =>
            val turns = queues.turns(running(_))
            val next = step.required("waiting").elements().asScala.map(q => turns(q.asInt)).min
            assert(next.queue === step.required("expect").asInt, s"step ${i + 1}: $step")
        }
      }
    }

  private def weights(of: com.fasterxml.jackson.databind.JsonNode): IndexedSeq[Double] =
    of.required("weights").elements().asScala.map(_.asDouble).toIndexedSeq
}
