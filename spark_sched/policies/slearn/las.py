"""LAS in GS's queues: a job moves to later queues as it attains service (SLearn §5.1.3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from spark_sched.policies.base import Capabilities, ChangesWith, PolicySettings, dated_plan
from spark_sched.policies.options import Options
from spark_sched.policies.service import Service, running_ms
from spark_sched.policies.slearn.queues import FIRST_QUEUE, AdaptedQueues
from spark_sched.predict import Forecast
from spark_sched.predict.tasks.pilots import TaskForecast
from spark_sched.protocol.plan import JobPlan, Plan
from spark_sched.state import JobView, Snapshot

#: Shortest time between two plans that attained service triggers.
_GRAIN_MS = 3_000
#: The time of the next plan assumes that at least one in this number of a job's open tasks runs until then.
_SOON = 4
#: After so long without a running task, and with the same stages, a plan waits for the next event. This is
#: longer than tasks wait for a node with their input.
_IDLE_MS = 60_000


@dataclass(frozen=True, slots=True)
class LasMemory:
    """What the next plan needs of the last one.

    Attributes:
        waiting: active stages as (job, index), if no task ran; empty: some did.
        since_ms: since when that has been so.
        adapted: the queues; None: those before any job has ended.
    """

    service: Service = field(default_factory=Service)
    waiting: frozenset[tuple[str, int]] = frozenset()
    since_ms: int = 0
    adapted: AdaptedQueues | None = None

    def after(self, snapshot: Snapshot, now_ms: int, attained_ms: Mapping[str, float]) -> LasMemory:
        service = Service.of(snapshot, now_ms, attained_ms)
        if any(job.running_slots for job in snapshot.jobs.values()):
            return LasMemory(service)
        waiting = frozenset((key, stage.index) for key, job in snapshot.jobs.items() for stage in job.stages)
        same = waiting == self.waiting and attained_ms == self.service.attained_ms
        return LasMemory(service, waiting, self.since_ms if same else now_ms)


class GsLasPolicy:
    """Queues by the slot-milliseconds attained so far, FIFO within them, weighted shares between."""

    name = "gs-las"
    capabilities = Capabilities(changes_with=ChangesWith.STAGES, task_times=True, marks=frozenset())
    options = Options((FIRST_QUEUE,))

    def __init__(self, settings: PolicySettings) -> None:
        self._settings = settings
        self._adapted = AdaptedQueues.of(settings.options)

    def decide(
        self,
        snapshot: Snapshot,
        forecasts: Mapping[str, Forecast],
        now_ms: int,
        rng: np.random.Generator,
        memory: LasMemory | None,
    ) -> tuple[Plan, LasMemory]:
        last = memory or LasMemory()
        adapted = (last.adapted or self._adapted).after(_ended_ms(last.service, snapshot))
        queues_of = adapted.queues
        attained = {
            key: _attained_ms(job, forecasts.get(key), last.service, now_ms)
            for key, job in snapshot.jobs.items()
        }
        queues = {key: queues_of.of(service) for key, service in attained.items()}
        ranked = queues_of.ranked(snapshot.jobs.values(), queues)
        next_memory = replace(last.after(snapshot, now_ms, attained), adapted=adapted)
        again_ms: int | None = None
        # Stages that fit nowhere never attain service: plans for them alone would repeat forever.
        stuck = bool(next_memory.waiting) and now_ms - next_memory.since_ms >= _IDLE_MS
        for job in () if stuck else ranked:
            left = queues_of.threshold_ms(queues[job.job]) - attained[job.job]
            width = sum(stage.open_slots for stage in job.stages)
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
                f"queue {queues[job.job]}: {attained[job.job] / 1000.0:.1f} slot-seconds so far"
                f"{adapted.reason}",
                queue=queues[job.job],
            )
            for rank, job in enumerate(ranked)
        ]
        plan = dated_plan(
            self.name,
            self._settings,
            snapshot,
            now_ms,
            entries,
            again_ms=again_ms,
            queue_weights=queues_of.weights,
        )
        return plan, next_memory


def _ended_ms(before: Service, snapshot: Snapshot) -> list[float]:
    """Slot times of the jobs that ended since the last plan, as far as they are known."""
    ended = (snapshot.ended.get(key) for key in before.attained_ms if key not in snapshot.jobs)
    return [each.attained_ms for each in ended if each is not None and each.attained_ms]


def _attained_ms(job: JobView, forecast: Forecast | None, before: Service, now_ms: int) -> float:
    if isinstance(forecast, TaskForecast):
        return forecast.attained_ms + running_ms(job, now_ms)
    return before.at(job, now_ms)
