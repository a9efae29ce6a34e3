package org.apache.spark.scheduler.sparksched
package operators

import java.util.Locale

import scala.xml.{Node, Unparsed}

import jakarta.servlet.http.HttpServletRequest
import org.apache.spark.ui.UIUtils
import schedcore.PlainText
import schedcore.status.{ExecutorFacts, SlotSpan, SlotTimeline, StatusRows}

/**
 * The slots of executors over the last minutes: what ran, what was held and for whom. A script puts the newest state of this
 * part of the page into it every few seconds; without it, the part is as old as the page.
 */
private[sparksched] object TimelineView {
  /** Executors that are drawn: each can have as many spans as there are samples. */
  val Most = 20
  /** What keeps it up to date. */
  val Script = "/timeline.js"

  private val Width = 600
  private val Height = 24
  /**
   * What slots may be for.
   *
   * @param one its word after the number one
   */
  private final case class Kind(name: String, one: String, color: String)
  private val Running = Kind("running", "running", "#0d6efd")
  private val Pilots = Kind("pilots", "pilot", "#6f42c1")
  private val Copies = Kind("copies", "copy", "#fd7e14")
  private val Held = Kind("held", "held", "#20c997")
  private val Kinds = Seq(Running, Pilots, Copies, Held)
  private val Style = Kinds.map(kind => s".sched-${kind.name} { fill: ${kind.color}; background-color: ${kind.color}; }").mkString(
    "#sched-slots svg { width: 100%; max-width: 1000px; background-color: rgba(128, 128, 128, 0.2); display: block; }\n",
    "\n", "\n.sched-swatch { display: inline-block; width: 0.8em; height: 0.8em; }")

  /** @param executors those of the document */
  def section(request: HttpServletRequest, basePath: String, executors: Seq[ExecutorFacts], timeline: SlotTimeline, nowMs: Long): Seq[Node] = {
    // Where all are drawn, each keeps its place.
    val shown = if (executors.sizeIs <= Most) executors else StatusRows.executors(executors).take(Most)
    val minutes = timeline.keepMs / 60000
    val some = if (shown.size < executors.size) s", ${shown.size} of ${executors.size} executors" else ""
    val script = UIUtils.prependBaseUri(request, basePath, StatusServlet.Path + Script)
    <style>{Unparsed(Style)}</style>
    <script src={script} defer="defer"></script>
    <div id="sched-slots">
      <h4>Slots over the last {minutes} minutes{some}</h4>
      <p>{Kinds.flatMap(kind => Seq(<span class={s"sched-swatch sched-${kind.name}"}></span>, <span> {kind.name} </span>))}
        (the right end is now; point at a span to see which jobs its slots are held for)</p>
      <div class="table-responsive"><table class="table table-sm"><tbody>{
        shown.map(e => <tr><td class="text-nowrap">{e.executor} on {e.host}</td><td class="w-100">{picture(e, timeline, nowMs)}</td></tr>)
      }</tbody></table></div>
    </div>
  }

  private def picture(executor: ExecutorFacts, timeline: SlotTimeline, nowMs: Long): Node = {
    val spans = timeline.spans(executor.executor, nowMs)
    <svg viewBox={s"0 0 $Width $Height"} height={Height.toString} preserveAspectRatio="none" role="img" aria-label={PlainText.of(words(executor))}>{
      spans.map(span => drawn(span, nowMs - timeline.keepMs, timeline.keepMs))
    }</svg>
  }

  private def drawn(span: SlotSpan, beginMs: Long, lengthMs: Long): Node = {
    def x(atMs: Long): Double = Width * (atMs - beginMs).toDouble / lengthMs
    val f = span.facts
    val unit = Height.toDouble / math.max(1, f.slots)
    val counts = kinds(f)
    val below = counts.scanLeft(0)(_ + _._2)
    <g><title>{s"${UIUtils.formatDate(span.fromMs)}: ${words(f)}"}</title>{
      counts.zip(below).collect { case ((kind, n), under) if n > 0 =>
        <rect class={s"sched-${kind.name}"} x={number(x(span.fromMs))} y={number(Height - (under + n) * unit)}
          width={number(x(span.untilMs) - x(span.fromMs))} height={number(n * unit)}/>
      }
    }</g>
  }

  /** Each slot once: running means neither a pilot's nor a copy's. */
  private def kinds(f: ExecutorFacts): Seq[(Kind, Int)] = Seq(
    Running -> math.max(0, f.runningSlots - f.pilotSlots - f.copiedSlots), Pilots -> f.pilotSlots, Copies -> f.copiedSlots,
    Held -> f.heldSlots)

  private def words(f: ExecutorFacts): String = {
    val used = kinds(f).collect { case (kind, n) if n > 0 && kind != Held => s"$n ${if (n == 1) kind.one else kind.name}" }
    val parts = used ++ f.held.map(h => s"${h.slots} held for ${h.name}")
    s"${parts.mkString(", ")}${if (parts.isEmpty) "none" else ""} of ${f.slots} slots"
  }

  private def number(value: Double): String = "%.1f".formatLocal(Locale.ROOT, value)
}
