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

from spark_sched_lab.runs.workloads.background import BackgroundJob
from spark_sched_lab.runs.workloads.programs import PROGRAMS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BACKGROUND_GROUP = "background"


def sleeping_tasks(spark: SparkSession, durations_ms: tuple[int, ...]) -> DataFrame:
    """One partition per duration; evaluating partition *i* sleeps ``durations_ms[i]`` in its executor."""
    times = ", ".join(f"{ms}L" for ms in durations_ms)
    sleep = f"java_method('java.lang.Thread', 'sleep', element_at(array({times}), cast(id + 1 as int)))"
    return spark.range(0, len(durations_ms), 1, len(durations_ms)).selectExpr(sleep)


class _Arrivals:
    """Jobs on their way, which `_dispatch` submits from threads of their own."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._started_s = 0.0
        self._dispatcher: threading.Thread

    def start(self) -> None:
        """Submit the jobs as they arrive; returns at once."""
        self._started_s = time.monotonic()
        self._dispatcher = _thread(self._dispatch)
        self._dispatcher.start()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Whether all jobs have ended within that time."""
        self._dispatcher.join(timeout_s)
        return not self._dispatcher.is_alive()

    def _dispatch(self) -> None:
        """Submit every job when it arrives, and wait for all."""
        raise NotImplementedError


class BackgroundRun(_Arrivals):
    """A batch of background jobs on its way.

    Each job runs under its own job group ``background-<number>``. ``failures`` lists the jobs that raised,
    after `cancel` too.
    """

    def __init__(self, spark: SparkSession, jobs: list[BackgroundJob]) -> None:
        super().__init__(spark)
        self._jobs = jobs
        self._cancelled = threading.Event()
        #: Of each job that ended: when, from `start` on, and how long after its arrival; in s.
        self._ended_s: list[tuple[float, float]] = []
        self.failures: list[str] = []

    @property
    def done(self) -> int:
        return len(self._ended_s)

    @property
    def mean_jct_s(self) -> float | None:
        """Mean time from a job's arrival to its end, over those that ended; None if none did."""
        jcts_s = [jct_s for _, jct_s in self._ended_s]
        return sum(jcts_s) / len(jcts_s) if jcts_s else None

    def makespan_s(self) -> float:
        """Wait for every job; returns the seconds from `start` to the last job's end."""
        self.wait()
        return max((ended_s for ended_s, _ in self._ended_s), default=0.0)

    def cancel(self) -> None:
        """Stop submitting and cancel what runs."""
        self._cancelled.set()
        for job in self._jobs:
            self._spark.sparkContext.cancelJobGroup(f"{BACKGROUND_GROUP}-{job.number}")

    def _dispatch(self) -> None:
        threads = []
        for job in self._jobs:
            if self._cancelled.wait(max(0.0, self._started_s + job.arrival_s - time.monotonic())):
                break
            threads.append(_thread(self._run, job))
            threads[-1].start()
        for thread in threads:
            thread.join()

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
            self.failures.append(f"job {job.number}: {str(error).splitlines()[0]}")
        finally:
            ended_s = time.monotonic() - self._started_s
            self._ended_s.append((ended_s, ended_s - job.arrival_s))


def chains(follows: Sequence[bool]) -> list[list[int]]:
    """The numbers of a suite's jobs, divided before each job that does not follow the one before it."""
    found: list[list[int]] = []
    for number, after in enumerate(follows):
        if after and found:
            found[-1].append(number)
        else:
            found.append([number])
    return found


class SuiteRun(_Arrivals):
    """The jobs of a suite on their way: in sequence, or each from its own thread at its time of arrival.

    Each job is a dict with ``workload`` (one of `PROGRAMS`), ``parameters``, ``seed``, ``arrival_s``,
    ``after`` (whether it starts when the job before it has ended), ``mark`` (arguments of `spark_sched.job`,
    or None) and ``pool``. Jobs with a ``lane`` run beside those of other lanes; those of a later ``turn``
    wait for all jobs of the turn before in their lane, and arrive from then on. ``results`` has a dict for
    each job, in the order of the jobs; one that fails has its error there and does not stop the others.
    """

    def __init__(self, spark: SparkSession, jobs: list[dict[str, Any]], *, in_sequence: bool) -> None:
        for workload in {job["workload"] for job in jobs}:
            PROGRAMS[workload].prepare()
        super().__init__(spark)
        self._jobs = jobs
        self._in_sequence = in_sequence
        self.results: list[dict[str, Any]] = [{} for _ in jobs]

    @property
    def done(self) -> int:
        return sum(bool(result) for result in self.results)

    def _dispatch(self) -> None:
        lanes: dict[int, dict[int, list[int]]] = {}
        for number, job in enumerate(self._jobs):
            lanes.setdefault(job.get("lane", 0), {}).setdefault(job.get("turn", 0), []).append(number)
        threads = [
            _thread(self._run_lane, [turns[turn] for turn in sorted(turns)]) for turns in lanes.values()
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _run_lane(self, turns: list[list[int]]) -> None:
        started_s = self._started_s
        for numbers in turns:
            threads = []
            for chain in chains([self._in_sequence or self._jobs[n]["after"] for n in numbers]):
                chain = [numbers[place] for place in chain]
                if not self._in_sequence:
                    arrival_s = self._jobs[chain[0]]["arrival_s"]
                    time.sleep(max(0.0, started_s + arrival_s - time.monotonic()))
                threads.append(_thread(self._run_chain, chain))
                threads[-1].start()
            for thread in threads:
                thread.join()
            started_s = time.monotonic()

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
