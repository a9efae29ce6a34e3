"""The plan as a queue that can be played forward (`spark_sched.predict.queue_model`).

What the model assumes: the plan's order, groups and weights stay as they are, below the tenants' queues;
running tasks keep their slots until they end; a job that holds slots occupies them between its stages. Jobs
that come later are drawn from those that came of late (`spark_sched.predict.later`), where they go before
somebody.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from spark_sched.arrays import Bools, Floats
from spark_sched.planner.tenants import Tenants
from spark_sched.policies import JobPlan, Plan
from spark_sched.predict import UNKNOWN, Forecast
from spark_sched.predict.drained import SHARING_JOBS, play_many
from spark_sched.predict.later import Kind, Later, LaterArrivals
from spark_sched.predict.queue_model import Played, Queue
from spark_sched.predict.remaining import SAMPLES, SEGMENTS, Draws, Remaining, Rests
from spark_sched.state import JobView, Snapshot

#: Fewest samples. With more jobs there are fewer of them.
_LEAST_SAMPLES = 16
_SAMPLES_TIMES_JOBS = 3_200
#: Later jobs come for this multiple of the time that those present need on all slots.
_HORIZON = 3.0
#: By how much of the time until it gets the last slot a stage ends later: its longest task seldom starts
#: last.
#: Stages of 2 to 16 tasks with lognormal times of a spread of 0.1 to 0.6 have 0.6 to 0.85.
_LAST_SLOT = 0.65
#: A job whose stages waited for longer than this part of its time lends its held slots (ADR 38).
_LENDS = 1.0 / 11.0


@dataclass(frozen=True, slots=True)
class Entry:
    """One job of the plan that is in the snapshot: ``begun_ms`` is its first launch, None before it;
    ``queue`` is the number of its tenants' queue."""

    view: JobView
    plan: JobPlan
    rest: Remaining
    begun_ms: int | None
    queue: int = 0

    @property
    def kind(self) -> Kind:
        return Kind(self.queue, self.plan.priority)


@dataclass(frozen=True, slots=True)
class _Columns:
    """Jobs and later ones in the order of the model: tenants' queue, group, place.

    Attributes:
        entry: of each column its number among the entries; -1: of a later job.
        later: of each column of a later job its kind's number and its place there.
    """

    entry: list[int]
    later: list[tuple[int, int]]
    queues: list[int]
    group: list[int]
    weight: list[float]
    queue_of_group: list[int]


