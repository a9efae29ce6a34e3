"""3Sigma's E2E workload (§5): SLO and best-effort jobs of runtime classes, bursty, at a set load."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from spark_sched.arrays import Floats
from spark_sched.errors import BadInputError
from spark_sched_lab.traces.generators.arrivals import check_fraction, check_positive, hyperexponential
from spark_sched_lab.traces.generators.classes import JobClass, google_classes
from spark_sched_lab.traces.jobs import JobRecord, StageRecord, chunked
from spark_sched_lab.traces.tables import Trace, TraceMeta

SLO, BEST_EFFORT = "slo", "best_effort"

#: How close the work of SLO and of best-effort jobs must be to the requested load.
_LOAD_TOLERANCE = 0.01
_MOST_REFUSED = 100_000
_BATCH = 512

#: A job drawn: (class, runtime in s, slots).
_Drawn = tuple[int, float, int]


def e2e(
    rng: np.random.Generator,
    *,
    nodes: int = 256,
    hours: float = 5.0,
    load: float = 1.4,
    slo_share: float = 0.5,
    slacks: Sequence[float] = (0.2, 0.4, 0.6, 0.8),
    c2: float = 4.0,
    partitions: int = 8,
    preferred_share: float = 0.75,
    elsewhere_factor: float = 1.5,
    classes: Sequence[JobClass] | None = None,
) -> Trace:
    """Jobs of one gang stage on a cluster of ``nodes`` one-slot nodes, over ``hours``.

    - A job's class is drawn in proportion to the classes' weights; runtime, tasks, user and name from its
      class (default: `google_classes`). Jobs of more than ``nodes`` tasks, or longer than ``hours``, are
      drawn again.
    - SLO jobs are drawn until their work (slots × runtime) is ``load · slo_share`` of the cluster's capacity,
      best-effort jobs for the rest, each within 1 %: a job that would exceed the limit is drawn again.
    - Gaps between arrivals are hyper-exponential with squared coefficient of variation ``c2``.
    - An SLO job's deadline is submission + runtime · (1 + slack), slack one of ``slacks``; it prefers a
      random ``preferred_share`` of the partitions and takes ``elsewhere_factor`` times as long elsewhere. SLO
      jobs have priority 1, best-effort jobs 0.

    Raises:
        BadInputError: a parameter out of its range, or classes that have no job that fits the cluster.
    """
    _check(nodes, hours, load, slo_share, slacks, partitions, preferred_share, elsewhere_factor)
    table = tuple(classes) if classes is not None else google_classes()
    horizon_s = hours * 3600.0
    capacity = nodes * horizon_s
    drawn = [(job, True) for job in _until(rng, table, load * slo_share * capacity, nodes, horizon_s)]
    drawn += [(job, False) for job in _until(rng, table, load * (1 - slo_share) * capacity, nodes, horizon_s)]
    order = rng.permutation(len(drawn))
    submit_s = hyperexponential(rng, len(drawn), horizon_s / max(1, len(drawn)), c2)
    if len(submit_s):
        submit_s *= horizon_s / submit_s[-1]  # the load holds for the hours asked for; a factor keeps c²
    records = []
    for number, (index, at_s) in enumerate(zip(order, submit_s, strict=True)):
        (kind, runtime_s, slots), is_slo = drawn[index]
        user, name = _features(rng, table[kind], number)
        job = _gang(f"e2e-{number}", user, name, float(at_s), runtime_s, slots, is_slo=is_slo)
        if is_slo:
            job.deadline_s = float(at_s) + runtime_s * (1 + _slack(rng, job, slacks))
            _prefer(rng, job, partitions, preferred_share, elsewhere_factor)
        records.append(job)
    meta = TraceMeta(
        "e2e",
        "3Sigma §5",
        notes=("generated",),
        parameters={
            "nodes": nodes,
            "hours": hours,
            "load": load,
            "slo_share": slo_share,
            "slacks": list(slacks),
            "c2": c2,
            "partitions": partitions,
            "preferred_share": preferred_share,
            "elsewhere_factor": elsewhere_factor,
            "classes": len(table),
        },
    )
    return Trace.from_chunks(chunked(records), meta)


def _check(
    nodes: int,
    hours: float,
    load: float,
    slo_share: float,
    slacks: Sequence[float],
    partitions: int,
    preferred_share: float,
    elsewhere_factor: float,
) -> None:
    check_positive("hours", hours)
    check_positive("load", load)
    check_positive("elsewhere_factor", elsewhere_factor)
    check_fraction("slo_share", slo_share)
    check_fraction("preferred_share", preferred_share)
    if nodes < 1 or partitions < 1:
        raise BadInputError(f"nodes is {nodes}, partitions is {partitions}: give at least 1 of each")
    if not slacks or not all(0 <= slack < math.inf for slack in slacks):
        raise BadInputError(f"slacks are {list(slacks)}: give at least one number, each from 0")


def _gang(
    key: str, user: str, name: str, submit_s: float, runtime_s: float, slots: int, *, is_slo: bool
) -> JobRecord:
    return JobRecord(
        key,
        "finished",
        "gang",
        [StageRecord(tasks=slots, mean_task_s=runtime_s)],
        name=name,
        user=user,
        job_class=SLO if is_slo else BEST_EFFORT,
        priority=int(is_slo),
        submit_s=submit_s,
        runtime_s=runtime_s,
        slots=slots,
    )


def _slack(rng: np.random.Generator, job: JobRecord, slacks: Sequence[float]) -> float:
    slack = float(slacks[int(rng.integers(len(slacks)))])
    job.features = {"slack": f"{slack:g}"}
    return slack


def _prefer(
    rng: np.random.Generator, job: JobRecord, partitions: int, share: float, elsewhere_factor: float
) -> None:
    places = rng.choice(partitions, max(1, round(share * partitions)), replace=False)
    job.preferred = tuple(sorted(int(p) for p in places))
    job.elsewhere_factor = elsewhere_factor


def _until(
    rng: np.random.Generator, table: Sequence[JobClass], work: float, nodes: int, longest_s: float
) -> list[_Drawn]:
    weights = np.array([c.weight for c in table])
    jobs: list[_Drawn] = []
    done = 0.0
    refused = 0
    while done < work * (1 - _LOAD_TOLERANCE):
        for kind, runtime_s, slots in _batch(rng, table, weights):
            size = runtime_s * slots
            if slots > nodes or runtime_s > longest_s or done + size > work * (1 + _LOAD_TOLERANCE):
                refused += 1
                if refused > _MOST_REFUSED:
                    raise BadInputError(
                        f"the classes have no jobs that make a load of {work / (nodes * longest_s):g} "
                        f"on {nodes} nodes in {longest_s:g} s: give more nodes or hours"
                    )
                continue
            jobs.append((kind, runtime_s, slots))
            done += size
            if done >= work * (1 - _LOAD_TOLERANCE):
                break
    return jobs


def _batch(rng: np.random.Generator, table: Sequence[JobClass], weights: Floats) -> list[_Drawn]:
    kinds = rng.choice(len(table), size=_BATCH, p=weights / weights.sum())
    runtimes_s = np.empty(_BATCH)
    slots = np.empty(_BATCH, dtype=np.int64)
    for kind, job_class in enumerate(table):
        mine = kinds == kind
        runtimes_s[mine] = job_class.runtimes_s(rng, int(mine.sum()))
        slots[mine] = job_class.task_counts(rng, int(mine.sum()))
    return list(zip(kinds.tolist(), runtimes_s.tolist(), slots.tolist(), strict=True))


def _features(rng: np.random.Generator, kind: JobClass, number: int) -> tuple[str, str]:
    at = rng.random()
    for user, name, share in kind.features:
        at -= share
        if at < 0:
            return user, name
    once = f"once-{number}"
    if not kind.features:
        return once, once
    return kind.features[int(rng.integers(len(kind.features)))][0], once
