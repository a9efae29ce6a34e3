"""Random lifecycles of jobs on a real cluster: what tenants do, and whether each got what it must get.

A scenario of `driver`. ``SPARK_SCHED_LIFECYCLES_SEED`` is the seed and ``SPARK_SCHED_REAL_LIFECYCLES``
how many there are.
"""

from __future__ import annotations

import contextlib
import os
import queue
import random
import signal
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from pyspark import BarrierTaskContext, InheritableThread, SparkContext, TaskContext
from pyspark.rdd import RDD
from pyspark.resource import ResourceProfileBuilder, TaskResourceRequests
from pyspark.sql import SparkSession

import spark_sched
from spark_sched.errors import BadInputError
from tests.integration.scenarios import Result, counters, executor_pid, planner_pid, settled, wait_until
from tests.lifecycles import program

LIFECYCLES = int(os.environ.get("SPARK_SCHED_REAL_LIFECYCLES", "25"))
TENANTS = 6
#: So long without a step of any lifecycle that ends: only a hang takes that long, on any machine.
LIMIT_S = 300.0
#: A hang is found by the missing steps first.
LONGEST_ACTION_S = 900.0
#: How long threads, processes and records may take to go.
QUIET_MS = 60_000
POLICIES = ("reservation", "3sigma", "slearn", "prio", "uwfq")
ON_PURPOSE = "failed on purpose"


def _total(of: RDD[int]) -> int:
    return int(of.map(lambda n: (n % 3, n)).reduceByKey(lambda a, b: a + b, 3).values().sum())


