"""Measures of a run, integrated over the snapshots in which it is active.

Between two snapshots a run is assumed to stay as the first of them showed it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Protocol

from spark_sched.state import EndedJob, JobView, StageView


class Measure(Protocol):
    """One run so far; a value."""

    def at(self, job: JobView, now_ms: int, slots: int) -> Measure:
        """The measure after a further snapshot; ``slots`` is the number of slots of the cluster."""
        ...

    def value(self, ended: EndedJob) -> float | None:
        """The value of the whole run; None if too little of it was observed."""
        ...


@dataclass(frozen=True, slots=True)
class HeldIdle:
    """The share of a run's slot time in which its slots were held idle.

    Attributes:
        now_ms: time of the last snapshot; None: there was none.
        held_slots: held at that time.
        held_ms: slot time held idle until then.
    """

    now_ms: int | None = None
    held_slots: int = 0
    held_ms: float = 0.0

    def at(self, job: JobView, now_ms: int, slots: int) -> HeldIdle:
        return HeldIdle(now_ms, job.held_slots, self._held_ms(now_ms))

    def value(self, ended: EndedJob) -> float | None:
        held_ms = self._held_ms(ended.ended_ms)
        if ended.attained_ms is None or held_ms + ended.attained_ms <= 0.0:
            return None
        return held_ms / (held_ms + ended.attained_ms)

    def _held_ms(self, now_ms: int) -> float:
        since_ms = 0 if self.now_ms is None else max(0, now_ms - self.now_ms)
        return self.held_ms + self.held_slots * since_ms


@dataclass(frozen=True, slots=True)
class _MeasuredStage:
    """An active stage so far.

    Attributes:
        started_ms: when its tasks could start.
        work_ms: slot time of its tasks, without copies.
        longest_ms: age of its longest attempt.
        running: tasks that ran at the last snapshot.
        oldest_ms: launch of the oldest of these; None: none ran.
        slots_per_task: what each of them takes.
    """

    started_ms: int
    work_ms: float
    longest_ms: int
    running: int
    oldest_ms: int | None
    slots_per_task: int

    def until(self, now_ms: int, since_ms: int) -> _MeasuredStage:
        """The same after a time in which nothing changed."""
        work_ms = self.work_ms + self.running * self.slots_per_task * since_ms
        longest_ms = (
            self.longest_ms if self.oldest_ms is None else max(self.longest_ms, now_ms - self.oldest_ms)
        )
        return replace(self, work_ms=work_ms, longest_ms=longest_ms)

    def seen(self, stage: StageView) -> _MeasuredStage:
        """The same as the snapshot shows it."""
        running = {task.index for task in stage.running}
        oldest_ms = min((task.launched_ms for task in stage.running), default=None)
        # Tasks too short to be reported one by one are summarised by the geometric mean of their times.
        durations = stage.durations
        typical_ms = math.exp(durations.sum_log_ms / durations.count) if durations.count else 0.0
        ended_ms = durations.count * stage.slots_per_task * typical_ms
        return replace(
            self,
            work_ms=max(self.work_ms, ended_ms),
            longest_ms=max(self.longest_ms, round(typical_ms)),
            running=len(running),
            oldest_ms=oldest_ms,
        )


@dataclass(frozen=True, slots=True)
class Slowdown:
    """How much longer a run took than it would have taken alone.

    Alone, a stage takes the time of its longest task, or its work over all slots of the cluster, if that is
    longer. The time with active stages shrinks as the sum of stage times does; pauses between stages stay.

    Attributes:
        started_ms: when the run started; None before the first snapshot.
        now_ms: time of the last snapshot.
        slots: the cluster's at that time.
        stages: those active then.
        busy_ms: time with active stages.
        took_ms, alone_ms: sums over stages that ended: their times, and the same alone.
    """

    started_ms: int | None = None
    now_ms: int = 0
    slots: int = 1
    stages: Mapping[str, _MeasuredStage] = field(default_factory=lambda: MappingProxyType({}))
    busy_ms: int = 0
    took_ms: float = 0.0
    alone_ms: float = 0.0

    def at(self, job: JobView, now_ms: int, slots: int) -> Slowdown:
        until = self._until(now_ms, {stage.stage for stage in job.stages})
        stages = {}
        for stage in job.stages:
            begun = until.stages.get(stage.stage)
            if begun is None:
                begun = _MeasuredStage(stage.started_ms, 0.0, 0, 0, None, stage.slots_per_task)
            stages[stage.stage] = begun.seen(stage)
        return replace(
            until,
            started_ms=job.started_ms if self.started_ms is None else self.started_ms,
            slots=max(1, slots),
            stages=MappingProxyType(stages),
        )

    def value(self, ended: EndedJob) -> float | None:
        whole = self._until(ended.ended_ms, set())
        if ended.attained_ms is None or whole.started_ms is None or whole.alone_ms <= 0.0:
            return None
        elapsed_ms = max(1, ended.ended_ms - whole.started_ms)
        waited_ms = whole.busy_ms * max(0.0, 1.0 - whole.alone_ms / whole.took_ms)
        return elapsed_ms / max(1.0, elapsed_ms - waited_ms)

    def _until(self, now_ms: int, still: set[str]) -> Slowdown:
        """The same at a time when only the stages ``still`` are active."""
        since_ms = 0 if self.started_ms is None else max(0, now_ms - self.now_ms)
        stages = {key: stage.until(now_ms, since_ms) for key, stage in self.stages.items()}
        took_ms, alone_ms = self.took_ms, self.alone_ms
        for key, stage in stages.items():
            if key not in still:
                took = max(0, now_ms - stage.started_ms)
                took_ms += took
                alone_ms += min(took, max(stage.longest_ms, stage.work_ms / self.slots))
        return replace(
            self,
            now_ms=now_ms,
            stages={key: stage for key, stage in stages.items() if key in still},
            busy_ms=self.busy_ms + (since_ms if self.stages else 0),
            took_ms=took_ms,
            alone_ms=alone_ms,
        )
