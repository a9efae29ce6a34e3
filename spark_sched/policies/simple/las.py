"""Least attained service first: short jobs win without anybody knowing that they are short."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from spark_sched.policies.base import Capabilities, ChangesWith, PolicySettings, make_plan
from spark_sched.policies.memory import Memory
from spark_sched.policies.options import Options
from spark_sched.policies.plan import Plan
from spark_sched.predict import Forecast
from spark_sched.state import JobView, Snapshot

__all__ = ["LasPolicy"]


@dataclass(frozen=True, slots=True)
class _Service:
    """Slot-ms attained by each job at ``now_ms``, and the slots it ran on then."""

    now_ms: int
    attained: Mapping[str, float]
    slots: Mapping[str, int]


class LasPolicy:
    """Jobs by the slot-milliseconds they have used so far, least first; new ones before all others.

    Service is folded from the snapshots: between two of them a job is taken to keep the slots that it ran
    on at the first, so that it should see what was launched (``ChangesWith.ROUNDS``). A job first seen while
    it runs is credited with its running tasks' ages.
    """

    name = "las"
    capabilities = Capabilities(changes_with=ChangesWith.ROUNDS)
    options = Options()

    def __init__(self, settings: PolicySettings) -> None:
        self._settings = settings
        self._memory: Memory[_Service] = Memory()

    def decide(
        self, snapshot: Snapshot, forecasts: Mapping[str, Forecast], now_ms: int, rng: np.random.Generator
    ) -> Plan:
        before = self._memory.before(snapshot) or _Service(now_ms, {}, {})
        attained = {key: _attained(job, before, now_ms) for key, job in snapshot.jobs.items()}
        slots = {key: job.running_slots for key, job in snapshot.jobs.items()}
        self._memory.keep(_Service(now_ms, attained, slots))
        return make_plan(
            self.name,
            self._settings,
            snapshot,
            now_ms,
            ordered=True,
            rank_by=lambda job: (attained[job.job], job.arrival),
            decide_job=lambda job: (0, None, f"{attained[job.job] / 1000.0:.1f} slot-seconds so far"),
        )


def _attained(job: JobView, before: _Service, now_ms: int) -> float:
    if job.job not in before.attained:
        return float(sum(max(0, now_ms - t.launched_ms) for p in job.stages for t in p.running))
    return before.attained[job.job] + before.slots[job.job] * max(0, now_ms - before.now_ms)
