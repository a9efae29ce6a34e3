"""The runs of an experiment spread over a Spark cluster, one task per arm and seed, with the same bytes as
local runs."""

from __future__ import annotations

import os
import pickle
import re
import signal
import socket
import sys
import tempfile
import threading
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import spark_sched
import spark_sched_lab
from spark_sched.attach.spark import find_java, java_version
from spark_sched.config.masters import check_inner_master
from spark_sched.errors import BadInputError
from spark_sched_lab.runs.simulate.experiment import Experiment, SimulatedArm
from spark_sched_lab.runs.simulate.in_process import Progress, SeedRun

if TYPE_CHECKING:
    from pyspark import SparkContext

#: The master of Spark's own configuration; ``local[*]`` if it has none.
CONFIGURED = "spark"
_CONNECT_S = 5.0
_PYTHON_ERROR = re.compile(r"[A-Za-z]+(?:Error|Exception|NotFound)\b")
_POLL_S = 0.3


class SpreadError(RuntimeError):
    """Spark did not start, or a run failed on it; the message is one sentence."""


def check_place(place: str) -> str | None:
    """The master that ``--on`` names; None: the one of Spark's configuration.

    Raises BadInputError if it is not a master, if no master answers there, or if there is no Spark or Java.
    """
    try:
        import pyspark  # noqa: F401
    except ImportError:
        raise BadInputError(
            f"--on is {place!r} but pyspark is not installed: run pip install 'spark-sched[spark]', or "
            "omit --on"
        ) from None
    java_version(find_java())
    if place == CONFIGURED:
        return None
    try:
        master, kind = check_inner_master(place)
    except BadInputError as error:
        raise BadInputError(f"--on: {error}; or give spark for the configured master") from None
    if kind == "spark":
        _check_reachable(place, master)
    return master


def _check_reachable(place: str, master: str) -> None:
    """Checks that one of the masters accepts connections, since Spark itself would retry for a minute."""
    reasons = []
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_S).close()
            return
        except (OSError, OverflowError) as error:
            reasons.append(f"{address}: {getattr(error, 'strerror', None) or error}")
    raise BadInputError(
        f"--on is {place!r} but no Spark master answers there ({'; '.join(reasons)}): check host and port, "
        "and that it is up"
    )


def runs_on_spark(
    place: str,
    plan: Experiment,
    arms: Sequence[SimulatedArm],
    seeds: Sequence[int],
    *,
    keep_tasks: bool,
    progress: Progress,
) -> Iterator[SeedRun]:
    """As `runs_here`, run by run in the same order, each made by a task of its own.

    A task makes its seed's jobs itself: a trace in the workload must be readable at the same path on every
    worker. This package travels with the application; NumPy and pyarrow must be there.

    Raises:
        BadInputError: see `check_place`; or a worker refused the workload.
        SpreadError: Spark did not start, or a run failed.
    """
    master = check_place(place)
    units = [(number, seed) for seed in seeds for number in range(len(arms))]
    whole, chosen = plan, list(arms)

    def work(unit: tuple[int, int]) -> bytes:
        number, seed = unit
        return _packed_run(whole, chosen[number], seed, keep_tasks)

    with _application(place, master, plan.name) as context:
        packed = _collect(context, units, work, progress)
        for (number, seed), data in zip(units, packed, strict=True):
            result, left_out, refused = pickle.loads(zlib.decompress(data))
            if refused is not None:
                raise BadInputError(f"{arms[number].name}, seed {seed}, on a worker of {place}: {refused}")
            yield SeedRun(arms[number], seed, result, left_out)


def _packed_run(plan: Experiment, arm: SimulatedArm, seed: int, keep_tasks: bool) -> bytes:
    left_out: Counter[str] = Counter()
    outcome: tuple[Any, Counter[str], str | None]
    try:
        jobs = plan.jobs(seed, left_out)
        outcome = (plan.run(arm, seed, jobs, keep_tasks=keep_tasks), left_out, None)
    except BadInputError as error:
        outcome = (None, left_out, str(error))
    return zlib.compress(pickle.dumps(outcome), 1)


