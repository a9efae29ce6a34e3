"""Run jobs inside an application, each from its own thread at its time of arrival: a background, or a suite.

A background task costs no processor time: it sleeps inside the JVM, called from SQL, so that neither a Python
worker nor a shuffle is involved.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from spark_sched.workloads.background import BackgroundJob
from spark_sched.workloads.programs import PROGRAMS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BACKGROUND_GROUP = "background"


def sleeping_tasks(spark: SparkSession, durations_ms: tuple[int, ...]) -> DataFrame:
    """One partition per duration; evaluating partition *i* sleeps ``durations_ms[i]`` in its executor."""
    times = ", ".join(f"{ms}L" for ms in durations_ms)
    sleep = f"java_method('java.lang.Thread', 'sleep', element_at(array({times}), cast(id + 1 as int)))"
    return spark.range(0, len(durations_ms), 1, len(durations_ms)).selectExpr(sleep)


class BackgroundRun:
    """A batch of background jobs on its way.

    Each job runs under its own job group ``background-<number>``. ``failures`` lists the jobs that raised,
    after `cancel` too.
    """

    def __init__(self, spark: SparkSession, jobs: list[BackgroundJob]) -> None:
        self._spark = spark
        self._jobs = jobs
        self._cancelled = threading.Event()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._started_s = 0.0
        self._ended_s: list[float] = []
        self._jcts_s: list[float] = []
        self.failures: list[str] = []

    def start(self) -> None:
        """Submit the jobs as they arrive; returns at once."""
        self._started_s = time.monotonic()
        dispatcher = _thread(self._dispatch)
        self._threads.append(dispatcher)
        dispatcher.start()

    @property
    def done(self) -> int:
        """Jobs that ended so far."""
        with self._lock:
            return len(self._ended_s)

    @property
    def mean_jct_s(self) -> float | None:
        """Mean time from a job's arrival to its end, over those that ended; None if none did."""
        with self._lock:
            return sum(self._jcts_s) / len(self._jcts_s) if self._jcts_s else None

    def wait(self) -> float:
        """Wait for every job; returns the makespan in seconds, from `start` to the last job's end."""
        while self._threads:
            self._threads.pop(0).join()
        return max(self._ended_s, default=self._started_s) - self._started_s

    def cancel(self) -> None:
        """Stop submitting and cancel what runs."""
        self._cancelled.set()
        for job in self._jobs:
            self._spark.sparkContext.cancelJobGroup(f"{BACKGROUND_GROUP}-{job.number}")

    def _dispatch(self) -> None:
        for job in self._jobs:
            wait_s = self._started_s + job.arrival_s - time.monotonic()
            if self._cancelled.wait(max(0.0, wait_s)):
                return
            thread = _thread(self._run, job)
            self._threads.append(thread)
            thread.start()

    def _run(self, job: BackgroundJob) -> None:
        sc = self._spark.sparkContext
        # In the default pool whatever the submitting thread had; and cancelling must wake the sleepers.
        sc.setLocalProperty("spark.scheduler.pool", None)  # type: ignore[arg-type]
        sc.setJobGroup(
            f"{BACKGROUND_GROUP}-{job.number}", f"background job {job.number}", interruptOnCancel=True
        )
        try:
            sleeping_tasks(self._spark, job.task_durations_ms).collect()
        except Exception as error:
            with self._lock:
                self.failures.append(f"job {job.number}: {str(error).splitlines()[0]}")
        finally:
            with self._lock:
                ended_s = time.monotonic()
                self._ended_s.append(ended_s)
                self._jcts_s.append(ended_s - self._started_s - job.arrival_s)


def chains(follows: Sequence[bool]) -> list[list[int]]:
    """The numbers of a suite's jobs, divided before each job that does not follow the one before it."""
    found: list[list[int]] = []
    for number, after in enumerate(follows):
        if after and found:
            found[-1].append(number)
        else:
            found.append([number])
    return found


class SuiteRun:
    """The jobs of a suite on their way: in sequence, or each from its own thread at its time of arrival.

    Each job is a dict with ``workload`` (one of `PROGRAMS`), ``parameters``, ``seed``, ``arrival_s``,
    ``after`` (whether it starts when the job before it has ended), ``mark`` (arguments of `spark_sched.job`,
    or None) and ``pool``. ``results`` has a dict for each job, in the order of the jobs; one that fails has
    its error there and does not stop the others.
    """

    def __init__(self, spark: SparkSession, jobs: list[dict[str, Any]], *, in_sequence: bool) -> None:
        for workload in {job["workload"] for job in jobs}:
            PROGRAMS[workload].prepare()
        self._spark = spark
        self._jobs = jobs
        self._in_sequence = in_sequence
        self._started_s = 0.0
        self._ended = threading.Event()
        self.results: list[dict[str, Any]] = [{} for _ in jobs]

    @property
    def done(self) -> int:
        """Jobs that ended so far."""
        return sum(bool(result) for result in self.results)

    def start(self) -> None:
        """Submit the jobs as they arrive; returns at once."""
        self._started_s = time.monotonic()
        _thread(self._dispatch).start()

    def wait(self, timeout_s: float) -> bool:
        """Whether all jobs have ended within that time."""
        return self._ended.wait(timeout_s)

    def _dispatch(self) -> None:
        try:
            threads = []
            for chain in chains([self._in_sequence or job["after"] for job in self._jobs]):
                if not self._in_sequence:
                    arrival_s = self._jobs[chain[0]]["arrival_s"]
                    time.sleep(max(0.0, self._started_s + arrival_s - time.monotonic()))
                thread = _thread(self._run_chain, chain)
                thread.start()
                threads.append(thread)
            for thread in threads:
                thread.join()
        finally:
            self._ended.set()

    def _run_chain(self, numbers: list[int]) -> None:
        for number in numbers:
            # Each in a thread of its own: local properties of one must not reach the next.
            thread = _thread(self._run, number)
            thread.start()
            thread.join()

    def _run(self, number: int) -> None:
        import spark_sched

        job, sc = self._jobs[number], self._spark.sparkContext
        sc.setLocalProperty("spark.scheduler.pool", job["pool"])
        sc.setJobGroup(f"suite-{number}", f"{job['workload']}, job {number}")
        mark = spark_sched.job(self._spark, **job["mark"]) if job["mark"] else contextlib.nullcontext()
        began_s, error = time.monotonic(), ""
        values: tuple[float, ...] = ()
        try:
            with mark:
                values = PROGRAMS[job["workload"]].run(self._spark, job["parameters"], job["seed"])
        except Exception as problem:
            error = (str(problem).splitlines() or [type(problem).__name__])[0]
        self.results[number] = {
            "began_s": began_s - self._started_s,
            "jct_s": time.monotonic() - began_s,
            "values": list(values),
            "error": error,
        }


def _thread(target: Callable[..., None], *args: object) -> threading.Thread:
    # pyspark's own thread keeps a JVM thread of its own, so local properties do not leak between jobs.
    from pyspark import InheritableThread

    thread = InheritableThread(target, args=args)
    thread.daemon = True
    return thread
