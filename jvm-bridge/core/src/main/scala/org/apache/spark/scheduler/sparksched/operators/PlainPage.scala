package org.apache.spark.scheduler.sparksched
package operators

import scala.xml.{Atom, Elem, Group, Node, Text, Unparsed}

import schedcore.PlainText
import schedcore.plan.Refusal

/**
 * A page of the tab in Spark's frame, in which no name of a tenant can hide or turn around other text.
 *
 * Attributes stay as they are: those that a browser shows are made plain where they are written, and buttons need jobs' exact keys.
 */
private[sparksched] object PlainPage {

  /**
   * @param refused why the request gets no content
   * @param frame puts Spark's frame around a title and a content
   */
  def rendered(title: String, refused: Option[Refusal] = None)(content: => Seq[Node])(
      frame: (String, Seq[Node]) => Seq[Node]): Seq[Node] =
    frame(PlainText.shown(title), refused.fold(plain(content))(refusal => <p role="alert">{PlainText.of(refusal.sentence)}</p>))

  def plain(nodes: Seq[Node]): Seq[Node] = nodes.map {
    case raw: Unparsed => raw // this project's own styles
    case group: Group => Group(plain(group.nodes))
    case element: Elem => element.copy(child = plain(element.child))
    case atom: Atom[_] => Text(lines(atom.text))
    case other => other
  }

  /** Line ends between elements are part of how the page was written. */
  private def lines(text: String): String = if (text.isBlank) text else PlainText.of(text)
}
