"""A recorded application as a cluster and jobs to simulate, with the jobs' true completion times."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from spark_sched_lab.simulator import (
    ClusterSpec,
    Delay,
    JobSpec,
    LocalityWaits,
    MarkChange,
    NextJob,
    NodeSpec,
    StageSpec,
)
from spark_sched_lab.traces.jobs import JobRecord, StageRecord
from spark_sched_lab.traces.tables import Machine
from spark_sched_lab.whatif.availability import LONG_MS, WAVE_MS, Wait, available_executors
from spark_sched_lab.whatif.overheads import Launch, Occupancy, turnaround_ms, usual_ms
from spark_sched_lab.whatif.places import Away, Places, TaskPlaces
from spark_sched_lab.whatif.recorded import Recorded, RecordedAttempt, attempts_of
from spark_sched_lab.whatif.revivals import revived_at_ms


@dataclass(frozen=True)
class Model:
    """What is simulated.

    Attributes:
        cluster: the application's executors with their spans of time.
        jobs: in the order of submission; a job of a driver that never runs two at once stands in ``then`` of
            the one before.
        real_jct_ms: by job; jobs without an end in the log are missing.
        pools: FAIR pool by job.
        task_sets: Spark's names of the stages' task sets, by job.
        learned: the overheads, for the report: name to ms.
        away: what tasks away from their cached input cost.
        one_by_one: jobs follow each other, as the driver never ran two at once.
    """

    cluster: ClusterSpec
    jobs: tuple[JobSpec, ...]
    real_jct_ms: Mapping[str, int]
    pools: Mapping[str, str]
    task_sets: Mapping[str, Sequence[str]]
    learned: Mapping[str, float]
    away: Away
    one_by_one: bool


@dataclass
class _ReplayedStage:
    """A stage that ran tasks, with its place in time."""

    record: StageRecord
    attempts: list[RecordedAttempt]
    parents: tuple[int, ...]
    submit_ms: int
    first_ms: int
    last_ms: int
    launch_ms: int = 0

    def waits(self, tied: frozenset[int], *, within_only: bool) -> Iterator[Wait]:
        """Spans in which a task of the stage waited for a slot, whichever: from the stage's first launch to a
        later one's, and, unless ``within_only``, the wait for the first one if it is long.

        ``tied``: tasks that wait for slots of one executor."""
        for attempt in self.attempts:
            near = attempt.locality == "NODE_LOCAL" or attempt.task in tied
            if attempt.start_ms >= self.first_ms + WAVE_MS and not near:
                yield Wait(self.first_ms, attempt.start_ms)
        if not within_only and self.first_ms >= self.submit_ms + LONG_MS:
            yield Wait(self.submit_ms, self.first_ms)


@dataclass
class _ReplayedJob:
    record: JobRecord
    submit_ms: int
    end_ms: int | None
    priority: int
    stages: list[_ReplayedStage] = field(default_factory=list)


def build_model(recorded: Recorded, *, one_by_one: bool | None = None) -> Model:
    """The model of an application.

    Args:
        recorded: the application.
        one_by_one: each job begins when the one before has ended, after the same pause as in the log; None:
            if no two of its jobs ever overlapped.
    """
    jobs = [_job(record) for record in recorded.jobs]
    every = [stage for job in jobs for stage in job.stages]
    launches = [
        Launch(attempt, number, stage.submit_ms)
        for number, stage in enumerate(every)
        for attempt in stage.attempts
    ]
    places = Places(every, recorded.executors, recorded.waits.node_ms)
    waits = [
        wait for stage in every for wait in stage.waits(places.tied(stage), within_only=recorded.enforced)
    ]
    executors = available_executors(recorded.executors, (x.attempt for x in launches), waits)
    slots = {machine.machine: machine.slots or 1 for machine in executors}
    turnaround = round(turnaround_ms(launches, slots))
    occupancy = Occupancy((launch.attempt for launch in launches), executors, turnaround)
    usual = _learn_launches(jobs, occupancy, recorded)
    revived_ms = revived_at_ms(launches, slots, recorded.waits.revive_ms)
    delay = recorded.waits._replace(revive_at_ms=revived_ms or 0)
    racks = any(a.locality == "RACK_LOCAL" for stage in every for a in stage.attempts)
    names = frozenset(slots)
    wanted = {id(stage): places.of(stage, names) for stage in every}
    real_jct_ms, specs = {}, []
    for job in jobs:
        key = job.record.source_id
        changes = recorded.changes.of_jobs.get(key, ())
        specs.append(_spec(job, turnaround, wanted, recorded, delay, changes))
        if job.end_ms is not None:
            real_jct_ms[key] = job.end_ms - job.submit_ms
    chained = _alone(jobs) if one_by_one is None else one_by_one
    if chained:
        specs = _chain(specs, jobs)
    return Model(
        cluster=ClusterSpec(tuple(_node(machine, 0 if racks else None) for machine in executors)),
        jobs=tuple(specs),
        real_jct_ms=real_jct_ms,
        pools={job.record.source_id: (job.record.features or {}).get("pool", "default") for job in jobs},
        task_sets={
            job.record.source_id: [f"TaskSet_{stage.record.source_id}" for stage in job.stages]
            for job in jobs
        },
        learned={"turnaround_ms": turnaround, "launch_ms": usual},
        away=places.away,
        one_by_one=chained,
    )


# ---- taking the log apart ----


def _job(record: JobRecord) -> _ReplayedJob:
    submit_ms = _ms(record.submit_s)
    job = _ReplayedJob(
        record, submit_ms, None if record.end_s is None else _ms(record.end_s), record.priority or 0
    )
    # Stages without a task that ran are passed over: their children wait for what these waited for.
    kept: dict[int, tuple[int, ...]] = {}
    for number, stage in enumerate(record.stages):
        parents = tuple(dict.fromkeys(p for parent in stage.parents for p in kept[parent]))
        attempts = attempts_of(stage)
        if not attempts:
            kept[number] = parents
            continue
        kept[number] = (len(job.stages),)
        first_ms = attempts[0].start_ms
        done = [a.end_ms for a in attempts if a.finished] or [a.end_ms for a in attempts]
        at_ms = first_ms if stage.submit_s is None else min(_ms(stage.submit_s), first_ms)
        job.stages.append(_ReplayedStage(stage, attempts, parents, at_ms, first_ms, max(done)))
    return job


def _learn_launches(jobs: Sequence[_ReplayedJob], occupancy: Occupancy, recorded: Recorded) -> int:
    """Sets each stage's launch time and returns the usual one."""
    sure: list[int] = []
    doubtful: list[tuple[_ReplayedStage, int]] = []
    for job in jobs:
        for stage in job.stages:
            ready_ms = max(stage.submit_ms, occupancy.free_since_ms(stage.first_ms))
            if not occupancy.any_slot(stage.submit_ms):
                # No executor was there: how long until one takes tasks is the cluster's time.
                stage.launch_ms = stage.first_ms - stage.submit_ms
                continue
            stage.launch_ms = stage.first_ms - ready_ms
            waited = ready_ms > stage.submit_ms
            # Under the attached scheduler a free slot may be held for another job.
            held = recorded.enforced and any(
                other is not job
                and other.priority >= job.priority
                and other.submit_ms < stage.first_ms
                and (other.end_ms is None or other.end_ms > stage.submit_ms)
                for other in jobs
            )
            if waited or held:
                doubtful.append((stage, stage.launch_ms if held else 0))
            else:
                sure.append(stage.launch_ms)
    usual = usual_ms(sure)
    for stage, seen_ms in doubtful:
        # It waited for a slot: the time of its launch alone is not in the log.
        stage.launch_ms = min(seen_ms, usual) if seen_ms else usual
    return usual


