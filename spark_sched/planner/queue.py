"""The plan as a queue that can be played forward (`spark_sched.predict.queue_model`).

What the model assumes: the plan's order, groups and weights stay as they are; running tasks keep their slots
until they end; a job that holds slots occupies them between its stages. Jobs of a higher priority that come
later take as many slots as such jobs took of late. Jobs of no higher priority that come later are served
after those that are here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from spark_sched.arrays import Floats, Ints
from spark_sched.policies import JobPlan, Plan
from spark_sched.predict import UNKNOWN, Forecast
from spark_sched.predict.drained import play_many
from spark_sched.predict.queue_model import Played, Queue
from spark_sched.predict.remaining import SAMPLES, SEGMENTS, Draws, Remaining, Rests
from spark_sched.state import JobView, Snapshot

#: Fewest samples. With more jobs there are fewer of them.
_LEAST_SAMPLES = 16
_SAMPLES_TIMES_JOBS = 3_200
#: Arrivals remembered, and for how long.
_ARRIVALS = 1_000
_ARRIVALS_MS = 600_000.0
#: A rate needs that much time and that many arrivals.
_RATE_MS, _RATE_ARRIVALS = 20_000.0, 3
#: Share of the slots that later arrivals can take from those that wait.
_MOST_LATER = 0.9
#: A job whose stages waited for longer than this part of its time lends its held slots (ADR 38).
_LENDS = 1.0 / 11.0


@dataclass(frozen=True, slots=True)
class Entry:
    """One job of the plan that is in the snapshot: ``begun_ms`` is its first launch, None before it."""

    view: JobView
    plan: JobPlan
    rest: Remaining
    begun_ms: int | None


class LaterArrivals:
    """Slots that jobs of each priority took of late, as work that arrived per time."""

    def __init__(self) -> None:
        self._seen: deque[tuple[int, int, float]] = deque(maxlen=_ARRIVALS)
        self._since_ms: int | None = None

    def arrive(self, at_ms: int, priority: int, slot_ms: float) -> None:
        if np.isfinite(slot_ms):
            self._seen.append((at_ms, priority, slot_ms))

    def rates(self, now_ms: int) -> dict[int, float]:
        """Mean slots by priority, those of the priorities for which enough is known."""
        if self._since_ms is None:
            self._since_ms = now_ms
        while self._seen and self._seen[0][0] < now_ms - _ARRIVALS_MS:
            self._seen.popleft()
        if now_ms - self._since_ms < _RATE_MS:
            return {}
        since_ms = max(self._since_ms, now_ms - _ARRIVALS_MS)
        if len(self._seen) == self._seen.maxlen:
            # So many arrivals give a rate in whatever time they came.
            since_ms = max(since_ms, self._seen[0][0])
        lasted_ms = max(1.0, now_ms - since_ms)
        found: dict[int, list[float]] = {}
        for _, priority, slot_ms in self._seen:
            found.setdefault(priority, []).append(slot_ms)
        return {
            priority: sum(work) / lasted_ms for priority, work in found.items() if len(work) >= _RATE_ARRIVALS
        }


class QueuePlayer:
    """Plays plans. Keeps what is expensive to make: random orders, and profiles of names."""

    def __init__(self) -> None:
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
                found.append(Entry(view, entry, rest, begun))
        return found

    def play(
        self, entries: Sequence[Entry], plan: Plan, slots: int, now_ms: int, later: Mapping[int, float]
    ) -> Played:
        """Starts and ends of these jobs, in their order."""
        samples = SAMPLES
        while samples > _LEAST_SAMPLES and samples * len(entries) > _SAMPLES_TIMES_JOBS:
            samples //= 2
        groups = _groups(entries, plan)
        # Columns: jobs by group, and in a queue without groups the later arrivals of each priority.
        order = sorted(range(len(entries)), key=lambda at: groups[0][at])
        chosen = [entries[at] for at in order]
        streams = _streams(chosen, later, slots) if len(groups[1]) == 1 else []
        factors = self._draws.factors(
            [each.rest for each in chosen], [each.view.arrival for each in chosen], samples
        )
        columns: Ints = np.arange(len(chosen), dtype=np.int64)
        queue = _queue(chosen, factors, slots, now_ms)
        if streams:
            queue, columns = _with_streams(queue, streams)
        group_of = np.array([groups[0][at] for at in order], dtype=np.int64)
        starts = np.flatnonzero(np.diff(group_of, prepend=-1)) if not streams else np.zeros(1, dtype=np.int64)
        weights = np.array(groups[1], dtype=np.float64)
        played = play_many(
            Queue(
                float(slots),
                queue.work,
                queue.width,
                queue.release_ms,
                queue.busy_slots,
                queue.busy_ms,
                starts,
                weights if not streams else np.ones(1),
            )
        )
        back = np.empty(len(order), dtype=np.int64)
        back[order] = columns
        return Played(played.start_ms[:, back], played.end_ms[:, back])


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
    )


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


def _streams(entries: Sequence[Entry], later: Mapping[int, float], slots: int) -> list[tuple[int, float]]:
    """Where later arrivals of each priority come in the order, and their slots: those before somebody."""
    found: list[tuple[int, float]] = []
    most = _MOST_LATER * slots
    for priority in sorted(later, reverse=True):
        place = next((at for at, e in enumerate(entries) if e.plan.priority < priority), None)
        width = min(later[priority], most)
        if place is not None and width > 0.0:
            found.append((place, width))
            most -= width
    return found


def _with_streams(queue: Queue, streams: Sequence[tuple[int, float]]) -> tuple[Queue, Ints]:
    """The queue with a column of endless work for each stream; and where the jobs are now."""
    jobs = queue.release_ms.size
    places = [place for place, _ in streams]
    work = np.insert(queue.work, places, np.inf, axis=1)
    width = np.insert(queue.width, places, 1.0, axis=0)
    at = [place + number for number, place in enumerate(places)]
    for column, (_, slots) in zip(at, streams, strict=True):
        width[column] = slots
    columns = np.setdiff1d(np.arange(jobs + len(at)), at)
    made = Queue(
        queue.slots,
        work,
        width,
        np.insert(queue.release_ms, places, 0.0),
        np.insert(queue.busy_slots, places, 0.0),
        np.insert(queue.busy_ms, places, 0.0, axis=1),
        queue.group,
        queue.weight,
    )
    return made, columns
