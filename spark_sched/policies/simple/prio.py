"""3Sigma's baseline without runtimes (table 1, Prio): jobs with a deadline strictly before all others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from spark_sched.policies.base import Capabilities, ChangesWith, PolicySettings, make_plan
from spark_sched.policies.options import Options
from spark_sched.policies.plan import Plan
from spark_sched.predict import Forecast
from spark_sched.state import JobView, Snapshot

__all__ = ["PrioPolicy"]


class PrioPolicy:
    """SLO jobs in order of arrival, then best-effort jobs in order of arrival, as in schedulers like Borg.

    A waiting SLO job that does not fit gets the slots of best-effort jobs, the latest started first; they
    lose their work and wait again. Those that the driver would not evict go on. Deadlines beyond having one
    and runtimes are not looked at.
    """

    name = "prio"
    capabilities = Capabilities(changes_with=ChangesWith.STAGES, preempts=True)
    options = Options()

    def __init__(self, settings: PolicySettings) -> None:
        self._settings = settings

    def decide(
        self,
        snapshot: Snapshot,
        forecasts: Mapping[str, Forecast],
        now_ms: int,
        rng: np.random.Generator,
        memory: None,
    ) -> tuple[Plan, None]:
        victims = _victims(snapshot)

        def reason(job: JobView) -> str:
            if job.job in victims:
                return "evicted for a job with a deadline"
            return "best effort" if job.deadline_ms is None else "has a deadline"

        plan = make_plan(
            self.name,
            self._settings,
            snapshot,
            now_ms,
            ordered=True,
            rank_by=lambda job: (job.deadline_ms is None, job.arrival),
            decide_job=lambda job: (int(job.deadline_ms is not None), None, reason(job)),
        )
        if not victims:
            return plan, None
        return replace(plan, jobs=tuple(replace(job, evict=job.job in victims) for job in plan.jobs)), None


def _victims(snapshot: Snapshot) -> set[str]:
    """Best-effort jobs whose slots waiting SLO jobs need, and that suffice for them."""
    free = sum(
        executor.slots - executor.running_slots - executor.held_slots
        for executor in snapshot.executors.values()
    )
    jobs = snapshot.jobs.values()
    evictable = [job for job in jobs if job.deadline_ms is None and job.running_slots and job.evictable]
    # The latest started loses least; arrival decides between those of one moment.
    evictable.sort(key=lambda job: (_begun_ms(job), job.arrival))
    victims: set[str] = set()
    for job in sorted(jobs, key=lambda job: job.arrival):
        if job.deadline_ms is None:
            continue
        for stage in job.stages:
            need = stage.tasks - stage.finished - len({task.index for task in stage.running})
            if need <= 0:
                continue
            found, count = free, 0
            while found < need and count < len(evictable):
                count += 1
                found += evictable[-count].running_slots
            if found < need and stage.barrier:
                continue  # it cannot start whole: nobody is evicted in vain
            victims |= {victim.job for victim in evictable[len(evictable) - count :]}
            del evictable[len(evictable) - count :]
            free = max(0, found - need)
    return victims


def _begun_ms(job: JobView) -> int:
    return max((task.launched_ms for stage in job.stages for task in stage.running), default=0)
