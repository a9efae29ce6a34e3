"""The design of a demo: sizes, seeds, Spark properties; no effects."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from spark_sched_lab.runs.paired.properties import quiet_application
from spark_sched_lab.runs.workloads.background import BackgroundJob, BatchSize, draw_batch
from spark_sched_lab.runs.workloads.foreground import WORKLOADS, ForegroundSize
from spark_sched_lab.runs.workloads.storage import SlowStorage

SETTINGS = ("alone", "stock", "spark_sched")
PRIORITY = 10
ISOLATION = 1.0
# The foreground's tasks are light-tailed, and a Python task that is killed, such as a losing copy, keeps its
# slot for 2 to 4 s more. The scheduler accounts for this, so few copies or none are expected.
COPIES: Literal["auto", "never"] = "auto"
WORKERS = 2
SLOTS_PER_WORKER = 8
PARALLELISM = 8
# Both applications live on the same workers, each with slots and memory of its own; one is idle while the
# other runs, so they share nothing but the machine.
APPLICATIONS = 2
EXECUTOR_MEMORY_GB = 1


@dataclass(frozen=True)
class DemoSize:
    """Sizes of a demo: reads in seconds, ``passes`` over the input, the batch, and runs per setting.

    The demo studies stage barriers, so a foreground job has many stages of a second or two; a background
    batch has work for somewhat longer than the contended foreground lives.
    """

    runs: int
    min_read_s: float
    max_read_s: float
    passes: int
    batch: BatchSize


_SLOTS = WORKERS * SLOTS_PER_WORKER
QUICK = DemoSize(1, 0.8, 1.2, 6, BatchSize(_SLOTS, work_s=13.0, max_task_s=6.0, backlog_s=8.0))
FULL = DemoSize(5, 1.2, 1.8, 7, BatchSize(_SLOTS, work_s=42.0, max_task_s=12.0, backlog_s=16.0))
# As many tasks as slots, so that every slot of both executors has had its Python worker before a run counts.
WARM_UP = ForegroundSize(SlowStorage(_SLOTS, 0.2, 0.2, seed=0), passes=3)
WARM_UP_JOBS = [BackgroundJob(number, 0.1 * number, (50,) * _SLOTS) for number in range(6)]


@dataclass(frozen=True)
class Pair:
    """One workload run once in every setting, in ``order``, on the same input and the same batch."""

    workload: str
    run: int
    seed: int
    order: tuple[str, ...]
    foreground: ForegroundSize
    background: list[BackgroundJob]


def pairs(size: DemoSize, seed: int, fit: dict[str, Any]) -> list[Pair]:
    """All pairs of a demo, interleaved: run after run, each with every workload; settings in random order."""
    planned = []
    for run in range(size.runs):
        for number, workload in enumerate(WORKLOADS):
            sequence = np.random.SeedSequence([seed, run, number])
            pair_seed = int(sequence.generate_state(1)[0])
            rng = np.random.default_rng(sequence)
            storage = SlowStorage(PARALLELISM, size.min_read_s, size.max_read_s, pair_seed)
            planned.append(
                Pair(
                    workload,
                    run,
                    pair_seed,
                    tuple(str(setting) for setting in rng.permutation(SETTINGS)),
                    ForegroundSize(storage, size.passes),
                    draw_batch(fit, size.batch, rng),
                )
            )
    return planned


def application_properties(cluster: dict[str, str], name: str, directory: Path) -> dict[str, str]:
    """Spark properties common to both applications; ``directory`` holds the pools' file and event logs."""
    return {
        **quiet_application(cluster, f"spark_sched demo: {name}", WORKERS, SLOTS_PER_WORKER),
        "spark.executor.memory": f"{EXECUTOR_MEMORY_GB}g",
        "spark.scheduler.mode": "FAIR",
        "spark.scheduler.allocation.file": (directory / "pools.xml").as_uri(),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": (directory / "event-logs").as_uri(),
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
    }


def method(size: DemoSize, note: str) -> list[str]:
    """How the demo measures, in sentences for its reports."""
    machines = (
        f"A standalone master and {WORKERS} workers of {SLOTS_PER_WORKER} slots on this machine; foreground "
        f"jobs use {PARALLELISM} slots. One application per scheduler stays warm and is idle while the other "
        "runs; alone and stock share one."
    )
    foreground = (
        f"A foreground job reads its input {size.passes} times; a read takes {size.min_read_s:g} to "
        f"{size.max_read_s:g} s, dealt to the partitions by the pair's seed. KMeans and SVM are MLlib's, "
        "PageRank is RDD code. Copies are allowed, as by default; they have a benchmark of their own."
    )
    background = (
        "Background jobs are drawn from distributions fitted to the Google 2011 trace, durations divided by "
        f"10; tasks above {size.batch.max_task_s:g} s are drawn again, a job has at most "
        f"{size.batch.slots} tasks, and a batch has {size.batch.work_s:g} s of work for all slots, "
        f"{size.batch.backlog_s:g} s of it queued at the start."
    )
    makespan = (
        "The batch arrives when the foreground's first stage is running and always runs to its end; its "
        "makespan counts from its arrival. Both contended settings get the same batch."
    )
    lines = [machines, foreground, background, makespan]
    return [*lines, note] if note else lines