class QueuePlayer:
    """Plays plans. Keeps what is expensive to make: random orders, and profiles of names."""

    def __init__(self, tenants: Tenants | None = None) -> None:
        self.tenants = Tenants(None) if tenants is None else tenants
        self._rests = Rests()
        self._draws = Draws()

    def entries(
        self,
        snapshot: Snapshot,
        known: Mapping[str, Forecast],
        plan: Plan,
        begun_ms: Mapping[str, int],
        now_ms: int,
        most: int,
    ) -> list[Entry]:
        """The jobs first in rank, at most so many."""
        slots = snapshot.slots
        found = []
        for entry in plan.jobs[:most]:
            view = snapshot.jobs.get(entry.job)
            if view is not None:
                begun = begun_ms.get(entry.job)
                rest = self._rests.of(view, known.get(entry.job, UNKNOWN), slots, now_ms, begun)
                queue = self.tenants.queue_of(entry.job, view.marks)
                found.append(Entry(view, entry, rest, begun, queue))
        return found

    def play(
        self, entries: Sequence[Entry], plan: Plan, slots: int, now_ms: int, later: LaterArrivals
    ) -> Played:
        """Starts and ends of these jobs, in their order."""
        samples = SAMPLES
        while samples > _LEAST_SAMPLES and samples * len(entries) > _SAMPLES_TIMES_JOBS:
            samples //= 2
        # 1. Who comes later, and where everybody is in the order.
        groups, weights = _groups(entries, plan)
        to_come: list[Later] = []
        work = sum(each.rest.slot_ms for each in entries if each.rest.known)
        places = self._places(entries, plan, groups)
        if places is not None and slots:
            until_ms = _HORIZON * work / slots
            to_come = later.draw(now_ms, samples, until_ms, lambda kind: places(kind) is not None)
        columns = self._columns(entries, groups, weights, to_come, places)
        # 2. What they need.
        chosen = [entries[at] for at in columns.entry if at >= 0]
        factors = self._draws.factors(
            [each.rest for each in chosen], [each.view.arrival for each in chosen], samples
        )
        queue = _queue(chosen, factors, slots, now_ms)
        is_job = np.array(columns.entry) >= 0
        if to_come:
            queue = _with_later(queue, is_job, columns.later, to_come)
        starts = np.flatnonzero(np.diff(columns.group, prepend=-1))
        group_weights = np.array(columns.weight)
        admission = [
            _admission(entries[at]) if at >= 0 else (2.0, 0.0, float(column))
            for column, at in enumerate(columns.entry)
        ]
        # 3. Play, and bring the jobs back into the order of the entries.
        played = play_many(
            replace(
                queue,
                group=starts,
                weight=group_weights,
                layers=self.tenants.layers(columns.queue_of_group, group_weights, slots),
                limits=self.tenants.limits(columns.queues, admission, slots),
            )
        )
        back = np.empty(len(entries), dtype=np.int64)
        back[np.array(columns.entry)[is_job]] = np.flatnonzero(is_job)
        return Played(played.start_ms[:, back], played.end_ms[:, back])

    def _places(
        self, entries: Sequence[Entry], plan: Plan, groups: Sequence[int]
    ) -> Callable[[Kind], float | None] | None:
        """Where later jobs of a kind come among the entries, None: behind all of them; or None: the model
        does not know."""
        shares, count = self.tenants.shares, len(set(groups))
        if plan.queue_weights or not entries:
            return None
        sharing = all(each.plan.pool is not None and each.plan.pool.fair for each in entries)
        if sharing:
            # Everybody shares with those that come later.
            return (lambda kind: float(len(entries))) if len(entries) <= SHARING_JOBS else None
        if count > 1:
            return None

        def place(kind: Kind) -> float | None:
            for at, each in enumerate(entries):
                if each.plan.priority < kind.priority and (not shares or each.queue == kind.queue):
                    return at - 0.5
            return float(len(entries)) if shares else None

        return place

    def _columns(
        self,
        entries: Sequence[Entry],
        groups: Sequence[int],
        weights: Sequence[float],
        to_come: Sequence[Later],
        places: Callable[[Kind], float | None] | None,
    ) -> _Columns:
        shares = self.tenants.shares
        sharing = len(groups) > 1 and len(set(groups)) == len(groups)
        rows: list[tuple[int, int, float, int, tuple[int, int], int, float]] = [
            (
                each.queue if shares else 0,
                groups[at],
                float(at),
                at,
                (-1, -1),
                each.queue,
                weights[groups[at]],
            )
            for at, each in enumerate(entries)
        ]
        mean = float(np.mean(weights))
        for number, later in enumerate(to_come):
            place = None if places is None else places(later.kind)
            assert place is not None
            queue = later.kind.queue
            for column in range(later.work.shape[1]):
                group = len(weights) + len(rows) if sharing else 0
                rows.append((queue if shares else 0, group, place, -1, (number, column), queue, mean))
        rows.sort(key=lambda row: row[:3])
        group_of: list[int] = []
        weight: list[float] = []
        queue_of_group: list[int] = []
        before: tuple[int, int] | None = None
        for row in rows:
            if row[:2] != before:
                before = row[:2]
                weight.append(row[6])
                queue_of_group.append(row[0])
            group_of.append(len(weight) - 1)
        return _Columns(
            [row[3] for row in rows],
            [row[4] for row in rows if row[3] < 0],
            [row[5] for row in rows],
            group_of,
            weight,
            queue_of_group,
        )


def _admission(entry: Entry) -> tuple[float, ...]:
    """The place in the admission queue: those that run are admitted; then by priority, then by arrival."""
    if entry.begun_ms is not None:
        return 0.0, 0.0, float(entry.begun_ms)
    return 1.0, -float(entry.view.marks.priority), float(entry.view.arrival)


def _groups(entries: Sequence[Entry], plan: Plan) -> tuple[list[int], list[float]]:
    """The group of each job, and the weight of each group."""
    if plan.queue_weights:
        queues = [each.plan.queue or 0 for each in entries]
        numbers = {queue: at for at, queue in enumerate(sorted(set(queues)))}
        return [numbers[queue] for queue in queues], [plan.queue_weights[queue] for queue in numbers]
    names: dict[str, int] = {}
    weights: list[float] = []
    found = []
    for each in entries:
        pool = each.plan.pool
        if pool is None:
            name, weight = "", 1.0
        elif pool.fair:
            mates = sum(1 for e in entries if e.plan.pool is not None and e.plan.pool.name == pool.name)
            name, weight = f"{pool.name}\n{each.view.job}", pool.weight / mates
        else:
            name, weight = pool.name, pool.weight
        if name not in names:
            names[name] = len(names)
            weights.append(weight)
        found.append(names[name])
    return found, weights or [1.0]


