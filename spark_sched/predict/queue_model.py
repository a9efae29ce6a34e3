"""A queue of jobs played forward: when each one starts and ends, in many samples at once.

The model is fluid. A job is a chain of *segments*, one for each stage or for several, with a number of
slot-milliseconds and the most slots on which they can run at once. All samples are played together, each
with a clock of its own, from event to event. An event is the end of a segment or a release. The slots go to
groups of jobs by weight (max-min fair), and within a group to jobs in their order, as many as each can use.
So one group is a priority queue, and a group for each job is processor sharing. Groups may be parts of
others, with floors and ceilings (`Layer`), and jobs may share limits whatever groups they are in (`Limit`).

Between two segments a job may wait until tasks of others end (`Queue.barrier_ms`): they have got the slots
that it left idle, and keep them.

With many jobs there are too many events. A step then lasts for a small part of the time played so far, and
what a job leaves of its part of the step goes to the next one. The error of a time is about that part of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from spark_sched.arrays import Bools, Floats, Ints

_T = TypeVar("_T", bound=np.generic)

#: Steps from event to event; after these, steps lengthen. Most steps of one play.
EXACT_STEPS = 64
MOST_STEPS = 200
#: By how much of the time played so far a lengthened step goes on, at least. It is more where the queue would
#: not be played to its end in these steps, but for the last ones, which are for what the bound of it missed.
_LENGTHENS = 0.05
_LAST_STEPS = 16
#: Part of the slots that is left, at least, beside work without an end, in the bound of the queue's end.
_LEAST_FREE = 0.05
#: Rounds of water-filling. Each finds at least one group that needs less than its part; few are exact.
_FILLINGS = 5
#: Jobs of a queue without groups that are looked at from the start, and how many more at a time.
_FRONT = 16
_NOTHING = 1e-9


@dataclass(frozen=True, slots=True)
class Layer:
    """Nodes of a tree that divide slots among the nodes below them; those of a parent follow each other.

    Attributes:
        parent: of each node, its number in the layer above, rising from 0; the root is the only one there.
        weight: of each node, above 0.
        floor: slots that it gets before its siblings have more than theirs.
        ceiling: the most slots that it gets; infinite: no limit.
    """

    parent: Ints
    weight: Floats
    floor: Floats
    ceiling: Floats


@dataclass(frozen=True, slots=True)
class Limit:
    """What some of the jobs may have together.

    Attributes:
        jobs: their columns, in the order in which they are admitted.
        slots: the most slots; infinite: no limit.
        running: the most of them that run until they end; None: no limit.
    """

    jobs: Ints
    slots: float
    running: int | None


@dataclass(frozen=True, slots=True)
class Queue:
    """S samples of J jobs of up to K segments. Jobs of a group follow each other, in their order.

    Attributes:
        slots: of the cluster.
        work: slot-milliseconds of segments, shape (S, J, K); 0: the segment does not exist. Infinite work is
            that of a job of which nothing is known: it keeps its slots for ever.
        width: most slots of a segment, shape (J, K), above 0.
        release_ms: when a job may start, from now, shape (J,) or (S, J); infinite: nobody knows.
        busy_slots: slots on which a job's tasks run now, shape (J,). No other job gets them before
            ``busy_ms`` is over, shape (S, J).
        group: where each group begins among the jobs, rising from 0.
        weight: of each group, above 0.
        layers: those above the groups, from the top down to the groups themselves; empty: all groups are
            siblings, without floors and ceilings.
        limits: of jobs, those of the lower queues first.
        comes: whether a column is of jobs that have yet to come, shape (J,); None: none is.
        barrier_ms: how long a job waits for slots at the beginning of each segment but its first if it needs
            all slots and others have them, shape (J,); if it lacks fewer, for that part of this time. None:
            no job waits.
    """

    slots: float
    work: Floats
    width: Floats
    release_ms: Floats
    busy_slots: Floats
    busy_ms: Floats
    group: Ints
    weight: Floats
    layers: tuple[Layer, ...] = ()
    limits: tuple[Limit, ...] = ()
    comes: Bools | None = None
    barrier_ms: Floats | None = None

    @property
    def plain(self) -> bool:
        """Whether nothing but groups and weights divides the slots."""
        return not self.layers and not self.limits

    @property
    def releases_ms(self) -> Floats:
        """Shape (S, J)."""
        return np.broadcast_to(self.release_ms, self.work.shape[:2])


@dataclass(frozen=True, slots=True)
class Played:
    """Milliseconds from now until each job starts and ends, shape (S, J); infinite: not in this model."""

    start_ms: Floats
    end_ms: Floats


def play(queue: Queue) -> Played:
    """The queue until all of its jobs have ended, except those that wait for a job that never does."""
    samples, jobs, _ = queue.work.shape
    played = Played(np.full((samples, jobs), np.inf), np.full((samples, jobs), np.inf))
    if not jobs or queue.slots <= 0.0:
        return played
    state = _State(queue, played)
    for step in range(MOST_STEPS):
        if not state.advance(step):
            break
    return played


class _State:
    """What is left at each sample's clock, of the jobs that may have slots by now. The columns are jobs."""

    def __init__(self, queue: Queue, played: Played) -> None:
        samples, jobs, _ = queue.work.shape
        self._queue, self._played = queue, played
        self._clock = np.zeros(samples)
        self._over_by: Floats | None = None
        self._busy = bool(queue.busy_slots.any())
        self._released = not queue.release_ms.any()
        self._group_of = np.repeat(np.arange(queue.group.size), np.diff(np.append(queue.group, jobs)))
        self._behind = np.empty(0, dtype=np.int64)
        self._jobs = np.empty(0, dtype=np.int64)
        empty = np.empty((samples, 0))
        self._left, self._width, self._resumes = empty, empty, empty
        self._at = empty.astype(np.int64)
        self._started, self._ended = empty.astype(np.bool_), empty.astype(np.bool_)
        first = np.ones(jobs, dtype=np.bool_)
        if queue.group.size == 1 and self._released and queue.plain:
            # Nobody behind the front gets slots until the front leaves some.
            first[_FRONT:] = queue.busy_slots[_FRONT:] > 0.0
            self._behind = np.flatnonzero(~first)
        self._open(np.flatnonzero(first))

    def advance(self, number: int) -> bool:
        """One step of every sample, of this number; false: there is nothing left that could happen."""
        if number % 4 == 3:
            self._drop_ended()
        # 1. How long until the next event of each sample.
        lasts = self._until_event()
        if not np.isfinite(lasts).any():
            return False
        step = np.where(np.isfinite(lasts), lasts, 0.0)
        if number >= EXACT_STEPS:
            step = np.where(step > 0.0, np.maximum(step, self._lengthened(number)), 0.0)
        # 2. What each job gets in this time. Slots go by what is left of the work, so that a step that is
        # longer than a segment wastes none.
        while True:
            width = self._usable_width()
            wanted = np.minimum(self._after_barriers(width, step), self._left)
            if not self._behind.size or (wanted.sum(axis=1) >= self._queue.slots * step).all():
                break
            self._open_more()
        kept = None
        if self._busy:
            kept = np.minimum(self._kept(width) * step[:, None], wanted)
        given = self._shared(wanted, step, kept)
        new = (given > _NOTHING) & ~self._started
        if new.any():
            sample, column = np.nonzero(new)
            self._played.start_ms[sample, self._jobs[column]] = self._clock[sample]
            self._started |= new
        self._left -= given
        self._clock += step
        # 3. The ends of segments and of jobs.
        over = (self._left <= _NOTHING * max(1.0, self._queue.slots)) & ~self._ended
        if over.any():
            self._go_on(*np.nonzero(over))
            if self._queue.barrier_ms is not None:
                self._wait_at_barriers(over & ~self._ended, width, self._queue.barrier_ms)
        return True

    def _wait_at_barriers(self, at: Bools, width: Floats, barrier_ms: Floats) -> None:
        """Let jobs wait that have begun a segment, for slots of others, who could use ``width``."""
        sample, column = np.nonzero(at)
        slots = self._queue.slots
        others = width[sample].sum(axis=1) - width[sample, column]
        needs = np.minimum(self._width[sample, column], slots)
        if self._queue.weight.size == self._group_of.size:
            # With a group for each job it gets no more than its part.
            alive = np.where(width > 0.0, self._queue.weight[self._jobs], 0.0).sum(axis=1)[sample]
            part = self._queue.weight[self._jobs[column]] / np.maximum(alive, _NOTHING)
            needs = np.minimum(needs, slots * part)
        lacks = np.maximum(0.0, needs - np.maximum(0.0, slots - others))
        wait = barrier_ms[self._jobs[column]] * lacks / slots
        self._resumes[sample, column] = self._clock[sample] + wait

    def _lengthened(self, number: int) -> Floats:
        """The least time that the step of this number lasts, by sample."""
        if self._over_by is None:
            self._over_by = _over_by_ms(self._queue)
        times = np.maximum(1.0, self._over_by / np.maximum(self._clock, _NOTHING))
        growth = times ** (1.0 / max(1, MOST_STEPS - _LAST_STEPS - number)) - 1.0
        return np.asarray(np.maximum(_LENGTHENS, growth) * self._clock)

    def _until_event(self) -> Floats:
        while True:
            width = self._usable_width()
            if self._queue.barrier_ms is not None:
                width = np.where(self._resumes > self._clock[:, None] + _NOTHING, 0.0, width)
            if not self._behind.size or (width.sum(axis=1) >= self._queue.slots).all():
                break
            self._open_more()
        rate = self._shared(width, np.ones(self._clock.size), self._kept(width) if self._busy else None)
        lasts = np.full_like(rate, np.inf)
        np.divide(self._left, rate, out=lasts, where=rate > _NOTHING)
        until = lasts.min(axis=1, initial=np.inf)
        if not self._released:
            wait = self._queue.releases_ms[:, self._jobs] - self._clock[:, None]
            wait = np.where((wait > _NOTHING) & ~self._ended, wait, np.inf)
            until = np.minimum(until, wait.min(axis=1, initial=np.inf))
        if self._queue.barrier_ms is not None:
            wait = self._resumes - self._clock[:, None]
            wait = np.where((wait > _NOTHING) & ~self._ended, wait, np.inf)
            until = np.minimum(until, wait.min(axis=1, initial=np.inf))
        if self._busy:
            wait = np.where(self._ended, np.inf, self._queue.busy_ms[:, self._jobs] - self._clock[:, None])
            wait = np.where(wait > _NOTHING, wait, np.inf)
            until = np.minimum(until, wait.min(axis=1, initial=np.inf))
        return np.asarray(until)

    def _usable_width(self) -> Floats:
        width = self._width
        if not self._released:
            ready = self._clock[:, None] >= self._queue.releases_ms[:, self._jobs] - _NOTHING
            self._released = bool((ready | self._ended).all())
            width = np.where(ready, width, 0.0)
        return self._admitted(width) if self._queue.limits else width

    def _after_barriers(self, width: Floats, step: Floats) -> Floats:
        """Slot-time that jobs can use in this step of each sample."""
        if self._queue.barrier_ms is None:
            return width * step[:, None]
        return width * np.clip((self._clock + step)[:, None] - self._resumes, 0.0, step[:, None])

    def _admitted(self, width: Floats) -> Floats:
        """Without the jobs that wait until others of their queue end. Those that come later wait behind."""
        width = width.copy()
        for limit in self._queue.limits:
            if limit.running is None:
                continue
            at = self._columns(limit)
            runs = (width[:, at] > 0.0) & (np.cumsum(width[:, at] > 0.0, axis=1) <= limit.running)
            width[:, at] = np.where(runs, width[:, at], 0.0)
        return width

    def _columns(self, limit: Limit) -> Ints:
        """Where the jobs of the limit are now, in its order."""
        place = np.full(self._group_of.size, -1, dtype=np.int64)
        place[self._jobs] = np.arange(self._jobs.size)
        at = place[limit.jobs]
        return np.asarray(at[at >= 0])

    def _kept(self, width: Floats) -> Floats:
        """Slots that running tasks do not give up."""
        left = self._queue.busy_ms[:, self._jobs] > self._clock[:, None] + _NOTHING
        self._busy = bool((left & ~self._ended).any())
        return np.minimum(np.where(left, self._queue.busy_slots[self._jobs], 0.0), width)

    def _shared(self, wanted: Floats, time: Floats, kept: Floats | None) -> Floats:
        """The slots for this time, shape (S,), divided among jobs that want that much; first what they keep
        anyway."""
        there_is = self._queue.slots * time
        if kept is not None:
            total = kept.sum(axis=1)
            # More slots may be busy than there are, after an executor was lost.
            kept = kept * np.minimum(1.0, there_is / np.maximum(total, _NOTHING))[:, None]
        if self._queue.layers and wanted.size:
            return self._by_layers(wanted, time, np.zeros_like(wanted) if kept is None else kept)
        if kept is None:
            return self._by_groups(self._capped(wanted, time, None), there_is)
        more = self._capped(wanted - kept, time, kept)
        return np.asarray(kept + self._by_groups(more, np.maximum(0.0, there_is - total)))

    def _capped(self, wanted: Floats, time: Floats, kept: Floats | None) -> Floats:
        """No more than the limits of slots leave, beside what is kept."""
        limits = [limit for limit in self._queue.limits if np.isfinite(limit.slots)]
        capped = wanted.copy() if limits else wanted
        for limit in limits:
            at = np.sort(self._columns(limit))
            if not at.size:
                continue
            room = limit.slots * time
            if kept is not None:
                room = np.maximum(0.0, room - kept[:, at].sum(axis=1))
            if self._queue.weight.size == 1:
                capped[:, at] = _in_order(capped[:, at], room[:, None])
            else:
                capped[:, at] = filled(
                    capped[:, at], room, self._queue.weight[self._group_of[self._jobs[at]]]
                )
        return capped

    def _by_groups(self, wanted: Floats, there_is: Floats) -> Floats:
        groups = self._queue.weight.size
        if groups == 1:
            return _in_order(wanted, there_is[:, None])
        if groups == self._group_of.size:
            return filled(wanted, there_is, self._queue.weight[self._jobs])
        of = self._group_of[self._jobs]
        starts = np.flatnonzero(np.diff(of, prepend=-1))
        parts = filled(np.add.reduceat(wanted, starts, axis=1), there_is, self._queue.weight[of[starts]])
        return _in_groups(wanted, parts, starts)

    def _by_layers(self, wanted: Floats, time: Floats, kept: Floats) -> Floats:
        # 1. From the bottom up: what each node wants and keeps, no more than its ceiling.
        of = self._group_of[self._jobs]
        below = starts = np.flatnonzero(np.diff(of, prepend=-1))
        nodes = of[starts]
        wants, keeps, steps = wanted, kept, []
        for layer in reversed(self._queue.layers):
            keeps = np.add.reduceat(keeps, below, axis=1)
            most = np.maximum(keeps, np.minimum(layer.ceiling[nodes], self._queue.slots) * time[:, None])
            wants = np.minimum(np.add.reduceat(wants, below, axis=1), most)
            parents = layer.parent[nodes]
            below = np.flatnonzero(np.diff(parents, prepend=-1))
            floors = np.minimum(wants, layer.floor[nodes] * time[:, None])
            steps.append((wants, np.maximum(keeps, floors), layer.weight[nodes], below))
            nodes = parents[below]
        # 2. From the top down: parts by floors and weights.
        parts = np.asarray((self._queue.slots * time)[:, None])
        for wants, least, weight, below in reversed(steps):
            edges = [*below.tolist(), weight.size]
            parts = np.concatenate(
                [
                    parts_of(wants[:, a:b], least[:, a:b], parts[:, number], weight[a:b])
                    for number, (a, b) in enumerate(pairwise(edges))
                ],
                axis=1,
            )
        # 3. In each group in order, beside what is kept.
        more = _in_groups(wanted - kept, parts - np.add.reduceat(kept, starts, axis=1), starts)
        return np.asarray(kept + more)

    def _go_on(self, sample: Ints, column: Ints) -> None:
        """To the next segments of these jobs; or they end."""
        segments = self._queue.work.shape[2]
        while sample.size:
            self._at[sample, column] += 1
            at = self._at[sample, column]
            done = at >= segments
            if done.any():
                ended_sample, ended_column = sample[done], column[done]
                self._ended[ended_sample, ended_column] = True
                self._left[ended_sample, ended_column] = self._width[ended_sample, ended_column] = 0.0
                self._played.end_ms[ended_sample, self._jobs[ended_column]] = self._clock[ended_sample]
                sample, column, at = sample[~done], column[~done], at[~done]
            job = self._jobs[column]
            left = self._queue.work[sample, job, at]
            self._left[sample, column] = left
            self._width[sample, column] = self._queue.width[job, at]
            empty = left <= _NOTHING
            sample, column = sample[empty], column[empty]

    def _open_more(self) -> None:
        count = max(_FRONT, self._jobs.size)
        opened, self._behind = self._behind[:count], self._behind[count:]
        self._open(opened)

    def _open(self, jobs: Ints) -> None:
        """Add these jobs, in the order of all."""
        queue, samples, known = self._queue, self._clock.size, self._jobs.size
        shape = (samples, jobs.size)
        order = np.argsort(np.concatenate((self._jobs, jobs)), kind="stable")
        self._jobs = np.concatenate((self._jobs, jobs))[order]

        def joined(old: NDArray[_T], new: NDArray[_T]) -> NDArray[_T]:
            return np.concatenate((old, new), axis=1)[:, order]

        self._left = joined(self._left, queue.work[:, jobs, 0])
        self._width = joined(self._width, np.broadcast_to(queue.width[jobs, 0], shape))
        self._at = joined(self._at, np.zeros(shape, dtype=np.int64))
        self._resumes = joined(self._resumes, np.zeros(shape))
        self._started = joined(self._started, np.zeros(shape, dtype=np.bool_))
        self._ended = joined(self._ended, np.zeros(shape, dtype=np.bool_))
        empty = (self._left <= _NOTHING) & (order >= known)
        if empty.any():
            self._go_on(*np.nonzero(empty))

    def _drop_ended(self) -> None:
        kept: Bools = np.asarray(np.logical_not(np.all(self._ended, axis=0)))
        if kept.all():
            return
        self._jobs = self._jobs[kept]
        self._at, self._left, self._width = self._at[:, kept], self._left[:, kept], self._width[:, kept]
        self._resumes = self._resumes[:, kept]
        self._ended, self._started = self._ended[:, kept], self._started[:, kept]


