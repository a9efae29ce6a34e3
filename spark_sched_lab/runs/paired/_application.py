"""One Spark application of an experiment, driven over a pipe: `application` starts it.

A process can hold one Spark application, so each setting of an experiment gets a process that keeps its
application warm between runs. Commands come as JSON lines on standard input, reports go as JSON lines to the
original standard output; whatever Spark prints goes to standard error. End of file ends the process at once,
whatever it is doing, and its driver JVM with it: an experiment that is killed leaves nothing behind.

Commands::

    {"command": "start", "properties": {...}}
    {"command": "run", "workload": "kmeans", "parameters": {...}, "seed": int, "mark": {...} | null,
     "pool": str | null,
     "background": [[arrival_s, [ms, …]], …] | null}
    {"command": "stages", "jobs": [{"pool": str | null, "mark": {...} | null, "delay_s": float,
     "sql_rows": int, "stages": [[[first attempts' ms], [copies' ms]], …]}, …]}
    {"command": "suite", "in_sequence": bool, "jobs": [{"workload": str, "parameters": {...}, "seed": int,
     "arrival_s": float, "after": bool, "mark": {...} | null, "pool": str | null}, …]}
    {"command": "empty_tasks", "tasks": int, "mark": {...} | null, "pilots": int}
    {"command": "stop"}

Reports: ``{"report": "ready" | "progress" | "result" | "stopped" | "error", …}``.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TextIO

from spark_sched.api.attached import scheduler_of
from spark_sched.policies import JobPlan, PilotSet, Plan
from spark_sched_lab.runs.workloads.background import BackgroundJob
from spark_sched_lab.runs.workloads.programs import PROGRAMS
from spark_sched_lab.runs.workloads.submit import BackgroundRun, SuiteRun
from spark_sched_lab.runs.workloads.synthetic import run_empty_tasks, run_query, run_stages

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PROGRESS_EVERY_S = 0.5
_START_LIMIT_S = 10.0
_WAKE_S = 0.3
FOREGROUND_GROUP = "foreground"


def _processor_s() -> float:
    """Processor time so far of the driver's JVM and of what it started: the planner."""
    import psutil

    used_s = 0.0
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            used_s += times.user + times.system
    return used_s