class Lifecycle:
    """What one tenant does from beginning to end, drawn from a seed."""

    def __init__(self, spark: SparkSession, seed: int, step_ended: Callable[[], None]) -> None:
        self._spark, self._sc = spark, spark.sparkContext
        self._random = random.Random(seed)
        self._seed, self._tags = seed, 0
        self._step_ended = step_ended

    def run(self, depth: int = 0) -> None:
        with self._mark():
            for _ in range(self._random.randint(1, 2)):
                steps = [self._plain, self._plain, self._sql, self._shared, self._ends_early, self._cancelled]
                steps += [self._failing, self._retried, self._barrier, self._operated, self._operated]
                steps += [
                    self._wide,
                    self._of_two_slots,
                    self._nothing,
                    self._group_cancelled,
                    self._decommissioned,
                ]
                steps += [lambda: self.run(depth + 1)] * 2 if depth < 2 else []
                self._random.choice(steps)()
                self._step_ended()

    # ---- marks ----

    @contextlib.contextmanager
    def _mark(self) -> Iterator[None]:
        kind = self._random.randrange(6)
        if kind == 0:
            yield
        elif kind == 1:
            self._sc.setJobGroup(f"group-{self._seed}", "random", interruptOnCancel=True)
            try:
                yield
            finally:
                self._sc._jsc.clearJobGroup()
        elif kind == 2:
            tag = f"sched:priority={self._random.randrange(4)}"
            self._sc.addJobTag(tag)
            try:
                yield
            finally:
                self._sc.removeJobTag(tag)
        else:
            name = f"nightly-{self._random.randrange(4)}"
            with spark_sched.job(
                self._spark,
                name,
                priority=self._random.randrange(4),
                isolation=self._random.choice([None, 0.0, 0.5, 1.0]),
                deadline=self._random.choice([None, 1.0, 30.0]),
                copies=self._random.choice(["auto", "never"]),
            ):
                yield

    # ---- steps ----

    def _rows(self) -> RDD[int]:
        tasks, longest_s = self._random.randint(1, 5), self._random.choice([0.0, 0.02, 0.1])

        def body(n: int) -> int:
            time.sleep(longest_s * (n % 5) / 4)
            return n

        return self._sc.parallelize(range(40), tasks).map(body)

    def _expect(self, found: object, wanted: object) -> None:
        if found != wanted:
            raise AssertionError(f"the result is {found} and must be {wanted}")

    def _plain(self) -> None:
        self._expect(_total(self._rows()), sum(range(40)))

    def _sql(self) -> None:
        """Adaptive execution: a Spark job per shuffle and one for the broadcast."""
        rows = self._spark.range(100).selectExpr("id", "id % 7 AS k")
        small = self._spark.range(7).selectExpr("id AS k", "id * 2 AS twice")
        found = rows.join(small, "k").groupBy("k").sum("twice").agg({"sum(twice)": "sum"}).collect()
        self._expect(found[0][0], sum((n % 7) * 2 for n in range(100)))

    def _shared(self) -> None:
        """Two Spark jobs read one shuffle; the first one is cancelled or not."""
        pairs = self._rows().map(lambda n: (n % 3, n)).reduceByKey(lambda a, b: a + b, 3)
        first, tag = self._beside(lambda: pairs.values().sum(), tagged=True)
        found = self._beside(lambda: pairs.values().sum())[0]
        if self._random.random() < 0.5:
            time.sleep(self._random.random() * 0.1)
            self._sc.cancelJobsWithTag(tag)
            first(cancelled=True)
        else:
            self._expect(first(), sum(range(40)))
        self._expect(found(), sum(range(40)))

    def _ends_early(self) -> None:
        """A block ends while an action runs that was started in it."""
        with spark_sched.job(self._spark, "early", priority=self._random.randrange(3)):
            result, _ = self._beside(lambda: _total(self._rows()))
            time.sleep(self._random.random() * 0.1)
        self._expect(result(), sum(range(40)))

    def _cancelled(self) -> None:
        result, tag = self._beside(lambda: _total(self._rows()), tagged=True)
        time.sleep(self._random.random() * 0.2)
        self._sc.cancelJobsWithTag(tag)
        found = result(cancelled=True)
        if found is not None:
            self._expect(found, sum(range(40)))

    def _failing(self) -> None:
        def breaks(n: int) -> int:
            raise ValueError(ON_PURPOSE)

        try:
            self._rows().map(breaks).count()
        except Exception as error:
            if ON_PURPOSE not in str(error):
                raise
        else:
            raise AssertionError("it ended well although each of its tasks fails")

    def _retried(self) -> None:
        """One task fails once; once in a while it takes its executor with it."""
        deadly = self._random.random() < 0.1

        def once(n: int) -> int:
            task = TaskContext.get()
            # A stage that runs again for lost outputs must not lose them again.
            if n == 0 and task.attemptNumber() == 0 and task.stageAttemptNumber() == 0:
                if deadly:
                    os.kill(executor_pid(), signal.SIGKILL)
                raise ValueError(ON_PURPOSE)
            return n

        self._expect(_total(self._rows().map(once)), sum(range(40)))

    def _barrier(self) -> None:
        def together(rows: Iterator[int]) -> Iterator[int]:
            BarrierTaskContext.get().barrier()
            return rows

        rows = self._sc.parallelize(range(40), self._random.randint(1, 3))
        try:
            self._expect(rows.barrier().mapPartitions(together).sum(), sum(range(40)))
        except Exception as error:
            # With an executor that another tenant's task killed.
            if "barrier" not in str(error):
                raise

    def _operated(self) -> None:
        """An operator changes things while a job runs, and sets them right again."""
        self._tags += 1
        name, steer, spark = f"operated-{self._seed}-{self._tags}", spark_sched.steer, self._spark
        changes: list[tuple[Callable[[], str], Callable[[], str]]] = [
            (lambda: steer.hold(spark, name), lambda: steer.resume(spark, name)),
            (lambda: steer.change(spark, name, priority=5), lambda: steer.change(spark, name, isolation=1.0)),
            (lambda: steer.pause(spark), lambda: steer.unpause(spark)),
            (lambda: steer.mode(spark, "shadow"), lambda: steer.mode(spark, "on")),
            (lambda: steer.mode(spark, "off"), lambda: steer.mode(spark, "on")),
            (lambda: steer.end(spark, name), lambda: steer.resume(spark, name)),
        ]
        with spark_sched.job(spark, name, priority=self._random.randrange(4)):
            result, _ = self._beside(lambda: _total(self._rows()))
            for both in self._random.sample(changes, 2):
                for change in both:
                    try:
                        change()
                    except BadInputError as error:
                        # It may not have begun, or be over.
                        if "no such job is known" not in str(error):
                            raise
                    time.sleep(self._random.random() * 0.1)
            self._expect(result(), sum(range(40)))

    def _wide(self) -> None:
        self._expect(self._spark.range(0, 300, 1, 300).count(), 300)

    def _of_two_slots(self) -> None:
        """Tasks that take a whole executor each."""
        profile = ResourceProfileBuilder().require(TaskResourceRequests().cpus(2)).build
        self._expect(self._rows().withResources(profile).sum(), sum(range(40)))

    def _nothing(self) -> None:
        self._expect(self._sc.emptyRDD().count(), 0)

    def _group_cancelled(self) -> None:
        """Cancelled with all that the group submits from then on."""
        self._tags += 1
        group = f"gone-{self._seed}-{self._tags}"
        result, _ = self._beside(lambda: _total(self._rows()), group=group)
        time.sleep(self._random.random() * 0.2)
        self._sc._jsc.sc().cancelJobGroupAndFutureJobs(group)
        found = result(cancelled=True)
        if found is not None:
            self._expect(found, sum(range(40)))
        after, _ = self._beside(lambda: _total(self._rows()), group=group)
        self._expect(after(cancelled=True), None)

    def _decommissioned(self) -> None:
        """An executor may be told to go; it ends when its tasks have."""
        if self._random.random() < 0.6:
            jvm: Any = self._sc._jvm
            backend: Any = self._sc._jsc.sc().schedulerBackend()
            here = backend.getExecutorIds()
            if here.size() > 1:
                info = jvm.org.apache.spark.scheduler.ExecutorDecommissionInfo(
                    "on purpose", jvm.scala.Option.empty()
                )
                backend.decommissionExecutor(here.apply(0), info, False, False)
        self._plain()

    def _beside(
        self, work: Callable[[], int], *, tagged: bool = False, group: str | None = None
    ) -> tuple[Callable[..., int | None], str]:
        """Start work in a thread that inherits the marks; gives what waits for its result, and its tag."""
        self._tags += 1
        tag, done = f"random-{self._seed}-{self._tags}", queue.SimpleQueue[object]()

        def run() -> None:
            if tagged:
                self._sc.addJobTag(tag)
            if group is not None:
                self._sc.setJobGroup(group, "random")
            try:
                done.put(work())
            except Exception as error:
                done.put(error)

        thread = InheritableThread(target=run, daemon=True)
        thread.start()

        def result(*, cancelled: bool = False) -> int | None:
            found = done.get(timeout=LONGEST_ACTION_S)
            if isinstance(found, Exception):
                if cancelled and "cancel" in str(found).lower():
                    return None
                raise found
            assert isinstance(found, int)
            return found

        return result, tag


