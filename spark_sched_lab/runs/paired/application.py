"""The experiment's side of an application process (`_arm`): starts it, runs jobs on it, and makes sure that
it ends."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, TypeVar

import spark_sched
from spark_sched.errors import BadInputError
from spark_sched_lab.runs.workloads.background import BackgroundJob

_STOP_TIMEOUT_S = 20.0
Progress = Callable[[int, int, bool], None]
T = TypeVar("T")


class ArmError(RuntimeError):
    """An application of the experiment failed; the message says how and ends with its log."""


@dataclass(frozen=True)
class Mark:
    """How a job is marked: arguments of `spark_sched.job`; ``deadline`` in seconds from submission."""

    name: str
    priority: int
    isolation: float | None
    copies: Literal["auto", "never"] = "auto"
    deadline: float | None = None
    user: str | None = None


@dataclass(frozen=True)
class RunResult:
    """The result of one run of a foreground job (with or without background).

    Times are seconds, ``background_jct_s`` a mean over its jobs; ``started_ms`` and ``ended_ms`` epoch
    milliseconds; ``counters`` are the scheduler's counters' growth over the foreground's life, empty under
    the stock scheduler.
    """

    jct_s: float
    values: tuple[float, ...]
    started_ms: int
    ended_ms: int
    background_makespan_s: float | None
    background_jobs_done_at_foreground_end: int
    counters: dict[str, float]
    background_jct_s: float | None = None


@dataclass(frozen=True)
class StagesJob:
    """A synthetic job: per stage, the tasks' sleeps in ms for first attempts and for copies.

    With ``sql_rows`` it is a real query over this number of rows instead, in as many tasks as the first
    stage.
    """

    stages: list[tuple[list[int], list[int]]]
    mark: Mark | None = None
    pool: str | None = None
    delay_s: float = 0.0
    sql_rows: int = 0


@dataclass(frozen=True)
class StagesResult:
    """JCT in seconds of each job, the epoch ms of the start, and the counters' growth."""

    jct_s: tuple[float, ...]
    started_ms: int
    counters: dict[str, float]


@dataclass(frozen=True)
class EmptyTasksResult:
    """The time of a job of empty tasks: seconds, and processor seconds of driver and planner."""

    taken_s: float
    processor_s: float