def _node(machine: Machine, rack: int | None) -> NodeSpec:
    added_ms = _ms(machine.added_s)
    until_ms = None if machine.removed_s is None else max(added_ms, _ms(machine.removed_s))
    slots = max(1, machine.slots or 1)
    return NodeSpec(machine.machine, slots, rack=rack, from_ms=added_ms, until_ms=until_ms)


# ---- the simulation's jobs ----


def _spec(
    job: _ReplayedJob,
    turnaround: int,
    places: Mapping[int, TaskPlaces],
    recorded: Recorded,
    waits: LocalityWaits,
    changes: tuple[MarkChange, ...],
) -> JobSpec:
    record = job.record
    part_numbers: dict[int | None, int] = {}
    stages = []
    for stage in job.stages:
        part = part_numbers.setdefault(stage.record.part, len(part_numbers))
        ready_ms = max((job.stages[p].last_ms + turnaround for p in stage.parents), default=job.submit_ms)
        durations_ms, copies_ms = _durations(stage.attempts, turnaround)
        wanted = places[id(stage)]
        stages.append(
            StageSpec(
                durations_ms,
                stage.parents,
                max(0, stage.submit_ms - ready_ms) + stage.launch_ms,
                stage.record.name or "",
                gang=bool(stage.record.barrier),
                restartable=not stage.record.barrier,
                part=part,
                near=wanted.near,
                near_wait_ms=waits.node_ms,
                delay=Delay(waits, wanted.cached, wanted.away),
                seen_on=_seen_on(stage.attempts),
                copies_ms=copies_ms,
                kill_ms=recorded.python_kill_ms if stage.record.outside else 0,
            )
        )
    last_ms = max(stage.last_ms for stage in job.stages)
    features = record.features or {}
    kind = record.source_id.rsplit("/", 1)[-1].partition("-")[0]
    return JobSpec(
        key=record.source_id,
        submit_ms=job.submit_ms,
        stages=tuple(stages),
        name=record.name or "",
        user=record.user,
        job_class=record.job_class,
        priority=job.priority,
        deadline_ms=None if record.deadline_s is None else _ms(record.deadline_s),
        isolation=record.isolation,
        copies=features.get("copies") != "never",
        marked=kind == "mark",
        tail_ms=0 if job.end_ms is None else max(0, job.end_ms - last_ms - turnaround),
        changes=changes,
        # As live: of a marked or grouped job more Spark jobs may follow any one of them.
        dag_known="to the end"
        if kind == "spark" or (kind == "sql" and len(part_numbers) == 1)
        else "next stage",
    )