class _Application:
    def __init__(self, reports: TextIO) -> None:
        self._reports = reports
        self._lock = threading.Lock()
        self._spark: SparkSession | None = None
        self._plans = 0

    def report(self, kind: str, **fields: Any) -> None:
        with self._lock:
            self._reports.write(json.dumps({"report": kind, **fields}) + "\n")
            self._reports.flush()

    def start(self, command: dict[str, Any]) -> None:
        from pyspark.sql import SparkSession

        builder = SparkSession.builder
        for key, value in command["properties"].items():
            builder = builder.config(key, value)
        self._spark = builder.getOrCreate()
        self._spark.sparkContext.setLogLevel("ERROR")
        self.report("ready", application=self._spark.sparkContext.applicationId)

    @property
    def _session(self) -> SparkSession:
        assert self._spark is not None, "start comes first"
        return self._spark

    def run(self, command: dict[str, Any]) -> None:
        spark = self._session
        outcome: dict[str, Any] = {}
        _wake_workers(spark)
        foreground = self._foreground(spark, command, outcome)
        background = _background(spark, command)
        counters_before = _counters(spark)
        started_s = time.time()
        foreground.start()
        # 1. The foreground's first stage is running before the background arrives: the experiment
        #    measures whether a job keeps its slots at barriers, not how long it waits for its first slots.
        _await_tasks(spark, foreground)
        if background is not None:
            background.start()
        # 2. The foreground's end is its JCT; the background runs on, to the end of its last job.
        jobs = len(command["background"] or ())
        while foreground.is_alive():
            foreground.join(_PROGRESS_EVERY_S)
            self.report("progress", done=background.done if background else 0, jobs=jobs, foreground=True)
        if "error" in outcome:
            if background is not None:
                background.cancel()
            self.report("error", sentence=outcome["error"])
            return
        done_at_end = background.done if background else 0
        counters = {k: v - counters_before.get(k, 0) for k, v in _counters(spark).items()}
        makespan_s = None
        if background is not None:
            while background.done < jobs:
                time.sleep(_PROGRESS_EVERY_S)
                self.report("progress", done=background.done, jobs=jobs, foreground=False)
            makespan_s = background.makespan_s()
            if background.failures:
                self.report("error", sentence=f"background {background.failures[0]}")
                return
        self.report(
            "result",
            jct_s=outcome["jct_s"],
            values=outcome["values"],
            started_ms=int(started_s * 1000),
            ended_ms=int(time.time() * 1000),
            background_makespan_s=makespan_s,
            background_jct_s=background.mean_jct_s if background is not None else None,
            background_jobs_done_at_foreground_end=done_at_end,
            counters=counters,
        )

    def stages(self, command: dict[str, Any]) -> None:
        from pyspark import InheritableThread

        spark = self._session
        jobs = command["jobs"]
        times_s: list[float] = [0.0] * len(jobs)
        failures: list[str] = []
        before = _counters(spark)

        def work(number: int) -> None:
            job = jobs[number]
            time.sleep(job["delay_s"])
            spark.sparkContext.setLocalProperty("spark.scheduler.pool", job["pool"])
            # From the second job on, jobs are named as background; timelines distinguish jobs by this name.
            spark.sparkContext.setJobGroup(FOREGROUND_GROUP if number == 0 else f"background-{number}", "")
            try:
                with _mark(spark, job):
                    if job["sql_rows"]:
                        times_s[number] = run_query(spark, job["sql_rows"], len(job["stages"][0][0]))
                    else:
                        times_s[number] = run_stages(spark, job["stages"])
            except Exception as error:
                failures.append(str(error).splitlines()[0])

        threads = [InheritableThread(work, args=(number,)) for number in range(len(jobs))]
        started_s = time.time()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            self.report("error", sentence=failures[0])
            return
        counters = {k: v - before.get(k, 0) for k, v in _counters(spark).items()}
        self.report("result", jct_s=times_s, started_ms=int(started_s * 1000), counters=counters)

    def suite(self, command: dict[str, Any]) -> None:
        run = SuiteRun(self._session, command["jobs"], in_sequence=command["in_sequence"])
        run.start()
        while not run.wait(_PROGRESS_EVERY_S):
            self.report("progress", done=run.done, jobs=len(command["jobs"]), foreground=False)
        self.report("result", jobs=run.results)

    def empty_tasks(self, command: dict[str, Any]) -> None:
        spark = self._session
        with _mark(spark, command) as job_id:
            if command["pilots"]:
                self._name_pilots(spark, f"mark-{job_id}", command["tasks"], command["pilots"])
            before_s = _processor_s()
            taken_s = run_empty_tasks(spark, command["tasks"])
            processor_s = _processor_s() - before_s
        self.report("result", taken_s=taken_s, processor_s=processor_s)

    def _name_pilots(self, spark: SparkSession, job: str, tasks: int, pilots: int) -> None:
        self._plans += 1
        chosen = sorted(random.Random(self._plans).sample(range(tasks), pilots))
        entry = JobPlan(job, 0, 10, None, "a benchmark", pilots=PilotSet(0, tuple(chosen)))
        now_ms = int(time.time() * 1000)
        plan = Plan(0, now_ms, 3_600_000, "benchmark", True, (entry,), self._plans, new_jobs_wait=True)
        java: Any = spark.sparkContext._jsc
        answer = java.sc().taskScheduler().planOffered(plan.to_text())
        if answer != "accepted":
            raise RuntimeError(f"the plan was {answer}")

    def stop(self) -> None:
        if self._spark is not None:
            self._spark.stop()
        self.report("stopped")

    def _foreground(
        self, spark: SparkSession, command: dict[str, Any], outcome: dict[str, Any]
    ) -> threading.Thread:
        from pyspark import InheritableThread

        program = PROGRAMS[command["workload"]]
        program.prepare()
        sc = spark.sparkContext

        def work() -> None:
            sc.setLocalProperty("spark.scheduler.pool", command["pool"])
            sc.setJobGroup(FOREGROUND_GROUP, f"foreground {command['workload']}", interruptOnCancel=True)
            begin_s = time.monotonic()
            try:
                with _mark(spark, command):
                    outcome["values"] = program.run(spark, command["parameters"], command["seed"])
                outcome["jct_s"] = time.monotonic() - begin_s
            except Exception as error:
                outcome["error"] = f"foreground {command['workload']}: {str(error).splitlines()[0]}"

        thread: threading.Thread = InheritableThread(work)
        thread.daemon = True
        return thread