def _over_by_ms(queue: Queue) -> Floats:
    """When all jobs that end at all have ended, nearly, shape (S,): all work on all slots, and after it the
    longest job (Graham, 1966). A factor of 2 more lengthens steps by half a percent."""
    endless: Bools = np.asarray(np.isinf(queue.work))
    work = np.where(endless, 0.0, queue.work)
    taken = np.where(endless.any(axis=(0, 2)), queue.width.max(axis=1), 0.0).sum()
    free = max(_LEAST_FREE * queue.slots, queue.slots - float(taken))
    longest = (work / np.minimum(queue.width, free)).sum(axis=2).max(axis=1)
    released = np.where(np.isfinite(queue.releases_ms), queue.releases_ms, 0.0).max(axis=1)
    busy = np.where(np.isfinite(queue.busy_ms), queue.busy_ms, 0.0).max(axis=1)
    return np.asarray(work.sum(axis=(1, 2)) / free + longest + released + busy)


def _in_order(wanted: Floats, there_is: Floats) -> Floats:
    """The first get all that they want, the others what is left."""
    upto = np.minimum(np.cumsum(wanted, axis=1), there_is)
    upto[:, 1:] -= upto[:, :-1].copy()
    return np.asarray(upto)


def _in_groups(wanted: Floats, parts: Floats, starts: Ints) -> Floats:
    """The parts of groups, shape (S, G), given to their jobs in order."""
    sizes = np.diff(np.append(starts, wanted.shape[1]))
    before = np.cumsum(wanted, axis=1) - wanted
    before -= np.repeat(before[:, starts], sizes, axis=1)
    return np.asarray(np.clip(np.repeat(parts, sizes, axis=1) - before, 0.0, wanted))


