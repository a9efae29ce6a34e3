"""Which slots the tasks of the next stages fit (section III-C): executor by executor.

A slot fits a task if its executor has the resource profile that the task's stage asks for and is large
enough; a task of several slots needs them all on one executor. A job keeps the slots that tasks of its next
stages will take, releases those that are too small or of another profile at once, and pre-reserves others in
their place. Jobs whose next tasks all take one slot of one profile, the one that their parents free, need
none of this: ``ledger_demand`` counts slots for them. ``schedcore.ledger.LedgerFit`` is the twin.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from spark_sched_lab.enforce import ledger_demand
from spark_sched_lab.enforce.ledger_demand import shaped
from spark_sched_lab.enforce.ledger_state import LedgerAttempt, LedgerExecutor, LedgerJob
from spark_sched_lab.enforce.task_shape import TaskShape


class Place(NamedTuple):
    """The use of an ended attempt's slots for its job's next stages.

    Attributes:
        slots: of the attempt's slots those that next tasks will take.
        fits: whether a task of a next stage could run on that executor at all.
    """

    slots: int
    fits: bool


class Claims(NamedTuple):
    """Which slots a job's next tasks will take, by executor.

    Attributes:
        running: slots on which tasks run whose stages the next ones wait for.
        taken: slots of the job, held ones and those of ``running``, that next tasks take.
        lacking: slots of others that complete what a task needs beside those in ``taken``.
        open: tasks that no executor has slots of the job for.
    """

    running: dict[str, int]
    taken: dict[str, int]
    lacking: dict[str, int]
    open: list[tuple[TaskShape, int]]


def fits(shape: TaskShape, e: LedgerExecutor) -> bool:
    return e.open and e.profile == shape.profile and e.slots >= shape.least


def claims(
    j: LedgerJob, executors: Mapping[str, LedgerExecutor], now_ms: int, freed: LedgerAttempt | None = None
) -> Claims:
    """Assigns the job's slots to the tasks of its next stages, those with the largest tasks first.

    Args:
        j: the job.
        executors: all of them.
        now_ms: the time.
        freed: an attempt of the job that ended; its slots count as held.
    """
    edges = ledger_demand.edges(j, now_ms)
    # 1. The job's slots: those it holds, and those on which the parents of its next stages run.
    running: dict[str, int] = {}
    for p in {p.key: p for e in edges for p in e.parents}.values():
        for a in p.attempts.values():
            if not a.copy and a.index not in p.done:
                running[a.executor] = running.get(a.executor, 0) + a.slots
    held = {e.id: e.held_by.get(j, 0) for e in executors.values()}
    if freed is not None and freed.executor in held:
        held[freed.executor] += freed.slots
    own = {e: n + running.get(e, 0) for e, n in held.items()}
    found = Claims(running, dict.fromkeys(own, 0), {}, [])
    # The first slots to be freed are the first to go: those on which a task still runs are taken first.
    latest_first = sorted(executors.values(), key=lambda e: held[e.id])
    for edge in sorted(edges, key=lambda edge: -edge.shape.slots):
        shape = edge.shape
        fitting = [e for e in latest_first if fits(shape, e)]
        tasks = -(-edge.need // shape.slots)
        # 2. Whole tasks.
        for e in fitting:
            size = _size(shape, e)
            whole = min(tasks, own[e.id] // size)
            own[e.id] -= whole * size
            found.taken[e.id] += whole * size
            tasks -= whole
        # 3. Parts of tasks, the largest first: others release the rest.
        parts = [e for e in fitting if own[e.id] and _room(found, e) >= _size(shape, e)]
        for e in sorted(parts, key=lambda e: _size(shape, e) - own[e.id])[:tasks]:
            found.taken[e.id] += own[e.id]
            if edge.past:
                found.lacking[e.id] = found.lacking.get(e.id, 0) + _size(shape, e) - own[e.id]
            own[e.id] = 0
            tasks -= 1
        # 4. Tasks for which the job has nothing.
        if tasks and edge.past:
            found.open.append((shape, tasks))
    return found


def place_of(a: LedgerAttempt, executors: Mapping[str, LedgerExecutor], now_ms: int) -> Place | None:
    """The slots that an ended attempt leaves to the next stages; None where slots need only be counted."""
    j = a.stage.job
    if not shaped(j):
        return None
    e = executors.get(a.executor)
    if e is None:
        return Place(0, True)
    found = claims(j, executors, now_ms, freed=a)
    more = found.taken[e.id] - found.running.get(e.id, 0) - e.held_by.get(j, 0)
    return Place(max(0, min(a.slots, more)), any(fits(n.shape, e) for n in ledger_demand.edges(j, now_ms)))


def wanted_on(j: LedgerJob, e: LedgerExecutor, executors: Mapping[str, LedgerExecutor], now_ms: int) -> int:
    """Slots of an executor that a job which may still hold some wants beside its own (Algorithm 1, lines
    14-17)."""
    if not (j.stages or j.demand.overridden):
        return 0
    found = claims(j, executors, now_ms)
    if found.lacking.get(e.id, 0):
        return found.lacking[e.id]
    begun = (_size(s, e) for s, _ in found.open if fits(s, e) and _room(found, e) >= _size(s, e))
    return next(begun, 0)


def surplus(
    j: LedgerJob, executors: Mapping[str, LedgerExecutor], now_ms: int, freed: LedgerAttempt | None = None
) -> dict[str, int]:
    """Held slots, by executor, that neither a next task nor one that waits for a slot will take.

    ``freed`` is an attempt of the job that ended; its slots count as held.
    """
    found = claims(j, executors, now_ms, freed)
    waiting = max(0, ledger_demand.left(j) - j.running)
    over: dict[str, int] = {}
    for e in executors.values():
        n = e.held_by.get(j, 0)
        if n:
            beyond = n - max(0, found.taken[e.id] - found.running.get(e.id, 0))
            spared = min(waiting, beyond)
            waiting -= spared
            over[e.id] = beyond - spared
    return over


def _room(found: Claims, e: LedgerExecutor) -> int:
    return e.slots - found.taken[e.id] - found.lacking.get(e.id, 0)


def _size(shape: TaskShape, e: LedgerExecutor) -> int:
    # Whole slots round a large task's need up: one that fits may seem to need more than there is.
    return min(shape.slots, e.slots)
