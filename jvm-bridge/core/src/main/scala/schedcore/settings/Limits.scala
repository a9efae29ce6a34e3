package schedcore
package settings

/**
 * What marks may ask for at most: whoever may run a query may mark it, too.
 *
 * @param maxPriority marks above it are lowered to it
 * @param maxIsolation likewise
 * @param marks names of the marks that count at all
 */
final case class Limits(
    maxPriority: Int = Int.MaxValue, maxIsolation: Double = 1.0, marks: Set[String] = MarkFields.All.toSet)

/**
 * A mark that does not count as it was given.
 *
 * @param limited it could be read and asked for too much
 */
final case class MarkWarning(sentence: String, limited: Boolean)