class ArmApplication:
    """One long-lived Spark application in a process of its own; its log is ``NAME.log`` in ``directory``."""

    def __init__(self, name: str, properties: dict[str, str], directory: Path) -> None:
        self.name = name
        self.application = ""
        self._properties = properties
        self._log = directory / f"{name}.log"
        self._process: subprocess.Popen[str] | None = None

    def launch(self) -> None:
        """Start the process and its application; with `wait_ready`, several start at once."""
        if find_spec("pyspark") is None:
            raise BadInputError(
                "runs on a real cluster need pyspark, which is not installed: run pip install "
                "'spark-sched[spark]'"
            )
        package_parent = str(Path(spark_sched.__file__).parents[1])
        path = os.pathsep.join(filter(None, [package_parent, os.environ.get("PYTHONPATH")]))
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "spark_sched_lab.runs.paired._application"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,  # Ctrl-C is for the experiment, which then stops its arms in order
                env={
                    **os.environ,
                    "PYTHONPATH": path,
                    "PYSPARK_PYTHON": sys.executable,
                    "PYSPARK_DRIVER_PYTHON": sys.executable,
                    "SPARK_LOCAL_IP": self._properties.get("spark.driver.host", "127.0.0.1"),
                },
            )
        # The executors' Python workers unpickle functions of this package.
        properties = {**self._properties, "spark.executorEnv.PYTHONPATH": path}
        self._send({"command": "start", "properties": properties})

    def wait_ready(self) -> None:
        """Wait for the application. Raises ArmError if it did not start."""
        self.application = str(self._receive("ready", None)["application"])

    def run(
        self,
        workload: str,
        parameters: Mapping[str, Any],
        seed: int,
        *,
        mark: Mark | None = None,
        pool: str | None = None,
        background: list[BackgroundJob] | None = None,
        progress: Progress | None = None,
    ) -> RunResult:
        """One run of any of `PROGRAMS`, with a batch of background jobs run to its end if given.

        Raises ArmError.
        """
        self._send(
            {
                "command": "run",
                "workload": workload,
                "parameters": dict(parameters),
                "seed": seed,
                "mark": asdict(mark) if mark else None,
                "pool": pool,
                "background": background and [[job.arrival_s, job.task_durations_ms] for job in background],
            }
        )
        report = self._receive("result", progress)
        report.pop("report")
        return RunResult(**{**report, "values": tuple(report["values"])})

    def stages(self, jobs: list[StagesJob]) -> StagesResult:
        """Run synthetic jobs side by side; the first counts as foreground in timelines. Raises ArmError."""
        self._send({"command": "stages", "jobs": [asdict(job) for job in jobs]})
        report = self._receive("result", None)
        return StagesResult(tuple(report["jct_s"]), report["started_ms"], report["counters"])

    def suite(
        self, jobs: list[dict[str, Any]], *, in_sequence: bool, progress: Progress | None = None
    ) -> list[dict[str, Any]]:
        """Run a suite's jobs, in sequence or each at its time of arrival. Raises ArmError.

        Returns for each job ``began_s`` (from the suite's start), ``jct_s``, its ``values``, and as ``error``
        the first line of its error, or an empty text.
        """
        self._send({"command": "suite", "in_sequence": in_sequence, "jobs": jobs})
        found: list[dict[str, Any]] = self._receive("result", progress)["jobs"]
        return found

    def empty_tasks(self, tasks: int, mark: Mark | None = None, pilots: int = 0) -> EmptyTasksResult:
        """One Spark job of ``tasks`` empty JVM tasks. Raises ArmError.

        Of a marked job ``pilots`` tasks at random run before the others, by a plan that is sent before the
        job; the application must have no planner.
        """
        marked = asdict(mark) if mark else None
        self._send({"command": "empty_tasks", "tasks": tasks, "mark": marked, "pilots": pilots})
        result = self._receive("result", None)
        return EmptyTasksResult(float(result["taken_s"]), float(result["processor_s"]))

    def stop(self) -> None:
        """End the application in order (its event log is complete then); kills it if that fails."""
        if self._process is None:
            return
        with contextlib.suppress(ArmError):
            self._send({"command": "stop"})
            self._receive("stopped", None)
        self.kill()

    def kill(self) -> None:
        """End the process and everything it started, whatever its state; harmless when ended."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=_STOP_TIMEOUT_S)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()

    def _send(self, command: dict[str, Any]) -> None:
        process = self._process
        assert process is not None, "launch() first"
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(command) + "\n")
            process.stdin.flush()
        except OSError as error:
            raise ArmError(self._story("ended unexpectedly")) from error

    def _receive(self, wanted: str, progress: Progress | None) -> dict[str, Any]:
        process = self._process
        assert process is not None, "launch() first"
        assert process.stdout is not None
        for line in process.stdout:
            report: dict[str, Any] = json.loads(line)
            if report["report"] == wanted:
                return report
            if report["report"] == "error":
                raise ArmError(self._story(report["sentence"]))
            if report["report"] == "progress" and progress is not None:
                progress(report["done"], report["jobs"], report["foreground"])
        raise ArmError(self._story("ended unexpectedly"))

    def _story(self, what: str) -> str:
        tail = "\n".join(self._log.read_text(errors="replace").splitlines()[-12:])
        return f"the {self.name} application: {what}; its log ends:\n{tail}"


def at_once(work: Callable[[T], None], items: Collection[T], applications: Iterable[ArmApplication]) -> None:
    """Do ``work`` on each item in a thread of its own. After an error all ``applications`` are killed."""
    with ThreadPoolExecutor(len(items)) as pool:
        try:
            list(pool.map(work, items))
        except BaseException:
            # Leaving the pool waits for its threads, and they wait for their applications.
            for application in applications:
                application.kill()
            raise
