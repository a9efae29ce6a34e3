"""Long queues: the front is played event by event, and the rest follows from work and slots alone.

Behind a long queue, how wide a job is hardly matters for when it starts: all slots are busy with the work
before it. So its start is that work over the slots, and its end at least its own time later. With a group for
each job, the end is that of processor sharing: by then every job got as much as this one, or all it needs.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from spark_sched.arrays import Bools, Floats
from spark_sched.predict.queue_model import Played, Queue, play

#: Jobs that are played event by event: at the front of an order, and with a group for each.
FRONT_JOBS = 128
SHARING_JOBS = 48
#: Rounds in which the later jobs are found that have come by a start: each start makes more of them count.
_LATER_ROUNDS = 4
#: Less than this part of the slots is none: a job behind would wait without an end.
_LEAST_SHARE = 0.05


def play_many(queue: Queue) -> Played:
    """As `play`, in a time that grows little with the number of jobs."""
    jobs = queue.release_ms.size
    if queue.slots <= 0.0:
        return play(queue)
    if not queue.plain:
        return play(queue)
    if queue.weight.size == jobs > 1:
        shared = jobs > SHARING_JOBS and not queue.release_ms.any()
        return _without_starts(queue, _sharing(queue) if shared else play(queue))
    released = queue.release_ms if queue.comes is None else queue.release_ms[..., ~queue.comes]
    if released.any():
        return play(queue)
    if queue.weight.size == 1 and jobs > FRONT_JOBS + FRONT_JOBS // 4:
        return _in_order(queue)
    return play(queue)


def _alone_ms(queue: Queue) -> Floats:
    """Time of each job on as many slots as it can use, shape (S, J)."""
    return np.asarray((queue.work / queue.width).sum(axis=2))


def _in_order(queue: Queue) -> Played:
    front = replace(
        queue,
        work=queue.work[:, :FRONT_JOBS],
        width=queue.width[:FRONT_JOBS],
        release_ms=queue.release_ms[..., :FRONT_JOBS],
        busy_slots=queue.busy_slots[:FRONT_JOBS],
        busy_ms=queue.busy_ms[:, :FRONT_JOBS],
        barrier_ms=None if queue.barrier_ms is None else queue.barrier_ms[:FRONT_JOBS],
    )
    played = play(front)
    # Jobs without an end take slots from those behind them.
    endless: Bools = np.asarray(np.isinf(queue.work[:, :, 0]).any(axis=0))
    taken = np.cumsum(np.where(endless, queue.width[:, 0], 0.0))
    slots = queue.slots - taken
    slots = np.where(slots < _LEAST_SHARE * queue.slots, 0.0, slots)
    whole = np.where(endless, 0.0, queue.work.sum(axis=2))
    # Later jobs count where they have come by then.
    comes = np.zeros(whole.shape[1], dtype=np.bool_) if queue.comes is None else queue.comes
    total = np.where(comes, 0.0, whole)
    with np.errstate(divide="ignore", invalid="ignore"):
        lasts = np.where(total > 0.0, total / slots, 0.0)
    before = np.cumsum(lasts, axis=1) - lasts
    before = before + _later_before(queue, whole, before, slots)
    # The front takes longer than its work over the slots, since its stages leave slots idle.
    near = np.zeros_like(endless)
    near[FRONT_JOBS - FRONT_JOBS // 4 : FRONT_JOBS] = True
    near = near & ~endless & ~comes
    late = np.zeros((len(before), 1))
    if near.any():
        with np.errstate(invalid="ignore"):
            late = np.mean(played.start_ms[:, near[:FRONT_JOBS]] - before[:, near], axis=1, keepdims=True)
        late = np.where(np.isfinite(late), late, np.inf)
    behind = slice(FRONT_JOBS, None)
    start = np.maximum(0.0, before[:, behind] + late)
    end = start + np.maximum(_alone_ms(queue)[:, behind], lasts[:, behind])
    start[:, slots[behind] <= 0.0] = np.inf
    end[:, np.logical_or(slots[behind] <= 0.0, endless[behind])] = np.inf
    return Played(
        np.concatenate((played.start_ms, start), axis=1), np.concatenate((played.end_ms, end), axis=1)
    )


def _later_before(queue: Queue, work: Floats, before: Floats, slots: Floats) -> Floats:
    """Time that jobs which come later take from those behind them, as those are ``before`` their start."""
    more = np.zeros_like(before)
    if queue.comes is None:
        return more
    release, places = queue.releases_ms, np.flatnonzero(queue.comes)
    with np.errstate(divide="ignore", invalid="ignore"):
        for _ in range(_LATER_ROUNDS):
            start, more = before + more, np.zeros_like(before)
            for place in places:
                behind = slice(place + 1, None)
                comes = start[:, behind] > release[:, place, None]
                taken = np.where(work[:, place, None] > 0.0, work[:, place, None] / slots[behind], 0.0)
                more[:, behind] += np.where(comes, taken, 0.0)
    return more


def _without_starts(queue: Queue, played: Played) -> Played:
    """Without the starts of jobs whose part of the slots is less than one."""
    part = queue.slots * queue.weight / max(queue.weight.sum(), np.finfo(float).tiny)
    return Played(np.where(part < 1.0 - 1e-9, np.inf, played.start_ms), played.end_ms)


def _sharing(queue: Queue) -> Played:
    total = queue.work.sum(axis=2)
    each = total / queue.weight
    order = np.argsort(each, axis=1)
    levels = np.take_along_axis(each, order, axis=1)
    work = np.take_along_axis(total, order, axis=1)
    weights = queue.weight[order]
    # By a level v of work per weight, jobs of a lower one have all of theirs, the others v by their weight.
    done = np.cumsum(work, axis=1)
    rest = weights.sum(axis=1, keepdims=True) - np.cumsum(weights, axis=1)
    end = np.empty_like(total)
    with np.errstate(invalid="ignore"):
        shared = np.where(np.isfinite(levels), (done + levels * rest) / queue.slots, np.inf)
    np.put_along_axis(end, order, shared, axis=1)
    return Played(np.zeros_like(total), np.maximum(end, _alone_ms(queue)))