def _mark(spark: SparkSession, command: dict[str, Any]) -> contextlib.AbstractContextManager[Any]:
    if command["mark"] is None:
        return contextlib.nullcontext()
    import spark_sched

    mark: contextlib.AbstractContextManager[Any] = spark_sched.job(spark, **command["mark"])
    return mark


def _background(spark: SparkSession, command: dict[str, Any]) -> BackgroundRun | None:
    if command["background"] is None:
        return None
    rows = enumerate(command["background"])
    jobs = [BackgroundJob(number, arrival_s, tuple(ms)) for number, (arrival_s, ms) in rows]
    return BackgroundRun(spark, jobs)


def _wake_workers(spark: SparkSession) -> None:
    """Have a warm Python worker for every slot: Spark ends them after a minute of idleness.

    Which setting runs after a long pause is random; the seconds that workers take to start must not count in
    its JCT.
    """
    sc = spark.sparkContext
    slots = sc.defaultParallelism

    def wait(_: Iterable[int]) -> Iterator[int]:
        time.sleep(_WAKE_S)  # long enough for every slot to get one of these tasks
        return iter(())

    sc.setJobGroup("wake", "wake the Python workers")
    sc.parallelize(range(slots), slots).mapPartitions(wait).count()


def _await_tasks(spark: SparkSession, foreground: threading.Thread) -> None:
    """Wait until the foreground's first tasks run.

    One that is seen to run is enough: on free slots a stage is launched as a whole, and Spark's status
    tracker, which updates in steps, may never show the full number.
    """
    tracker = spark.sparkContext.statusTracker()
    deadline_s = time.monotonic() + _START_LIMIT_S
    while foreground.is_alive() and time.monotonic() < deadline_s:
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        if any(stage.numActiveTasks for stage in stages if stage is not None):
            return
        time.sleep(0.02)


def _counters(spark: SparkSession) -> dict[str, float]:
    """The scheduler's counters; empty under the stock scheduler."""
    scheduler = scheduler_of(spark.sparkContext)
    if scheduler is None:
        return {}
    jvm_context: Any = spark.sparkContext._jsc
    numbers: dict[str, float] = json.loads(scheduler.counters(jvm_context.sc()))
    return numbers


def _main() -> None:
    # Spark, its JVM and its workers inherit descriptor 1: keep the report pipe to ourselves.
    reports = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    arm = _Application(reports)
    does: dict[str, Callable[[dict[str, Any]], None]] = {
        each.__name__: each for each in (arm.start, arm.run, arm.stages, arm.suite, arm.empty_tasks)
    }
    lines: list[str] = []
    ready = threading.Condition()

    def listen() -> None:
        for line in sys.stdin:
            with ready:
                lines.append(line)
                ready.notify()
        os._exit(1)  # the experiment has ended; the driver JVM then sees the end of its own input

    threading.Thread(target=listen, daemon=True).start()
    while True:
        with ready:
            while not lines:
                ready.wait()
            command = json.loads(lines.pop(0))
        try:
            if command["command"] == "stop":
                arm.stop()
                os._exit(0)
            does[command["command"]](command)
        except Exception as error:
            arm.report("error", sentence=f"{type(error).__name__}: {str(error).splitlines()[0]}")


if __name__ == "__main__":
    _main()
