package schedcore
package settings

/**
 * Limits of what marks may ask for, since everybody who may run a query may also mark it.
 *
 * @param maxPriority marks above it are lowered to it
 * @param maxIsolation likewise
 * @param marks names of the marks that count at all
 */
final case class Limits(
    maxPriority: Int = Int.MaxValue, maxIsolation: Double = 1.0, marks: Set[String] = MarkFields.All.toSet)

/**
 * A warning about a mark that was ignored or lowered.
 *
 * @param limited the mark was valid, and was lowered to a limit
 */
final case class MarkWarning(sentence: String, limited: Boolean)
