"""All running attempts of a snapshot as columns: what they are as victims, and which may be evicted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain

import numpy as np

from spark_sched.arrays import Bools, Floats, Ints
from spark_sched.policies.eviction.candidates import Candidates
from spark_sched.policies.eviction.remaining import remaining_ms
from spark_sched.predict import UNKNOWN, Forecast
from spark_sched.predict.tasks.pilots import TaskForecast
from spark_sched.state import Snapshot


@dataclass(frozen=True, slots=True, eq=False)
class Running:
    """``restartable``: whether the driver would evict an attempt; ``evictions``: of its task so far."""

    attempts: Candidates
    launched_ms: Ints
    evictions: Ints
    restartable: Bools

    @property
    def remaining_slots_ms(self) -> Floats:
        """Expected remaining times, one for each slot that an attempt takes."""
        return np.repeat(self.attempts.remaining_ms, self.attempts.slots)


def running_attempts(snapshot: Snapshot, forecasts: Mapping[str, Forecast], now_ms: int) -> Running:
    """The attempts, in the order of jobs and stages."""
    # 1. Stages with running attempts.
    jobs = list(snapshot.jobs)
    stages = [
        (number, job, stage)
        for number, job in enumerate(snapshot.jobs.values())
        for stage in job.stages
        if stage.running
    ]
    tasks = list(chain.from_iterable(stage.running for _, _, stage in stages))
    counts = np.array([len(stage.running) for _, _, stage in stages], np.int64)

    def each(values: Iterable[int]) -> Ints:
        """A value of each stage for each of its attempts."""
        return np.repeat(np.array(list(values), np.int64), counts)

    # 2. Columns of attempts.
    executors, named = list(snapshot.executors), [task.executor for task in tasks]
    if not snapshot.executors.keys() >= set(named):
        # Tasks still run on executors that leave and have no slots any more.
        executors = list(dict.fromkeys([*executors, *named]))
    executor_at = {executor: at for at, executor in enumerate(executors)}
    launched_ms = np.fromiter([task.launched_ms for task in tasks], np.int64, len(tasks))
    elapsed_ms = np.maximum(0, now_ms - launched_ms).astype(np.float64)
    executor = np.fromiter(map(executor_at.__getitem__, named), np.int64, len(tasks))
    attempts = Candidates(
        jobs=jobs,
        executors=executors,
        task=np.fromiter([task.task for task in tasks], np.int64, len(tasks)),
        job=each(number for number, _, _ in stages),
        priority=each(job.marks.priority for _, job, _ in stages),
        executor=executor,
        slots=each(stage.slots_per_task for _, _, stage in stages),
        elapsed_ms=elapsed_ms,
        remaining_ms=remaining_ms(
            [(forecasts.get(job.job, UNKNOWN), stage.index) for _, job, stage in stages], counts, elapsed_ms
        ),
        slowness=_slowness(
            [forecasts.get(job.job, UNKNOWN) for _, job, _ in stages], counts, executors, executor
        ),
    )
    return Running(
        attempts,
        launched_ms,
        np.fromiter([task.evictions for task in tasks], np.int64, len(tasks)),
        # Their slots are no use to others.
        each(stage.restartable for _, _, stage in stages).astype(np.bool_)
        & (executor < len(snapshot.executors)),
    )


def _slowness(forecasts: list[Forecast], counts: Ints, executors: list[str], executor: Ints) -> Floats:
    """Of the executor of each attempt, by the forecast of the attempt's job."""
    rows: dict[int, int] = {}
    tables = [np.ones(len(executors))]
    row = np.zeros(len(forecasts), np.int64)
    for at, forecast in enumerate(forecasts):
        known = forecast.slowness if isinstance(forecast, TaskForecast) else None
        if known:
            if id(known) not in rows:
                rows[id(known)] = len(tables)
                tables.append(np.array([known.get(each, 1.0) for each in executors]))
            row[at] = rows[id(known)]
    return np.asarray(np.stack(tables)[np.repeat(row, counts), executor])
