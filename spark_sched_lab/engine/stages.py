"""A stage at its start: the successors that the scheduler knows, and the nodes of its input."""

from __future__ import annotations

from spark_sched.errors import BadInputError
from spark_sched_lab.cluster.cluster import ClusterSpec
from spark_sched_lab.cluster.delay_scheduling import DelayScheduling
from spark_sched_lab.cluster.placement import Slots
from spark_sched_lab.engine.records import JobRun, StageEdges, StageRun


def new_stage(
    job: JobRun, index: int, key: str, now_ms: int, cluster: ClusterSpec, slots: Slots, part: int
) -> StageRun:
    """The stage ``index`` of a job, whose parents have all ended.

    Its outlook is that of the JVM's ``DagOutlook``: the tasks of all stages that read its output, and
    whether it is the last one.
    """
    spec = job.spec.stages[index]
    if spec.profile not in slots.nodes.profiles:
        raise BadInputError(f"job {job.key!r}, stage {index} has profile {spec.profile}, which no node has")
    successors = _successors(job, index) if job.spec.dag_known != "nothing" else ()
    next_tasks = sum(tasks for _, tasks, _ in successors) if successors else None
    last = job.spec.dag_known == "to the end" and job.progress.stages_left == 1
    stage = StageRun(job, index, spec, key, now_ms, StageEdges(part, next_tasks, last, successors))
    places = stage.places
    slots.offers.all = True
    if (spec.seen_on or spec.delay or (spec.near and spec.near_wait_ms)) and not spec.gang:
        if slots.nodes.of_profile:
            raise BadInputError(
                f"job {job.key!r}, stage {index} prefers nodes, and the nodes have different profiles: leave "
                "one of the two out"
            )
        places.near = DelayScheduling(stage, slots, now_ms)
    locality = cluster.locality
    if locality is not None and spec.parents:
        places.local = {}
        for parent in spec.parents:
            places.local.update(job.progress.outputs[parent])
        places.local_racks = frozenset(slots.nodes.racks[node] for node in places.local) - {-1}
        if not spec.gang:
            places.rack_at_ms = now_ms + locality.wait_ms
            places.any_at_ms = places.rack_at_ms + (locality.wait_ms if places.local_racks else 0)
    return stage


def _successors(job: JobRun, index: int) -> tuple[tuple[str, int, bool], ...]:
    """The stages of the same part that read the output of stage ``index``: name, tasks, and whether all of
    their other parents have started or ended."""
    active = {stage.index for stage in job.stages.values()} | {index}
    found = []
    for number, child in enumerate(job.spec.stages):
        if index in child.parents and child.part == job.spec.stages[index].part:
            ready = job.progress.parents_left[number] == len(active.intersection(child.parents))
            found.append((str(number), child.tasks, ready))
    return tuple(found)


def fits_whole(stage: StageRun, slots: Slots, now_ms: int) -> bool:
    """Whether a gang's tasks can all start now: on all free slots but those that the ledger refuses its job,
    or on open ones within the share that the plan gives its job."""
    share = stage.job.terms.share
    if share is not None:
        open_ = sum(min(count, slots.open_on(partition, stage)) for partition, count in share.items())
        return open_ >= len(stage.pending)
    return slots.free_to(stage, now_ms) >= len(stage.pending)
