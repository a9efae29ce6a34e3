"""What scenarios share: background work, tasks that wait or sleep, counters, waits for states.

A scenario is a function of one of the modules in `driver.MODULES`. It does what a small application does, on
real Spark, and returns what a test asserts on. Several run in one application, so names of jobs differ
between scenarios: the planner learns by name. Task times are sleeps, and what is asserted are orders and
counts, never durations.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark import InheritableThread, SparkContext
from pyspark.sql import SparkSession

import spark_sched
from spark_sched.api.attached import scheduler_of

Result = dict[str, Any]


_earlier: dict[str, int] = {}
_NOT_COUNTED = ("slots_held_now", "planner_pid", "jobs_unstored")  # they say what is, not how often


def counters(sc: SparkContext) -> dict[str, int]:
    """What was counted since the scenario began."""
    entry: Any = sc._jvm.org.apache.spark.scheduler.sparksched.SparkSched
    found: dict[str, int] = json.loads(entry.counters(sc._jsc.sc()))
    return {name: n if name in _NOT_COUNTED else n - _earlier.get(name, 0) for name, n in found.items()}


def counted_from(sc: SparkContext | None) -> None:
    """Count from now on; None: from the start of the application."""
    _earlier.clear()
    if sc is not None:
        _earlier.update(counters(sc))


def attached(sc: SparkContext) -> bool:
    return scheduler_of(sc) is not None


def settled(sc: SparkContext) -> dict[str, int]:
    """Counters once nothing is held any more, or after a minute of waiting for that."""
    for _ in range(600):
        now = counters(sc)
        if now["slots_held_now"] == 0:
            break
        time.sleep(0.1)
    return now


def sleeper(seconds: Callable[[int], float]) -> Callable[[int], tuple[int, float, float]]:
    """A task body: sleeps, returns its partition with the wall-clock times of its start and end."""

    def body(partition: int) -> tuple[int, float, float]:
        started = time.time()
        time.sleep(seconds(partition))
        return partition, started, time.time()

    return body


def straggling(until: Path) -> Callable[[int], tuple[int, float, float]]:
    """A task body like `sleeper`'s whose partition 3 runs until the file exists, on this machine."""

    def body(partition: int) -> tuple[int, float, float]:
        started = time.time()
        if partition == 3:
            wait_until(until.exists, "the straggler was to be released")
        else:
            time.sleep(0.3)
        return partition, started, time.time()

    return body


def sleeper_after(begin: Path, seconds: Callable[[int], float]) -> Callable[[int], tuple[int, float, float]]:
    """A task body like `sleeper`'s that sleeps once the file exists, on this machine."""

    def body(partition: int) -> tuple[int, float, float]:
        started = time.time()
        wait_until(begin.exists, "the tasks were to go on")
        time.sleep(seconds(partition))
        return partition, started, time.time()

    return body


@contextmanager
def release() -> Iterator[Path]:
    """A file for tasks that wait for it, to be touched when they may end."""
    with tempfile.TemporaryDirectory(prefix="spark-sched-tests-") as name:
        yield Path(name) / "release"


def warm_up(sc: SparkContext, slots: int) -> None:
    """All slots are there and nothing goes on: so many tasks ran at once, and everybody was told of it."""
    with tempfile.TemporaryDirectory(prefix="spark-sched-tests-") as name:
        here = Path(name)

        def meet(partition: int) -> None:
            (here / str(partition)).touch()
            wait_until(lambda: len(list(here.iterdir())) == slots, f"{slots} tasks were to run at once")

        sc.parallelize(range(slots), slots).map(meet).collect()
    all_told(sc)


def all_told(sc: SparkContext) -> None:
    """Wait until the listener bus told everybody, such as the status tracker, of all that happened so far."""
    sc._jsc.sc().listenerBus().waitUntilEmpty(300_000)


@contextmanager
def background(
    sc: SparkContext,
    tasks: int,
    seconds: float = 1.0,
    *,
    behind: int = 0,
    begin: Path | None = None,
    come: Path | None = None,
) -> Iterator[list[float]]:
    """Unmarked single-stage work beside the block, submitted once ``behind`` tasks run.

    Its tasks sleep once the file ``begin`` exists, and the file ``come`` is made when its stage is there
    beside the only other one. Yields the list of its tasks' start times, which is filled when they ended.
    """
    starts: list[float] = []
    body = sleeper(lambda _: seconds) if begin is None else sleeper_after(begin, lambda _: seconds)

    def submit() -> None:
        wait_until(lambda: running_tasks(sc) >= behind, f"{behind} tasks were to run")
        rows = sc.parallelize(range(tasks), tasks).map(body).collect()
        starts.extend(started for _, started, _ in rows)

    def tell(come: Path) -> None:
        wait_until(lambda: active_stages(sc) == 2, "the background was to come")
        come.touch()

    threads = [InheritableThread(target=submit)]
    if come is not None:
        threads.append(InheritableThread(target=tell, args=(come,)))
    for thread in threads:
        thread.start()
    try:
        yield starts
    finally:
        for thread in threads:
            thread.join()


@contextmanager
def properties(sc: SparkContext, **marks: str) -> Iterator[None]:
    for name, value in marks.items():
        sc.setLocalProperty(f"spark.sched.job.{name}", value)
    try:
        yield
    finally:
        for name in marks:
            sc.setLocalProperty(f"spark.sched.job.{name}", None)


def wait_until(condition: Callable[[], bool], what: str, within_s: float = 300.0) -> None:
    """Long enough for a busy machine: only a hang takes that long."""
    until = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError(what)
        time.sleep(0.05)


def wait_until_steady(condition: Callable[[], bool], what: str, for_s: float = 0.5) -> None:
    """Until it has held for so long: what a busy machine does in two steps may pass through it."""
    since = time.monotonic()

    def steady() -> bool:
        nonlocal since
        if not condition():
            since = time.monotonic()
        return time.monotonic() - since >= for_s

    wait_until(steady, what)


def running_tasks(sc: SparkContext) -> int:
    tracker = sc.statusTracker()
    stages = (tracker.getStageInfo(s) for s in tracker.getActiveStageIds())
    return sum(s.numActiveTasks for s in stages if s is not None)


def active_stages(sc: SparkContext) -> int:
    return len(sc.statusTracker().getActiveStageIds())


def waits(spark: SparkSession, name: str, slots: int) -> bool:
    """Whether tasks of a job of this name wait for so many slots."""
    return any(each.name == name and each.slots.waiting == slots for each in spark_sched.status(spark).jobs)


def planner_pid(sc: SparkContext) -> int:
    """The planner's process, once there is one: to `os.kill` -1, which stands for none, means all."""
    found: list[int] = []

    def runs() -> bool:
        found.append(counters(sc)["planner_pid"])
        return found[-1] > 0

    wait_until(runs, "the planner was to come")
    return found[-1]


def more_events(sc: SparkContext, count: int) -> None:
    """Return after so many more events: a moment of the application, however fast the machine is."""
    events: Any = sc._jsc.sc().taskScheduler().records().events()
    wanted = events.currentVersion() + count
    wait_until(lambda: events.currentVersion() >= wanted, f"{count} events were to come")


def executor_pid() -> int:
    """The JVM above this Python worker: worker → daemon → executor."""
    pid = os.getpid()
    while True:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
            name, rest = stat.read().rsplit(")", 1)
        if name.split("(", 1)[1] == "java":
            return pid
        pid = int(rest.split()[1])
