package schedcore

import java.util.NoSuchElementException

import scala.collection.{GenTraversableOnce, TraversableLike, mutable}
import scala.collection.generic.CanBuildFrom
import scala.util.Try
import scala.util.matching.Regex

/** What Scala 2.13 has and 2.12, the Scala of Spark 3.5, lacks; the package objects of the bridge's packages bring it into scope. */
trait Scala212 {
  implicit class Option212(o: Option.type) {
    def when[A](cond: Boolean)(a: => A): Option[A] = if (cond) Some(a) else None
    def unless[A](cond: Boolean)(a: => A): Option[A] = if (cond) None else Some(a)
  }
  implicit class String212(s: String) {
    def toIntOption: Option[Int] = Try(s.toInt).toOption
    def toLongOption: Option[Long] = Try(s.toLong).toOption
    def toDoubleOption: Option[Double] = Try(s.toDouble).toOption
  }
  implicit class Regex212(r: Regex) {
    def matches(s: CharSequence): Boolean = r.pattern.matcher(s).matches()
  }
  implicit class Iterator212[A](it: Iterator[A]) {
    def minOption[B >: A](implicit o: Ordering[B]): Option[A] = if (it.hasNext) Some(it.min(o)) else None
    def maxOption[B >: A](implicit o: Ordering[B]): Option[A] = if (it.hasNext) Some(it.max(o)) else None
    def maxByOption[B](f: A => B)(implicit o: Ordering[B]): Option[A] = if (it.hasNext) Some(it.maxBy(f)) else None
    def nextOption(): Option[A] = if (it.hasNext) Some(it.next()) else None
    def distinct: Iterator[A] = it.toList.distinct.iterator
  }
  implicit class Iterable212[A](xs: Iterable[A]) {
    def minOption[B >: A](implicit o: Ordering[B]): Option[A] = if (xs.isEmpty) None else Some(xs.min(o))
    def maxOption[B >: A](implicit o: Ordering[B]): Option[A] = if (xs.isEmpty) None else Some(xs.max(o))
    def maxByOption[B](f: A => B)(implicit o: Ordering[B]): Option[A] = if (xs.isEmpty) None else Some(xs.maxBy(f))
    def groupMap[K, B](key: A => K)(f: A => B): Map[K, Seq[B]] = xs.toList.groupBy(key).map { case (k, v) => k -> v.map(f) }
    def groupMapReduce[K, B](key: A => K)(f: A => B)(reduce: (B, B) => B): Map[K, B] =
      xs.toList.groupBy(key).map { case (k, v) => k -> v.map(f).reduce(reduce) }
    def sizeIs: Int = xs.size
    def distinctBy[B](f: A => B): Seq[A] = { val seen = mutable.HashSet.empty[B]; xs.toList.filter(x => seen.add(f(x))) }
  }
  implicit class Seq212[A](xs: Seq[A]) {
    def lazyZip[B](ys: Seq[B]): Zip212[A, B] = new Zip212(xs.zip(ys))
  }
  final class Zip212[A, B](pairs: Seq[(A, B)]) { def forall(p: (A, B) => Boolean): Boolean = pairs.forall { case (a, b) => p(a, b) } }
  implicit class MutableMap212[K, V](m: mutable.Map[K, V]) {
    def filterInPlace(p: (K, V) => Boolean): Unit = m.retain(p)
    def updateWith(key: K)(f: Option[V] => Option[V]): Option[V] = {
      val next = f(m.get(key))
      next match { case Some(value) => m(key) = value; case None => m -= key }
      next
    }
  }
  implicit class MutableSet212[A](s: mutable.Set[A]) {
    def filterInPlace(p: A => Boolean): Unit = s.retain(p)
  }
  implicit class HashMapObject212(o: mutable.HashMap.type) {
    def from[K, V](it: GenTraversableOnce[(K, V)]): mutable.HashMap[K, V] = { val m = mutable.HashMap.empty[K, V]; it.foreach(m += _); m }
  }
  implicit class SetObject212(o: mutable.Set.type) {
    def from[A](it: GenTraversableOnce[A]): mutable.Set[A] = { val m = mutable.Set.empty[A]; it.foreach(m += _); m }
  }
  implicit class QueueObject212(o: mutable.Queue.type) {
    def from[A](it: GenTraversableOnce[A]): mutable.Queue[A] = { val m = mutable.Queue.empty[A]; it.foreach(m += _); m }
  }
  implicit class IteratorObject212(o: Iterator.type) {
    def unfold[A, S](init: S)(f: S => Option[(A, S)]): Iterator[A] = new Iterator[A] {
      private var state = init
      private var ahead: Option[(A, S)] = None
      private var asked = false
      private def look(): Option[(A, S)] = { if (!asked) { ahead = f(state); asked = true }; ahead }
      def hasNext: Boolean = look().isDefined
      def next(): A = { val (a, s) = look().getOrElse(throw new NoSuchElementException); state = s; asked = false; a }
    }
  }
  implicit class Product212(p: Product) {
    def productElementNames: Iterator[String] =
      p.getClass.getDeclaredFields.iterator.map(_.getName).filterNot(_.startsWith("$")).take(p.productArity)
  }
}
