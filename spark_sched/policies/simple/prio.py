"""3Sigma's baseline without runtimes (table 1, Prio): jobs with a deadline strictly before all others."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from spark_sched.policies.base import Capabilities, ChangesWith, PolicySettings, make_plan
from spark_sched.policies.options import Options
from spark_sched.predict import Forecast
from spark_sched.protocol.plan import JobPlan, Plan
from spark_sched.state import JobView, Snapshot

#: How long slots are kept for a stage that starts no further task. After that the stage cannot use them for
#: an unknown reason (such as a profile that no executor has), and evictions for it are useless.
_PATIENCE_MS = 60_000

#: Job and index of a stage.
_Key: TypeAlias = tuple[str, int]


@dataclass(frozen=True, slots=True)
class _Kept:
    """A stage for which jobs were evicted: its number of waiting tasks, and since when it has that number."""

    tasks: int
    since_ms: int

    def patient(self, now_ms: int) -> bool:
        return now_ms < self.since_ms + _PATIENCE_MS


_Memory: TypeAlias = Mapping[_Key, _Kept]
_NOTHING: _Memory = MappingProxyType({})


class PrioPolicy:
    """SLO jobs in order of arrival, then best-effort jobs in order of arrival, as in schedulers like Borg.

    A waiting SLO job that does not fit gets the slots of best-effort jobs, the latest started first; they
    lose their work and wait again. Jobs that the driver would not evict continue. The policy ignores
    runtimes, and considers only whether a job has a deadline.

    Slots that evictions freed are kept for the waiting SLO job. Its tasks may refuse them for
    ``spark.locality.wait``, and best-effort tasks that took them in that time would be evicted again.
    """

    name = "prio"
    capabilities = Capabilities(
        changes_with=ChangesWith.STAGES, start_times=True, preempts=True, marks=frozenset({"deadline"})
    )
    options = Options()

    def __init__(self, settings: PolicySettings) -> None:
        self._settings = settings

    def decide(
        self,
        snapshot: Snapshot,
        forecasts: Mapping[str, Forecast],
        now_ms: int,
        rng: np.random.Generator,
        memory: _Memory | None,
    ) -> tuple[Plan, _Memory]:
        before = _still_waiting(memory or _NOTHING, snapshot, now_ms)
        stuck = {key for key, each in before.items() if not each.patient(now_ms)}
        victims, takers = _victims(snapshot, stuck)
        kept = {key: _Kept(tasks, now_ms) for key, tasks in takers.items()} | before
        until_ms = [each.since_ms + _PATIENCE_MS for each in kept.values() if each.patient(now_ms)]

        def reason(job: JobView) -> str:
            if job.job in victims:
                return "evicted for a job with a deadline"
            if job.marks.deadline_ms is not None:
                return "has a deadline"
            return "slots are kept for a job with a deadline" if until_ms else "best effort"

        plan = make_plan(
            self.name,
            self._settings,
            snapshot,
            now_ms,
            ordered=True,
            rank_by=lambda job: (job.marks.deadline_ms is None, job.arrival),
            decide_job=lambda job: (int(job.marks.deadline_ms is not None), None, reason(job)),
        )
        if not until_ms:
            return plan, kept

        def entry_of(entry: JobPlan) -> JobPlan:
            evict = entry.job in victims
            best_effort = snapshot.jobs[entry.job].marks.deadline_ms is None
            return replace(entry, evict=evict, deferred=best_effort and not evict)

        return replace(plan, jobs=tuple(map(entry_of, plan.jobs)), again_ms=min(until_ms)), kept


def _still_waiting(memory: _Memory, snapshot: Snapshot, now_ms: int) -> dict[_Key, _Kept]:
    """Of the stages for which jobs were evicted, those with waiting tasks; a job on hold starts none."""
    found = {}
    for job in snapshot.jobs.values():
        for stage in () if job.on_hold else job.stages:
            kept, tasks = memory.get((job.job, stage.index)), stage.waiting
            if kept is not None and tasks > 0:
                found[job.job, stage.index] = kept if kept.tasks == tasks else _Kept(tasks, now_ms)
    return found


def _victims(snapshot: Snapshot, stuck: Set[_Key]) -> tuple[set[str], dict[_Key, int]]:
    """Best-effort jobs whose slots waiting SLO jobs need, and that suffice for them; and the stages that get
    these slots, with their waiting tasks. No job is evicted for ``stuck`` stages."""
    free = sum(
        executor.slots - executor.running_slots - executor.held_slots
        for executor in snapshot.executors.values()
    )
    jobs = snapshot.jobs.values()
    evictable = [job for job in jobs if job.marks.deadline_ms is None and job.running_slots and job.evictable]
    # The latest started job loses least; arrival decides between jobs that started at the same moment.
    evictable.sort(key=lambda job: (_begun_ms(job), job.arrival))
    victims: set[str] = set()
    takers: dict[_Key, int] = {}
    for job in sorted(jobs, key=lambda job: job.arrival):
        if job.marks.deadline_ms is None or job.on_hold:
            continue
        for stage in job.stages:
            need, key = stage.waiting, (job.job, stage.index)
            if need <= 0 or key in stuck:
                continue
            found, count = free, 0
            while found < need and count < len(evictable):
                count += 1
                found += evictable[-count].running_slots
            if found < need and stage.barrier:
                continue  # the stage could not start all its tasks: an eviction would be useless
            if count:
                takers[key] = need
            victims |= {victim.job for victim in evictable[len(evictable) - count :]}
            del evictable[len(evictable) - count :]
            free = max(0, found - need)
    return victims, takers


def _begun_ms(job: JobView) -> int:
    return max((task.launched_ms for stage in job.stages for task in stage.running), default=0)
