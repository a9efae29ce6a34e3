"""LAS in GS's queues: a job sinks from queue to queue as it gets service (SLearn §5.1.3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from spark_sched.policies.base import Capabilities, ChangesWith, PolicySettings, dated_plan
from spark_sched.policies.memory import Memory
from spark_sched.policies.options import Options
from spark_sched.policies.plan import JobPlan, Plan
from spark_sched.policies.slearn.queues import FIRST_QUEUE, Queues
from spark_sched.predict import Forecast
from spark_sched.predict.tasks.pilots import TaskForecast
from spark_sched.state import JobView, Snapshot

__all__ = ["GsLasPolicy"]

#: Plans because of service are at least so far apart.
_GRAIN_MS = 3_000
#: A job may run this share of its tasks before anybody looks again: one in so many.
_SOON = 4


@dataclass(frozen=True, slots=True)
class _Service:
    """Slot-ms of each job's attempts that are over, where only snapshots tell: folded as `las` does."""

    now_ms: int
    attained: Mapping[str, float]
    slots: Mapping[str, int]


class GsLasPolicy:
    """Queues by the slot-milliseconds attained so far, FIFO within them, weighted shares between."""

    name = "gs-las"
    capabilities = Capabilities(changes_with=ChangesWith.STAGES, task_times=True)
    options = Options((FIRST_QUEUE,))

    def __init__(self, settings: PolicySettings, queues: Queues | None = None) -> None:
        self._settings = settings
        self._queues = Queues(first_ms=settings.options[FIRST_QUEUE]) if queues is None else queues
        self._memory: Memory[_Service] = Memory()

    def decide(
        self, snapshot: Snapshot, forecasts: Mapping[str, Forecast], now_ms: int, rng: np.random.Generator
    ) -> Plan:
        before = self._memory.before(snapshot) or _Service(now_ms, {}, {})
        slots = {key: job.running_slots for key, job in snapshot.jobs.items()}
        attained = {
            key: _attained(job, forecasts.get(key), before, now_ms) for key, job in snapshot.jobs.items()
        }
        self._memory.keep(_Service(now_ms, attained, slots))
        queues = {key: self._queues.of(service) for key, service in attained.items()}
        running = [0] * self._queues.count
        for key, count in slots.items():
            running[queues[key]] += count
        turn = {queue: at for at, queue in enumerate(self._queues.in_turn(running))}
        ranked = sorted(snapshot.jobs.values(), key=lambda job: (turn[queues[job.job]], job.arrival))
        again_ms: int | None = None
        for job in ranked:
            left = self._queues.threshold_ms(queues[job.job]) - attained[job.job]
            width = sum(stage.tasks - stage.finished for stage in job.stages)
            slots_soon = max(float(job.running_slots), width / _SOON)
            if slots_soon and left < float("inf"):
                at_ms = now_ms + max(_GRAIN_MS, int(left / slots_soon) + 1)
                again_ms = at_ms if again_ms is None else min(again_ms, at_ms)
        entries = [
            JobPlan(
                job.job,
                rank,
                0,
                None,
                f"queue {queues[job.job]}: {attained[job.job] / 1000.0:.1f} slot-seconds so far",
                queue=queues[job.job],
            )
            for rank, job in enumerate(ranked)
        ]
        return dated_plan(
            self.name,
            self._settings,
            snapshot,
            now_ms,
            entries,
            again_ms=again_ms,
            queue_weights=self._queues.weights,
        )


def _attained(job: JobView, forecast: Forecast | None, before: _Service, now_ms: int) -> float:
    if isinstance(forecast, TaskForecast):
        runs = sum(now_ms - task.launched_ms for stage in job.stages for task in stage.running)
        return forecast.attained_ms + max(0, runs)
    if job.job not in before.attained:
        return float(sum(max(0, now_ms - t.launched_ms) for p in job.stages for t in p.running))
    return before.attained[job.job] + before.slots[job.job] * max(0, now_ms - before.now_ms)