def _collect(
    context: SparkContext, units: list[tuple[int, int]], work: Any, progress: Progress
) -> list[bytes]:
    """Results in the order of the units; the main thread stays free for Ctrl-C."""
    from pyspark import InheritableThread

    found: list[bytes] = []
    failed: list[BaseException] = []
    group = "simulate"

    def submit() -> None:
        context.setJobGroup(group, f"{len(units)} runs", interruptOnCancel=True)
        try:
            found.extend(context.parallelize(units, len(units)).map(work).collect())
        except BaseException as error:
            failed.append(error)

    thread: threading.Thread = InheritableThread(submit)
    thread.daemon = True
    thread.start()
    tracker = context.statusTracker()
    while thread.is_alive():
        ended = running = 0
        for job in tracker.getJobIdsForGroup(group):
            for stage in getattr(tracker.getJobInfo(job), "stageIds", ()):
                info = tracker.getStageInfo(stage)
                if info is not None:
                    ended, running = ended + info.numCompletedTasks, running + info.numActiveTasks
        progress(f"{running} runs at once", ended, len(units))
        thread.join(_POLL_S)
    if failed:
        raise SpreadError(f"a run failed on Spark: {_last_line(failed[0])}") from failed[0]
    return found


@contextmanager
def _application(place: str, master: str | None, name: str) -> Iterator[SparkContext]:
    """A Spark application with this package on its workers, stopped at the end whatever happens."""
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext

    conf = SparkConf()
    if master is not None:
        conf.setMaster(master)
    conf.setAppName(f"spark-sched simulate: {name}")
    for key, value in (
        ("spark.ui.showConsoleProgress", "false"),
        ("spark.ui.enabled", "false"),
        ("spark.log.level", "ERROR"),
        # The rows of one run may be large, and all of them are needed.
        ("spark.driver.maxResultSize", "0"),
    ):
        conf.setIfMissing(key, value)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with tempfile.TemporaryDirectory(prefix="spark-sched-spread-") as folder:
        with _interrupted_later() as interrupted:
            try:
                context = SparkContext(conf=conf)
            except Exception as error:
                raise SpreadError(f"Spark did not start on {place}: {_last_line(error)}") from error
        try:
            if interrupted.is_set():
                raise KeyboardInterrupt
            context.addPyFile(str(_package(Path(folder))))
            yield context
        finally:
            # Ctrl-C while the driver is being asked something may cost the connection to it. The driver then
            # ends with this process, and the interruption is what there is to say.
            with suppress(Py4JError):
                context.cancelAllJobs()
            context.stop()


@contextmanager
def _interrupted_later() -> Iterator[threading.Event]:
    """Within the block Ctrl-C only sets the event.

    Spark starts over a connection that an exception leaves half read: later calls, including the one that
    stops Spark, would wait for an answer that never comes.
    """
    seen = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield seen
        return
    before = signal.signal(signal.SIGINT, lambda number, frame: seen.set())
    try:
        yield seen
    finally:
        signal.signal(signal.SIGINT, before)


def _package(folder: Path) -> Path:
    """Both packages as an archive that workers import from."""
    archive = folder / "spark_sched.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as target:
        for house in (spark_sched, spark_sched_lab):
            assert house.__file__ is not None
            root = Path(house.__file__).parent
            for path in sorted(root.rglob("*")):
                if path.suffix in (".py", ".json", ".typed") and "jars" not in path.relative_to(root).parts:
                    target.write(path, Path(root.name, path.relative_to(root)))
    return archive


def _last_line(error: BaseException) -> str:
    """The informative line of an error's text: Python's last line, or Java's first."""
    text = str(getattr(error, "java_exception", None) or error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    python = [line for line in lines if _PYTHON_ERROR.match(line)]
    return (python[-1] if python else lines[0] if lines else type(error).__name__)[:300]
