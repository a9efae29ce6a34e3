package schedcore
package operators

import schedcore.marks.JobMark

/**
 * Which jobs people mean by a word: that of this key; without one, those of this id; without one, those of this name.
 *
 * Any tenant may give a job another job's key as its name, so a name is looked at last.
 */
object CalledJobs {
  def of[A](jobs: Iterable[A], by: String)(mark: A => JobMark): Seq[A] = {
    val word = PlainText.bounded(by)
    first(jobs)(mark(_).key == by, job => mark(job).hasId(word), mark(_).name == word)
  }

  /** Those that meet the first of the conditions that any meets. */
  def first[A](jobs: Iterable[A])(conditions: (A => Boolean)*): Seq[A] =
    conditions.iterator.map(jobs.iterator.filter(_).toList).find(_.nonEmpty).getOrElse(Nil)
}
