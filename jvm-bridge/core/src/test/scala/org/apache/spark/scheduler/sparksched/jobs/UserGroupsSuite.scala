package org.apache.spark.scheduler.sparksched
package jobs

import java.util.concurrent.{CountDownLatch, Executors, TimeUnit}
import java.util.concurrent.atomic.AtomicInteger

import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite

/** What is known of users' groups when their provider answers, fails or hangs. */
final class UserGroupsSuite extends AnyFunSuite with BeforeAndAfterAll {
  private val threads = Executors.newCachedThreadPool()
  override def afterAll(): Unit = threads.shutdownNow()

  private final class World(limitMs: Long = TimeUnit.MINUTES.toMillis(10))(answer: (String, Int) => Set[String]) {
    val asked = new AtomicInteger
    @volatile var minutes = 0L
    val groups = new UserGroups(
      user => answer(user, asked.incrementAndGet()), threads, limitMs, () => TimeUnit.MINUTES.toNanos(minutes))

    def learn(user: String): Option[Set[String]] = {
      groups.learn(user)
      groups.known(user)
    }
  }

  private def until(what: String)(so: => Boolean): Unit = {
    val end = System.nanoTime() + TimeUnit.MINUTES.toNanos(10)
    while (!so && System.nanoTime() < end) Thread.sleep(5)
    assert(so, what)
  }

  test("an answer is kept, and an old one counts until there is a newer one") {
    val letGo = new CountDownLatch(1)
    val w = new World()((user, n) => { if (n > 1) letGo.await(); Set(s"$user-$n") })
    assert(w.groups.known("ann") === None)
    assert(w.learn("ann") === Some(Set("ann-1")) && w.learn("ann") === Some(Set("ann-1")) && w.asked.get === 1)
    w.minutes = 6
    assert(w.learn("ann") === Some(Set("ann-1")), "it does not wait for the next answer")
    letGo.countDown()
    until("the next answer was to count")(w.groups.known("ann") === Some(Set("ann-2")))
  }

  test("a provider that hangs is waited for once and for a limited time; its late answer counts") {
    val letGo = new CountDownLatch(1)
    val w = new World(limitMs = 10)((_, _) => { letGo.await(); Set("late") })
    assert(w.learn("ann") === None)
    w.minutes = 3
    assert(w.learn("ann") === None && w.asked.get === 1, "it still has to answer")
    letGo.countDown()
    until("the answer was to count")(w.groups.known("ann") === Some(Set("late")))
  }

  test("a provider that was not waited for to the end is not waited for again within a minute, whoever the user is") {
    val letGo = new CountDownLatch(1)
    val w = new World(limitMs = 10)((_, _) => { letGo.await(); Set("late") })
    assert(w.learn("ann") === None)
    // A thread that is interrupted notices it where it waits.
    Thread.currentThread.interrupt()
    assert(w.learn("bob") === None && Thread.interrupted())
    w.minutes = 2
    Thread.currentThread.interrupt()
    assertThrows[InterruptedException](w.learn("cat"))
    letGo.countDown()
    until("the answer was to count")(w.groups.known("bob") === Some(Set("late")))
  }

  test("a user of whom the provider knows nothing has no groups, and is asked about again after a minute") {
    val w = new World()((_, n) => if (n == 1) throw new IllegalStateException("no such user") else Set("found"))
    assert(w.learn("ann") === None)
    assert(w.learn("ann") === None && w.asked.get === 1)
    w.minutes = 2
    assert(w.learn("ann") === Some(Set("found")))
  }

  test("what programs take for an option is no user's name") {
    val w = new World()((_, _) => Set("root"))
    assert(w.learn("-G") === None && w.learn("") === None && w.asked.get === 0)
  }
}
