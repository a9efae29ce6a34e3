"""Runtime partitioning (arXiv 2510.15485): stages of long tasks get more and shorter ones.

A slot is free again only when its task has ended, so a job that comes behind long tasks waits for them under
any policy that does not evict. The paper divides a stage's forecast work by an advisory runtime of tasks, and
reads its input in as many parts. Here that is a transformation of the workload.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from spark_sched_lab.engine.workload import JobSpec, StageSpec

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class RuntimePartitioning:
    """Each task of a stage becomes equally many tasks, so that they run for about ``task_ms`` on average.

    The forecast of the mean is exact. A split follows from a number of bytes, which is one for the whole
    stage: a task that is longer than the others is still longer afterwards. A gang stays as it is, because
    its program counts its tasks.

    Attributes:
        task_ms: advisory runtime of a task. Stages whose tasks are shorter on average stay as they are.
        overhead_ms: what each task of a stage that is split costs beside its part of the work.
        most_tasks: no stage is split into more tasks.
    """

    task_ms: int
    overhead_ms: int = 0
    most_tasks: int = 10_000

    def jobs(self, jobs: Iterable[JobSpec]) -> Iterator[JobSpec]:
        """The jobs with the stages that they have then."""
        return map(self.job, jobs)

    def job(self, job: JobSpec) -> JobSpec:
        """The job and those that follow it."""
        then = tuple(each._replace(job=self.job(each.job)) for each in job.then)
        return replace(job, stages=tuple(map(self.stage, job.stages)), then=then)

    def stage(self, stage: StageSpec) -> StageSpec:
        parts = self._parts(stage)
        if parts == 1:
            return stage
        delay = stage.delay
        return replace(
            stage,
            durations_ms=[part for took_ms in stage.durations_ms for part in self._split(took_ms, parts)],
            # How long a copy of such a part would have run was not drawn or recorded.
            copy_duration_ms=None,
            copies_ms={},
            memory=_repeated(stage.memory, parts),
            near=_repeated(stage.near, parts),
            seen_on=_repeated(stage.seen_on, parts),
            delay=delay and replace(delay, cached=_repeated(delay.cached, parts)),
        )

    def _parts(self, stage: StageSpec) -> int:
        if stage.gang:
            return 1
        parts = math.ceil(sum(stage.durations_ms) / stage.tasks / self.task_ms)
        return max(1, min(parts, self.most_tasks // stage.tasks))

    def _split(self, took_ms: int, parts: int) -> list[int]:
        each, longer = divmod(took_ms, parts)
        return [max(1, each + (part < longer)) + self.overhead_ms for part in range(parts)]


def _repeated(values: Iterable[_T], times: int) -> tuple[_T, ...]:
    return tuple(value for value in values for _ in range(times))
