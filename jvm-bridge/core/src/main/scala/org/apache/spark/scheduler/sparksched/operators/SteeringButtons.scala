package org.apache.spark.scheduler.sparksched
package operators

import scala.xml.{Attribute, Elem, MetaData, Node, Null, Text}

import com.fasterxml.jackson.core.json.JsonWriteFeature
import com.fasterxml.jackson.databind.json.JsonMapper
import jakarta.servlet.http.HttpServletRequest
import org.apache.spark.ui.UIUtils
import schedcore.PlainText
import schedcore.settings.Modes
import schedcore.status.{JobFacts, StatusDocument}

/**
 * Buttons of the tab "Scheduling", which post changes to [[SteeringServlet]]. It decides who may change what; a page only
 * spares others the sight of buttons that would be refused.
 *
 * @param policies names to choose from; none where no planner has told them
 */
private[sparksched] final class SteeringButtons(val access: UiAccess, policies: () => Seq[String]) {
  import SteeringButtons._

  def shownTo(request: HttpServletRequest): Boolean = access.refusalOf(request.getRemoteUser).isEmpty

  /** Where answers are shown, and the script, which no page needs to have twice. */
  def script(request: HttpServletRequest, basePath: String): Seq[Node] =
    if (!shownTo(request)) Nil
    else {
      def at(path: String) = UIUtils.prependBaseUri(request, basePath, StatusServlet.Path + path)
      <p id="sched-answer" role="status" data-sched-url={at(SteeringServlet.Steer)}></p>
      <script src={at(SteeringServlet.Script)} defer="defer"></script>
    }

  /** Those that concern all jobs. */
  def ofAll(request: HttpServletRequest, document: StatusDocument): Seq[Node] =
    if (!shownTo(request)) Nil
    else {
      val (action, asked) =
        if (document.reservationsPaused) ("unpause", "Let jobs hold slots again?") else ("pause", "Release all held slots, and let no job hold any?")
      val switch = button("switch", "policy") % confirm("Switch the policy to {name}? Another planner takes over.")
      val names = (document.plans.configured +: policies()).distinct
      <p>
        <strong>Switch the mode:</strong>
        {Modes.All.filter(_ != document.mode).flatMap(name => button(name, "mode", "name" -> name) % confirm(ModeQuestions(name)) ++ Gap)}
        <strong>Reservations:</strong>
        {button(action, action) % confirm(asked)}
        <strong>Policy:</strong>
        {if (names.sizeIs > 1) choice(switch, "name", names, document.plans.configured) else form(switch, Input("name", document.plans.configured, "the policy's name"))}
      </p>
    }

  /** Those that concern one job, which has not ended. */
  def of(job: JobFacts): Seq[Node] = {
    val (text, action) = if (job.onHold) ("resume", "resume") else ("hold", "hold")
    val which = "job" -> job.mark.key
    <span class="text-nowrap">{button(text, action, which)} {
      button("cancel", "cancel", which) % confirm(s"Cancel the running Spark jobs of ${PlainText.of(job.mark.name)}?")
    }</span>
  }

  /** All that can be done to a job, which has not ended. */
  def allOf(job: JobFacts): Seq[Node] = {
    val which = "job" -> job.mark.key
    <p>{of(job)} {
      button("end", "end", which) % confirm(s"End ${PlainText.of(job.mark.name)}? It holds no slots from then on.")
    } {
      form(
        button("set", "set", which), Input("priority", s"priority ${job.mark.priority}", "priority"),
        Input("deadline", "deadline 15 min", "deadline: a time from now, a moment, or none"),
        Input("isolation", "isolation 0 to 1", "isolation level, or default"))
    }</p>
  }
}

private object SteeringButtons {
  // Keys are exact in ASCII: nothing in the page's source turns other text around.
  private val mapper = JsonMapper.builder().enable(JsonWriteFeature.ESCAPE_NON_ASCII).build()
  private val Gap = Text(" ")

  private val ModeQuestions = Map(
    Modes.On -> "Switch the mode to on? Plans and reservations take effect.",
    Modes.Shadow -> "Switch the mode to shadow? Plans and reservations are on paper only, and Spark decides every placement.",
    Modes.Off -> "Switch the mode to off? No slots are held and no plans are made.")

  private def confirm(question: String): MetaData = Attribute(None, "data-sched-confirm", Text(question), Null)

  /** @param hint what stands in it while it is empty; `label` is for readers of screens and as a tooltip */
  private final case class Input(name: String, hint: String, label: String)

  /** A button whose change takes what is in the inputs, without the empty ones. */
  private def form(button: Elem, inputs: Input*): Elem =
    <span data-sched-form="">{inputs.flatMap { in =>
      <input type="text" class={TablePages.Field} size="14" name={in.name} placeholder={in.hint}
        title={in.label} aria-label={in.label}/> ++ Gap
    }}{button}</span>

  /** A button whose change takes one of these values. */
  private def choice(button: Elem, name: String, values: Seq[String], chosen: String): Elem =
    <span data-sched-form=""><select name={name} aria-label={name} class={TablePages.Choice}>{values.map { each =>
      <option value={each} selected={if (each == chosen) "selected" else null}>{each}</option>
    }}</select> {button}</span>

  private def button(text: String, action: String, arguments: (String, String)*): Elem = {
    val json = mapper.createObjectNode()
    arguments.foreach { case (name, value) => json.put(name, value) }
    <button type="button" class="btn btn-outline-secondary btn-sm" data-sched-action={action} data-sched-arguments={mapper.writeValueAsString(json)}>{text}</button>
  }
}