def parts_of(wanted: Floats, least: Floats, there_is: Floats, weight: Floats) -> Floats:
    """Parts of siblings, shape (S, N), of what their parent has, shape (S,): ``least`` first, and then by
    weight, so that each has ``min(wanted, max(least, level * weight))``.

    Args:
        least: no more than ``wanted``; reduced evenly where it is more than there is.
    """
    if wanted.shape[1] == 1:
        return np.minimum(wanted, there_is[:, None])
    promised = least.sum(axis=1)
    least = least * np.minimum(1.0, there_is / np.maximum(promised, _NOTHING))[:, None]
    # What all have together rises with the level, by the weights of those between the two bounds of theirs.
    bounds = np.concatenate((least / weight, wanted / weight), axis=1)
    order = np.argsort(bounds, axis=1)
    bounds = np.take_along_axis(bounds, order, axis=1)
    slope = np.cumsum(np.concatenate((weight, -weight))[order], axis=1)[:, :-1]
    have = np.zeros_like(bounds)
    np.cumsum(np.maximum(slope, 0.0) * np.diff(bounds, axis=1), axis=1, out=have[:, 1:])
    have += least.sum(axis=1, keepdims=True)
    enough = np.minimum(there_is, wanted.sum(axis=1))
    below = np.clip((have < enough[:, None]).sum(axis=1) - 1, 0, slope.shape[1] - 1)
    rows = np.arange(below.size)
    rises = np.maximum(slope[rows, below], _NOTHING * weight.max())
    level = bounds[rows, below] + np.maximum(0.0, enough - have[rows, below]) / rises
    return np.asarray(np.clip(level[:, None] * weight, least, np.maximum(least, wanted)))


def filled(wanted: Floats, there_is: Floats, weight: Floats) -> Floats:
    """Max-min fair parts: nobody gets more than ``wanted``, shape (S, G), and what some do not want goes to
    the others by their weights, shape (G,). ``there_is`` has shape (S,)."""
    # Only ratios of weights count, and they may be small.
    weight = weight / max(weight.max(initial=0.0), np.finfo(float).tiny)
    # The level is the part of the largest weight. It rises to the right one from below.
    level = there_is / max(1.0, float(weight.sum()))
    for _ in range(_FILLINGS):
        content = wanted <= level[:, None] * weight
        taken = np.where(content, wanted, 0.0).sum(axis=1)
        # Not as a difference, whose error may be larger than a weight.
        hungry = np.where(content, 0.0, weight).sum(axis=1)
        risen = np.full_like(level, np.inf)
        np.divide(there_is - taken, hungry, out=risen, where=hungry > 0.0)
        if (risen <= level * (1.0 + 1e-12)).all():
            break
        level = np.maximum(level, risen)
    return np.asarray(np.minimum(wanted, np.where(weight > 0.0, level[:, None] * weight, 0.0)))
