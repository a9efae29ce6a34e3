"""How many slots a job should hold for the stages that come next, by the edges of its DAG.

A stage that is *ready* starts when its active parents end: all others have ended. By then its need, less the
slots that its own parents will hand over, must be held; slots on which other stages run do not count.
``schedcore.ledger.LedgerDemand`` is the twin.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

from spark_sched_lab.enforce.task_shape import ANY_SHAPE, TaskShape

if TYPE_CHECKING:
    from spark_sched_lab.enforce.ledger_state import LedgerJob, LedgerStage

# Prefix of the successor of a stage whose successors the DAG does not show.
_UNNAMED = ">"

#: A stage that reads the output of an active one: its name in the DAG, the slots that its tasks need, whether
#: all of its other parents have started or ended, and, where that is known, what each of its tasks needs.
Next = tuple[str, int, bool] | tuple[str, int, bool, TaskShape]


class Successor:
    """A stage that has not started and reads what active stages write."""

    __slots__ = (
        "bounded", "handed", "known", "orphan_ms", "parents", "ready", "shape", "shaped", "slots", "written"
    )  # fmt: skip

    def __init__(self) -> None:
        self.slots = 0
        self.known = True  # how many slots it needs
        self.bounded = False  # that is no more than a bound
        self.ready = False
        self.shape = ANY_SHAPE
        self.shaped = False  # not every slot that its parents free is one for its tasks
        self.parents: dict[str, LedgerStage] = {}  # the active ones
        self.handed: dict[int, int] = {}  # slots of parents that ended while it was ready, by their index
        self.orphan_ms: int | None = None  # since when no parent is active
        self.written: set[str] = set()  # shuffles that it reads, where no DAG names it


class JobDemand:
    """The slots that one job should have in all, held and running, for its stages and their successors."""

    __slots__ = ("overridden", "peak_slots", "slots", "successors")

    def __init__(self) -> None:
        # As of the last stage: between two Spark jobs it is all that is known.
        self.slots = 0
        self.peak_slots = 0  # the most that ran at once
        self.successors: dict[str, Successor] = {}  # by their place in the DAG
        # Held slots that a higher priority took: the job takes them back as they are released.
        self.overridden = 0


class Edge(NamedTuple):
    """The need of one successor, and the active stages that hand their slots over to it.

    Attributes:
        need: slots.
        parents: the active stages.
        given: slots that parents handed over which ended.
        past: it is known, and its parents are past the threshold of pre-reservation.
        shape: what each of its tasks needs.
    """

    need: int
    parents: tuple[LedgerStage, ...]
    given: int
    past: bool
    shape: TaskShape


def lacking(edges: Sequence[tuple[int, Sequence[LedgerStage]]], have: Callable[[LedgerStage], int]) -> int:
    """The least number of slots that, beside ``have`` slots of each stage, suffices for all successors.

    A slot goes to one successor, so this is the sum of the needs less the largest flow from stages to
    successors.
    """
    if len(edges) == 1:
        need, parents = edges[0]
        return max(0, need - sum(map(have, parents)))
    left: dict[LedgerStage, int] = {p: have(p) for _, parents in edges for p in parents}
    flow: dict[tuple[int, LedgerStage], int] = {}

    def hand_over(to: int, slots: int, tried: set[LedgerStage]) -> int:
        """Up to ``slots`` more for one successor, by taking other successors' from a parent that both share
        and giving them those of another one."""
        for p in edges[to][1]:
            if p in tried:
                continue
            tried.add(p)
            found = min(slots, left[p])
            if found:
                left[p] -= found
            else:
                for other in range(len(edges)):
                    taken = flow.get((other, p), 0)
                    if other != to and taken:
                        found = hand_over(other, min(slots, taken), tried)
                        if found:
                            flow[other, p] -= found
                            break
            if found:
                flow[to, p] = flow.get((to, p), 0) + found
                return found
        return 0

    short = 0
    for number, (need, _) in enumerate(edges):
        open_ = need
        while open_ and (found := hand_over(number, open_, set())):
            open_ -= found
        short += open_
    return short


def started(
    j: LedgerJob, p: LedgerStage, vertex: str, successors: Sequence[Next], reads: Collection[str] = ()
) -> None:
    """A stage started: it waits for no stage now, and these wait for it. ``reads`` are its shuffles."""
    waiting = j.demand.successors
    if waiting.pop(vertex, None) is None:
        orphans = [(name, s.written) for name, s in waiting.items() if _is_unnamed(name) and not s.parents]
        # An unnamed successor whose shuffles this stage reads is this stage. If there is none, this stage is
        # taken for the first unnamed successor without known shuffles.
        reader = [name for name, written in orphans if not written.isdisjoint(reads)]
        for name in reader or [name for name, written in orphans if not written][:1]:
            del waiting[name]
    if not successors:
        successors = ((_UNNAMED + p.key, 0, True),)
    for name, slots, ready, *shape in successors:
        s = waiting.get(name)
        if s is None:
            s = waiting[name] = Successor()
        s.slots, s.ready, s.orphan_ms = slots, ready, None
        s.parents[p.key] = p
        s.handed.pop(p.index, None)
        if p.following.reads is not None and _is_unnamed(name):
            s.written.add(p.following.reads)
        s.shape = shape[0] if shape else TaskShape(p.slots_per_task, 1, p.profile)
        s.shaped = bool(shape) and (s.shape.slots > 1 or s.shape.profile != p.profile)


def stopped(j: LedgerJob, p: LedgerStage, now_ms: int) -> None:
    """The stage ended: well, and its successors are about to start, or otherwise."""
    well = len(p.done) == p.tasks
    for name, s in list(j.demand.successors.items()):
        if s.parents.pop(p.key, None) is None:
            continue
        if well and s.ready:
            s.handed[p.index] = p.slots
        if not s.parents:
            s.orphan_ms = now_ms
            if not well or (_is_unnamed(name) and p.is_last()):
                del j.demand.successors[name]


def learned(p: LedgerStage, vertex: str, slots: int | None, ready: bool, inputs: Sequence[str]) -> None:
    """Add a reader of the stage's output and of ``inputs``, known only while the stage runs: no DAG names it
    before it starts."""
    waiting = p.job.demand.successors
    name = _UNNAMED + vertex
    for at, other in list(waiting.items()):
        if at != name and other.parents.pop(p.key, None) is not None and not other.parents:
            del waiting[at]
    s = waiting.setdefault(name, Successor())
    s.ready, s.orphan_ms = ready, None
    s.parents[p.key] = p
    if p.following.reads is not None:
        s.written.add(p.following.reads)
    s.shape = TaskShape(p.slots_per_task, 1, p.profile)
    # The need that was assumed after an ended input is this need, and the input's slots were handed over to
    # it.
    for at in (_UNNAMED + key for key in inputs):
        if at != name and at in waiting:
            own = waiting.pop(at)
            s.parents.update(own.parents)
            s.handed.update(own.handed)
            s.written |= own.written
    if slots is not None:
        for parent in s.parents.values():
            parent.following.learned = slots
        # Slots that were pre-reserved for a larger n and are released again do not count against n - m.
        p.pre_reserved = min(p.pre_reserved, max(0, slots - p.slots))


def refresh(j: LedgerJob, now_ms: int) -> None:
    """Set the number of slots that the job may have in all, held and running."""
    rest = max((n for n, _, _ in _rests(j)), default=0)
    next_ = edges(j, now_ms)
    # Where slots must fit, `ledger_fit` says which are held: this bounds their number.
    more = sum(e.shape.round_up(e.need) for e in next_) if shaped(j) else lacking(_needs(next_), _left)
    # Tasks that wait for a slot may use what is held, and a failed task's slot is kept for its retry.
    j.demand.slots = max(left(j) + more, rest)


def shaped(j: LedgerJob) -> bool:
    """Whether the slots that a next stage of the job needs are not simply those that its parents free, or
    those of another one are of another resource profile."""
    profile: int | None = None
    for s in j.demand.successors.values():
        if s.shaped or profile not in (None, s.shape.profile):
            return True
        profile = s.shape.profile
    return False


def needed_after(p: LedgerStage, now_ms: int) -> int:
    """Slots that must be held for the stages that read the output of ``p``."""
    j = p.job
    own = _needs([e for e in edges(j, now_ms) if p in e.parents])
    rest = p.rest()[0] - left(j) if _goes_on(j) else 0
    return max(lacking(own, _left) if own else 0, rest, 0)


def wanted(j: LedgerJob, now_ms: int) -> int:
    """How many slots released by other jobs this one wants beside its own (Algorithm 1, lines 14-17)."""
    open_ = j.demand.slots - j.running - j.held
    if not j.may_hold or j.deadline_ms <= now_ms or open_ <= 0:
        return 0
    if not j.stages:
        return min(j.demand.overridden, open_)
    most = j.demand.overridden
    reserved = sum(p.pre_reserved for p in j.stages.values())
    next_ = edges(j, now_ms)
    if any(e.past for e in next_):
        # Before the threshold a successor gets the slots of its parents and no other ones.
        needs = [e.need if e.past else min(e.need, _slots(e.parents) + e.given) for e in next_]
        now = [(n, e.parents) for n, e in zip(needs, next_, strict=True)]
        more = [(max(0, n - e.given), e.parents) for n, e in zip(needs, next_, strict=True)]
        most = max(most, min(lacking(now, _left) - j.held, lacking(more, _all) - reserved))
    for n, known, p in _rests(j):
        if known and p.past_threshold():
            most = max(most, min(n - left(j) - j.held, n - _sum(j, _all) - reserved))
    return min(most, open_)


def owners(j: LedgerJob) -> Collection[LedgerStage]:
    """The active stages whose deadlines are those of the job's holds: what another one of its stages still
    has to do says nothing of how long they wait.

    A stage owns what its ended tasks left, with the other parents of the stage that waits for it, and what
    its own tasks wait to start on. Without any owner all stages count.
    """
    active = j.stages.values()
    if len(active) == 1:
        return active
    begun = {p.key: p for p in active if p.done and not p.is_last()}
    found = begun | {p.key: p for p in active if p.waits()}
    for s in j.demand.successors.values():
        if s.ready and not begun.keys().isdisjoint(s.parents):
            found |= {key: p for key, p in s.parents.items() if not p.is_last()}
    return found.values() or active


def due_by_ms(j: LedgerJob) -> list[int]:
    """Until when slots wait for the stages that the DAG says start now, since their parents have ended."""
    waiting = j.demand.successors.items()
    return [
        s.orphan_ms + j.rule.gap_ms
        for name, s in waiting
        if s.ready and s.orphan_ms is not None and not _is_unnamed(name)
    ]


def left(j: LedgerJob) -> int:
    """Slots of the job's tasks that are not done."""
    return _sum(j, _left)


