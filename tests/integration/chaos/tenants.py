"""Tenants: threads of five users that submit jobs of many kinds, each of whose results is checked exactly.

Executors need not find this module: it is pickled by value. Tasks sleep.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark import BarrierTaskContext, InheritableThread, TaskContext
from pyspark.rdd import RDD
from pyspark.sql import SparkSession

import spark_sched

USERS = tuple(f"user-{number}" for number in range(5))
#: What a task that fails by design says.
BY_DESIGN = "failed by design"
VALUES = 60
#: So often a barrier stage may lose one of its tasks to a fault. Spark fails the whole action then.
MOST_BARRIER_TRIES = 30
#: Jobs that an operator's `end` may make of one: each action that follows begins another.
MOST_PARTS = 10


class WrongResultError(Exception):
    """An action's result is not what it must be."""


def expect(found: object, wanted: object) -> None:
    if found != wanted:
        raise WrongResultError(f"the result is {found} and must be {wanted}")


@dataclass(frozen=True)
class JobRecord:
    """What became of one job.

    Attributes:
        outcome: right, cancelled (by an operator), wrong, or lost (an error that no rule explains).
        learned: how many rows of the history must come of it, and may come at most.
        what: the error, or "".
    """

    kind: str
    user: str
    name: str
    key: str
    outcome: str
    learned: tuple[int, int]
    what: str = ""


@dataclass
class Shared:
    """What all tenants share, also with the faults.

    Attributes:
        stop_s: no job begins after this time (`time.monotonic`).
        pace: multiplies the tasks' times.
        cancelled, ended: keys of jobs that an operator cancelled or ended, noted before the change.
        running: keys of the marked jobs that run, which operators may cancel.
        gangs: keys of jobs with barrier stages.
        doing: what each thread does now.
        numbers: make names that are used once.
    """

    spark: SparkSession
    seed: int
    stop_s: float
    pace: float
    folder: Path
    lock: threading.Lock = field(default_factory=threading.Lock)
    records: list[JobRecord] = field(default_factory=list)
    cancelled: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)
    running: set[str] = field(default_factory=set)
    gangs: set[str] = field(default_factory=set)
    doing: dict[str, str] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=itertools.count)