def _seen_on(attempts: Sequence[RecordedAttempt]) -> list[str]:
    """By task, in order, the executor of its first attempt."""
    found = {attempt.task: attempt.executor for attempt in reversed(attempts)}
    return [found[task] for task in sorted(found)]


def _durations(attempts: Iterable[RecordedAttempt], turnaround: int) -> tuple[list[int], dict[int, int]]:
    """How long each task keeps a slot, and how long its copy ran, by index in that list.

    A task that failed and ran again keeps its slot for all its attempts. The time of an attempt that was
    killed before the task ran again, for example by an eviction, does not count.
    """
    own: dict[int, int] = {}
    copies: dict[int, int] = {}
    attempts = list(attempts)
    last = {attempt.task: attempt for attempt in attempts if not attempt.copy}
    for attempt in attempts:
        if attempt.outcome == "killed" and not attempt.copy and attempt is not last[attempt.task]:
            continue
        took_ms = max(1, attempt.end_ms - attempt.start_ms + turnaround)
        if attempt.copy:
            copies[attempt.task] = took_ms
        else:
            own[attempt.task] = own.get(attempt.task, 0) + took_ms
    for task, took_ms in copies.items():
        own.setdefault(task, took_ms)
    order = {task: index for index, task in enumerate(sorted(own))}
    return [own[task] for task in sorted(own)], {order[task]: ms for task, ms in copies.items()}


def _alone(jobs: Sequence[_ReplayedJob]) -> bool:
    """No two jobs overlapped: one thread of the driver ran them."""
    return len(jobs) > 1 and all(
        job.end_ms is not None and job.end_ms <= later.submit_ms for job, later in pairwise(jobs)
    )


def _chain(specs: list[JobSpec], jobs: Sequence[_ReplayedJob]) -> list[JobSpec]:
    """Each job behind the one before it; the first alone is left."""
    following = specs[-1:]
    for spec, (job, later) in zip(specs[-2::-1], reversed(list(pairwise(jobs))), strict=True):
        pause_ms = 0 if job.end_ms is None else max(0, later.submit_ms - job.end_ms)
        following = [replace(spec, then=(NextJob(pause_ms, following[0]),))]
    return following


def _ms(seconds: float | None) -> int:
    return max(0, round((seconds or 0.0) * 1000))