def edges(j: LedgerJob, now_ms: int) -> list[Edge]:
    """The stages that start when the active ones end; those that did not start in time are forgotten."""
    found = []
    waiting = j.demand.successors
    for name, s in list(waiting.items()):
        if s.orphan_ms is not None and s.orphan_ms + j.rule.gap_ms <= now_ms:
            del waiting[name]  # it did not start in time
        elif s.ready and not _ends_at(name, s):
            parents = tuple(s.parents.values())
            if _is_unnamed(name) and parents:
                reported = [n for p in parents if (n := p.next_slots()) is not None]
                s.known = bool(reported)
                s.bounded = any(p.next_is_bound() for p in parents) and all(
                    p.next_slots() is None or p.next_is_bound() for p in parents
                )
                # With n unknown the paper expects m again.
                s.slots = max(reported or [p.slots for p in parents])
            given = sum(s.handed.values())
            # While another stage runs, which may be the other input, only what the parents handed over is
            # kept for a mere bound.
            if s.bounded and not parents and j.stages:
                found.append(Edge(min(s.slots, given), parents, given, False, s.shape))
                continue
            past = s.known and all(p.past_threshold() for p in parents)
            found.append(Edge(s.slots, parents, given, past, s.shape))
    return found


def _ends_at(name: str, s: Successor) -> bool:
    """Whether the successor is unnamed and all its parents are the last stages of their job."""
    return _is_unnamed(name) and bool(s.parents) and all(p.is_last() for p in s.parents.values())


def _is_unnamed(name: str) -> bool:
    return name.startswith(_UNNAMED)


def _goes_on(j: LedgerJob) -> bool:
    """Whether another action may follow, which no DAG shows."""
    return j.rule.whole_job and j.marked


def _rests(j: LedgerJob) -> list[tuple[int, bool, LedgerStage]]:
    """The need of a marked job's next action: by stage, its slots and whether the number is known."""
    return [(*p.rest(), p) for p in j.stages.values() if not p.is_last()] if _goes_on(j) else []


def _needs(next_: Sequence[Edge]) -> list[tuple[int, tuple[LedgerStage, ...]]]:
    return [(e.need, e.parents) for e in next_]


def _left(p: LedgerStage) -> int:
    return (p.tasks - len(p.done)) * p.slots_per_task


def _all(p: LedgerStage) -> int:
    return p.slots


def _slots(parents: Sequence[LedgerStage]) -> int:
    return sum(p.slots for p in parents)


def _sum(j: LedgerJob, of: Callable[[LedgerStage], int]) -> int:
    return sum(map(of, j.stages.values()))
