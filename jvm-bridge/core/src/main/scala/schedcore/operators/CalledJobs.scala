package schedcore
package operators

import schedcore.marks.JobMark

/**
 * Finds the jobs that a person means by a word: the job with this key; if there is none, the jobs with this id; if there are
 * none, the jobs with this name.
 *
 * Names come last because any tenant may give a job another job's key as its name.
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