def _queue(entries: Sequence[Entry], factors: Floats, slots: int, now_ms: int) -> Queue:
    jobs = factors.shape[1]
    work, width = np.zeros((jobs, SEGMENTS)), np.ones((jobs, SEGMENTS))
    release, busy, busy_ms = np.zeros(jobs), np.zeros(jobs), np.zeros(jobs)
    for at, each in enumerate(entries):
        rest, view, entry = each.rest, each.view, each.plan
        count = len(rest.work)
        work[at, :count], width[at, :count] = rest.work, rest.width
        if _holds(each, now_ms) and count > 1:
            _occupy(work[at], width[at], count)
        if entry.share is not None:
            width[at] = np.minimum(width[at], max(1, sum(entry.share.values()) + view.running_slots))
        if entry.start_ms is not None:
            release[at] = max(0, entry.start_ms - now_ms)
        elif entry.deferred and not view.running_slots:
            release[at] = np.inf
        if view.running_slots:
            busy[at] = min(slots, view.running_slots)
            busy_ms[at] = rest.busy_ms
    barrier_ms = _barriers_ms(entries, now_ms)
    sampled = np.where(work > 0.0, work * factors[:, :, None], 0.0)
    return Queue(
        float(slots),
        sampled,
        width,
        release,
        busy,
        busy_ms * factors,
        np.zeros(1, dtype=np.int64),
        np.ones(1),
        barrier_ms=barrier_ms,
    )


def _barriers_ms(entries: Sequence[Entry], now_ms: int) -> Floats | None:
    """How long jobs without held slots wait at their barriers for all slots: the slots of others become free
    one by one within the time of one of their tasks. None: nobody waits."""
    known = [each.rest for each in entries if each.rest.known and each.rest.task_ms > 0.0]
    work = sum(rest.slot_ms for rest in known)
    if not work:
        return None
    task_ms = sum(rest.slot_ms * rest.task_ms for rest in known) / work
    return np.array([0.0 if _holds(each, now_ms) else _LAST_SLOT * task_ms for each in entries])


def _holds(entry: Entry, now_ms: int) -> bool:
    """Whether it keeps its slots at its barriers from those behind it."""
    rule = entry.plan.reservation
    if rule is None or rule.isolation <= 0.0 or entry.begun_ms is None:
        return False
    waited_ms = entry.begun_ms - entry.view.started_ms
    return waited_ms <= _LENDS * (now_ms - entry.view.started_ms)


def _occupy(work: Floats, width: Floats, count: int) -> None:
    """Held slots are in use until the last stage: as many as the widest of the stages takes."""
    held = width[:count].max()
    for at in range(count - 1):
        work[at] *= held / width[at]
        width[at] = held


def _with_later(
    queue: Queue, is_job: Bools, later: Sequence[tuple[int, int]], to_come: Sequence[Later]
) -> Queue:
    """The queue with the columns of later jobs where ``is_job`` is false."""
    columns, (samples, _, segments) = is_job.size, queue.work.shape
    work, width = np.zeros((samples, columns, segments)), np.ones((columns, segments))
    release, busy_ms = np.zeros((samples, columns)), np.zeros((samples, columns))
    busy, barrier_ms = np.zeros(columns), np.zeros(columns)
    work[:, is_job], width[is_job], release[:, is_job] = queue.work, queue.width, queue.release_ms
    busy[is_job], busy_ms[:, is_job] = queue.busy_slots, queue.busy_ms
    if queue.barrier_ms is not None:
        barrier_ms[is_job] = queue.barrier_ms
    for column, (number, at) in zip(np.flatnonzero(~is_job), later, strict=True):
        each = to_come[number]
        # Work that does not come in a sample is none.
        comes = np.isfinite(each.release_ms[:, at])
        work[:, column, 0] = np.where(comes, each.work[:, at], 0.0)
        width[column] = max(1e-3, min(queue.slots, each.width))
        release[:, column] = np.where(comes, each.release_ms[:, at], 0.0)
    return replace(
        queue,
        work=work,
        width=width,
        release_ms=release,
        busy_slots=busy,
        busy_ms=busy_ms,
        comes=~is_job,
        barrier_ms=barrier_ms if queue.barrier_ms is not None else None,
    )