class Tenant:
    """One thread of one user, which runs one job after another."""

    def __init__(self, shared: Shared, number: int) -> None:
        self._shared, self._spark, self._sc = shared, shared.spark, shared.spark.sparkContext
        self._random = random.Random(shared.seed * 1_000_003 + number)
        self._user = USERS[number % len(USERS)]
        self._number = number
        self.thread = InheritableThread(target=self._run, daemon=True, name=f"tenant-{number}")

    def _run(self) -> None:
        kinds = [
            self._etl, self._gang, self._query, self._actions, self._retried, self._straggler,
            self._withdrawn, self._failing, self._unmarked, self._unmarked_query, self._grouped,
        ]  # fmt: skip
        # Each kind comes, however short the run is.
        job = kinds[self._number % len(kinds)]
        while time.monotonic() < self._shared.stop_s:
            job()
            job = self._random.choice(kinds)

    # ---- kinds of jobs ----

    def _etl(self) -> None:
        """Two shuffles."""

        def work() -> None:
            groups, tasks = self._random.randint(2, 5), self._random.randint(2, 5)
            pairs = self._rows().map(lambda n: (n % 15, n)).reduceByKey(lambda a, b: a + b, tasks)
            found = pairs.mapPartitionsWithIndex(self._slow()).map(lambda p: (p[0] % groups, p[1]))
            wanted = {g: sum(n for n in range(VALUES) if n % 15 % groups == g) for g in range(groups)}
            expect(dict(found.reduceByKey(lambda a, b: a + b, 2).collect()), wanted)

        self._marked("etl", work)

    def _gang(self) -> None:
        """A barrier stage that reads a shuffle."""

        def together(rows: Iterator[int]) -> Iterator[int]:
            BarrierTaskContext.get().barrier()
            return rows

        def work() -> None:
            width = self._random.randint(2, 4)
            rows = self._rows().map(lambda n: (n % 12, n)).reduceByKey(lambda a, b: a + b, width).values()
            gang = rows.barrier().mapPartitions(together)
            for _ in range(MOST_BARRIER_TRIES):
                try:
                    expect(gang.sum(), sum(range(VALUES)))
                    return
                except Exception as error:
                    # As on stock Spark, a result stage with barriers that lost a task fails its action.
                    if "barrier" not in str(error).lower():
                        raise
            raise WrongResultError(f"the barrier stage failed {MOST_BARRIER_TRIES} times")

        self._marked("gang", work, gang=True)

    def _query(self) -> None:
        """Adaptive execution and a broadcast."""
        self._marked("query", self._join)

    def _actions(self) -> None:
        """Actions with pauses between them, in which slots are held."""

        def work() -> None:
            for _ in range(self._random.randint(2, 3)):
                expect(self._total(self._rows()), sum(range(VALUES)))
                time.sleep(self._random.uniform(0.0, 2.0) * self._shared.pace)

        self._marked("actions", work)

    def _retried(self) -> None:
        """A task that fails at its first attempt."""

        def once(index: int, rows: Iterator[int]) -> Iterator[int]:
            if index == 0 and TaskContext.get().attemptNumber() == 0:
                raise ValueError(BY_DESIGN)
            return rows

        self._marked(
            "retried",
            lambda: expect(self._total(self._rows().mapPartitionsWithIndex(once)), sum(range(VALUES))),
        )

    def _straggler(self) -> None:
        """A task that takes much longer at its first attempt: where the policy makes copies, it gets one."""
        longest_s = 12.0 * self._shared.pace

        def slow_once(index: int, rows: Iterator[int]) -> Iterator[int]:
            if index == 0 and TaskContext.get().attemptNumber() == 0:
                time.sleep(longest_s)
            return rows

        def work() -> None:
            rows = self._sc.parallelize(range(VALUES), 4).mapPartitionsWithIndex(self._slow())
            expect(self._total(rows.mapPartitionsWithIndex(slow_once)), sum(range(VALUES)))

        self._marked("straggler", work, priority=5)

    def _withdrawn(self) -> None:
        """Its owner cancels an action, and runs another one."""
        tag = f"withdrawn-{self._number}-{next(self._shared.numbers)}"

        def work() -> None:
            problems: list[Exception] = []

            def first() -> None:
                self._sc.addJobTag(tag)
                try:
                    expect(self._total(self._rows()), sum(range(VALUES)))
                except Exception as error:
                    if "cancel" not in str(error).lower():
                        problems.append(error)

            thread = InheritableThread(target=first, daemon=True)
            thread.start()
            time.sleep(self._random.uniform(0.2, 3.0) * self._shared.pace)
            self._sc.cancelJobsWithTag(tag)
            thread.join()
            if problems:
                raise problems[0]
            expect(self._total(self._rows()), sum(range(VALUES)))

        # What is cut short teaches nothing.
        self._marked("withdrawn", work, learned=(0, 1))

    def _failing(self) -> None:
        def breaks(n: int) -> int:
            raise ValueError(BY_DESIGN)

        def work() -> None:
            try:
                self._sc.parallelize(range(4), 2).map(breaks).count()
            except Exception as error:
                if BY_DESIGN not in str(error):
                    raise
            else:
                raise WrongResultError("it ended well although each of its tasks fails")

        self._marked("failing", work, learned=(0, 1))

    def _unmarked(self) -> None:
        """Every Spark job is a job of its own."""
        self._recorded("unmarked", "", "", "", lambda: expect(self._total(self._rows()), sum(range(VALUES))))

    def _unmarked_query(self) -> None:
        # On a crowded machine it may be idle for the gap between two of its Spark jobs. Then it is two jobs.
        self._recorded("unmarked query", "", "", "", self._join, learned=(1, 2))

    def _grouped(self) -> None:
        """A job group is a job, until nothing happened in it for a while."""
        group = f"group-{self._number}-{next(self._shared.numbers)}"
        self._sc.setJobGroup(group, "chaos", interruptOnCancel=False)
        try:
            self._recorded(
                "group", "", group, f"group-{group}",
                lambda: expect(self._total(self._rows()), sum(range(VALUES))),
            )  # fmt: skip
        finally:
            self._sc._jsc.clearJobGroup()

    # ---- what they are made of ----

    def _slow(self) -> Callable[[int, Iterator[Any]], Iterator[Any]]:
        """Sleeps once per task, for times that differ between the tasks of a stage."""
        longest_s = self._random.choice([1.0, 2.0, 4.0]) * self._shared.pace

        def body(index: int, rows: Iterator[Any]) -> Iterator[Any]:
            time.sleep(longest_s * (0.4 + 0.15 * (index * 7 % 5)))
            return rows

        return body

    def _rows(self) -> RDD[int]:
        return self._sc.parallelize(range(VALUES), self._random.randint(2, 8)).mapPartitionsWithIndex(
            self._slow()
        )

    def _total(self, rows: RDD[int]) -> int:
        return int(rows.map(lambda n: (n % 3, n)).reduceByKey(lambda a, b: a + b, 3).values().sum())

    def _join(self) -> None:
        """A broadcast join, two aggregations, and tasks that sleep, in SQL."""
        pause_ms = int(1_000 * self._random.uniform(0.3, 1.5) * self._shared.pace)
        # Each partition sleeps for one of its rows.
        slow = f"CASE WHEN id % 50 = 0 THEN length(reflect('java.lang.Thread', 'sleep', {pause_ms}L)) END"
        rows = self._spark.range(0, 300, 1, 6).selectExpr("id", "id % 7 AS k", f"{slow} AS slept")
        small = self._spark.range(7).selectExpr("id AS k", "id * 2 AS twice")
        joined = rows.join(small.hint("broadcast"), "k").groupBy("k").agg({"twice": "sum", "slept": "count"})
        # Without its count what sleeps would be left out of the plan.
        found = joined.selectExpr("sum(`sum(twice)`)", "sum(`count(slept)`)").collect()
        expect(tuple(found[0]), (sum((n % 7) * 2 for n in range(300)), 6))

    def _marked(
        self, kind: str, work: Callable[[], None], *, gang: bool = False, priority: int | None = None,
        learned: tuple[int, int] = (1, 1),
    ) -> None:  # fmt: skip
        draw = self._random
        name = f"{kind}-{draw.randrange(3)}"
        with spark_sched.job(
            self._spark,
            name,
            user=self._user,
            priority=draw.randrange(4) if priority is None else priority,
            isolation=draw.choice([None, None, 0.0, 0.5, 1.0]) if priority is None else 1.0,
            deadline=draw.choice([None, None, 20.0, 120.0]),
            copies=draw.choice(["auto", "auto", "never"]) if priority is None else "auto",
        ) as job:
            key = f"mark-{job}"
            with self._shared.lock:
                self._shared.running.add(key)
                if gang:
                    self._shared.gangs.add(key)
            try:
                self._recorded(kind, self._user, name, key, work, learned)
            finally:
                with self._shared.lock:
                    self._shared.running.discard(key)

    def _recorded(
        self, kind: str, user: str, name: str, key: str, work: Callable[[], None],
        learned: tuple[int, int] = (1, 1),
    ) -> None:  # fmt: skip
        with doing(self._shared, self.thread.name, f"{kind} {name} {key}"):
            record(self._shared, kind, user, name, key, work, learned)


@contextlib.contextmanager
def doing(shared: Shared, who: str, what: str) -> Iterator[None]:
    """Notes what a thread does, for those that never end."""
    with shared.lock:
        shared.doing[who] = what
    try:
        yield
    finally:
        with shared.lock:
            shared.doing.pop(who)


def record(
    shared: Shared, kind: str, user: str, name: str, key: str, work: Callable[[], None],
    learned: tuple[int, int],
) -> None:  # fmt: skip
    """Do the work, and note what became of it."""
    outcome, what = "right", ""
    try:
        work()
    except WrongResultError as error:
        outcome, what = "wrong", str(error)
    except Exception as error:
        by_operator = key in shared.cancelled and "cancel" in str(error).lower()
        outcome, what = ("cancelled", "") if by_operator else ("lost", traceback.format_exc())
    if key in shared.ended:
        learned = (0, MOST_PARTS)
    elif key in shared.cancelled or outcome != "right":
        learned = (0, learned[1])
    with shared.lock:
        shared.records.append(JobRecord(kind, user, name, key, outcome, learned, what))


def outcomes(records: list[JobRecord]) -> dict[str, int]:
    return dict(sorted(Counter(f"{each.kind}: {each.outcome}" for each in records).items()))