class _Tenants:
    """Threads that take one lifecycle after another."""

    def __init__(self, spark: SparkSession, seed: int, count: int) -> None:
        self._spark, self._seed, self._count = spark, seed, count
        self._numbers = iter(range(count))
        self._lock = threading.Lock()
        self._now: set[int] = set()
        self._step_ended_s = time.monotonic()
        self.failures: list[str] = []
        self.outcomes: Counter[str] = Counter()
        self.killed = 0

    def run(self) -> None:
        threads = [InheritableThread(target=self._tenant, daemon=True) for _ in range(TENANTS)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            time.sleep(0.2)
            if time.monotonic() - self._step_ended_s > LIMIT_S:
                with self._lock:
                    hung = sorted(self._now)
                self.failures.append(f"lifecycles {hung} of seed {self._seed} hang: {stacks()}")
                return

    def _heed_step(self) -> None:
        self._step_ended_s = time.monotonic()

    def _tenant(self) -> None:
        while True:
            with self._lock:
                number = next(self._numbers, None)
                if number is None or self.failures:
                    return
                self._now.add(number)
            try:
                if number % 40 == 20:
                    self._change_planner(number)
                elif number % 40 == 12:
                    # It is silent from now on, and replaced.
                    os.kill(planner_pid(self._spark.sparkContext), signal.SIGSTOP)
                Lifecycle(self._spark, self._seed * 100_003 + number, self._heed_step).run()
                with self._lock:
                    self.outcomes["ended"] += 1
            except Exception:
                self.failures.append(f"lifecycle {number} of seed {self._seed}: {traceback.format_exc()}")
            finally:
                with self._lock:
                    self._now.discard(number)

    def _change_planner(self, number: int) -> None:
        """The planner dies, and the next one has another policy."""
        policy = POLICIES[(number // 40 + 1) % len(POLICIES)]
        self._spark.sparkContext._jsc.sc().conf().set("spark.sched.planner.policy", policy)
        os.kill(planner_pid(self._spark.sparkContext), signal.SIGKILL)
        with self._lock:
            self.killed += 1


def stacks() -> str:
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames = sys._current_frames().items()
    return "\n".join(f"{names.get(n)}\n{''.join(traceback.format_stack(frame)[-6:])}" for n, frame in frames)


def _leftovers(sc: SparkContext) -> Any:
    """The driver's own look at what is left, with its classes loaded."""
    jvm: Any = sc._jvm
    gateway: Any = sc._gateway
    urls = gateway.new_array(jvm.java.net.URL, 1)
    _, compiled = program.jars()
    urls[0] = jvm.java.net.URL(compiled.as_uri())
    thread = jvm.java.lang.Thread.currentThread()
    thread.setContextClassLoader(jvm.java.net.URLClassLoader(urls, thread.getContextClassLoader()))
    return jvm.org.apache.spark.scheduler.sparksched.lifecycles.Leftovers


def left_idle(sc: SparkContext) -> list[str]:
    """What the idle application still knows of jobs, in sentences."""
    return list(_leftovers(sc).ofIdle(sc._jsc.sc(), QUIET_MS))


def left_stopped(sc: SparkContext) -> Callable[[], list[str]]:
    """Call it when the application has stopped: what is left of it, in sentences."""
    found = _leftovers(sc)
    return lambda: list(found.ofStopped(QUIET_MS))


def _left(spark: SparkSession) -> tuple[list[str], list[str]]:
    """What the idle application still knows, and what is left when it has stopped. Stops it."""
    idle, stopped = left_idle(spark.sparkContext), left_stopped(spark.sparkContext)
    spark.stop()
    return idle, stopped()


def lifecycles(spark: SparkSession) -> Result:
    """Random lifecycles of six tenants. Stops the application."""
    sc = spark.sparkContext
    seed = int(os.environ.get("SPARK_SCHED_LIFECYCLES_SEED", "1"))
    spark.range(10).count()
    wait_until(lambda: counters(sc)["plans_accepted"] > 0, "no plan came", within_s=240.0)
    tenants = _Tenants(spark, seed, LIFECYCLES)
    tenants.run()
    end = settled(sc)
    # An application that hangs does not stop.
    idle, stopped = ([], []) if tenants.failures else _left(spark)
    return {
        "seed": seed,
        "left_idle": idle,
        "left_stopped": stopped,
        "failures": tenants.failures,
        "ended": tenants.outcomes["ended"],
        "planners_killed": tenants.killed,
        "counters": end,
        "kill": True,
    }
