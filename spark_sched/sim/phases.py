"""A phase at its start: what the scheduler knows of what follows it, and where its input is."""

from __future__ import annotations

from spark_sched.sim.cluster import ClusterSpec
from spark_sched.sim.near import Near
from spark_sched.sim.placement import Slots
from spark_sched.sim.records import JobRun, PhaseRun

__all__ = ["fits_whole", "new_phase"]


def new_phase(
    job: JobRun, index: int, key: str, now_ms: int, cluster: ClusterSpec, slots: Slots, part: int
) -> PhaseRun:
    """The phase ``index`` of a job, whose parents have all ended.

    Its outlook is that of the JVM's ``DagOutlook``: the tasks of all phases that read its output, and
    whether it is the last one.
    """
    spec = job.spec.phases[index]
    next_tasks: int | None = None
    last = False
    if job.spec.dag_known:
        widths = [
            child.tasks
            for child in job.spec.phases[index + 1 :]
            if index in child.parents and child.part == spec.part
        ]
        next_tasks = sum(widths) if widths else None
        last = job.phases_left == 1 and job.spec.end_known
    phase = PhaseRun(job, index, spec, key, now_ms, next_tasks, last, part)
    if (spec.seen_on or (spec.near and spec.near_wait_ms)) and not spec.gang:
        phase.near = Near(spec, slots.number, now_ms)
    locality = cluster.locality
    if locality is not None and spec.parents:
        phase.local = {}
        for parent in spec.parents:
            phase.local.update(job.outputs[parent])
        phase.local_racks = frozenset(slots.racks[node] for node in phase.local) - {-1}
        if not spec.gang:
            phase.rack_at_ms = now_ms + locality.wait_ms
            phase.any_at_ms = phase.rack_at_ms + (locality.wait_ms if phase.local_racks else 0)
    return phase


def fits_whole(phase: PhaseRun, slots: Slots) -> bool:
    """Whether a gang's tasks can all start now: on open and own held slots, or on open ones within the share
    that the plan gives its job; it takes nobody else's holds."""
    share = phase.job.share
    if share is not None:
        open_ = sum(min(count, slots.open_on(partition)) for partition, count in share.items())
        return open_ >= len(phase.pending)
    held = sum(slots.holders.get(phase.job, {}).values())
    return slots.open_total + held >= len(phase.pending)
