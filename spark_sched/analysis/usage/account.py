"""The statement of account: every slot-millisecond of every executor is charged once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from spark_sched.analysis.usage.records import Attempt, Owner, Usage

__all__ = ["KINDS", "GroupBy", "Row", "Statement", "account"]

GroupBy: TypeAlias = Literal["user", "class", "name"]

#: What slot time went to. ``run``: attempts that completed a task, or still ran at the end. ``held``: slots
#: reserved for the job and idle. ``copies``: attempts that lost the race against their twin. ``evicted``:
#: killed attempts whose task ran again. ``failed``: attempts that failed or were lost with their executor.
#: ``cancelled``: killed attempts whose task never ran again.
KINDS = ("run", "held", "copies", "evicted", "failed", "cancelled")

_UNKNOWN = Owner("", "", "")
_OF: Mapping[GroupBy, Callable[[Owner], str]] = {
    "user": lambda owner: owner.user,
    "class": lambda owner: owner.job_class,
    "name": lambda owner: owner.name,
}


@dataclass(slots=True)
class Row:
    """The slot time of one group of jobs, in slot-milliseconds by kind."""

    group: tuple[str, ...]
    jobs: set[str] = field(default_factory=set)
    slot_ms: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))

    @property
    def total_ms(self) -> int:
        """All of it."""
        return sum(self.slot_ms.values())


@dataclass(frozen=True, slots=True)
class Statement:
    """Who used the slot time of all executors. Times are slot-milliseconds.

    ``capacity_ms`` is what the executors offered: the rows' totals, plus ``idle_ms`` (free and held for
    nobody), minus ``excess_ms`` (charged beyond what its executor offered: an attempt's end is logged a
    little later than its slot is given away), exactly.
    """

    by: tuple[GroupBy, ...]
    rows: tuple[Row, ...]
    capacity_ms: int
    idle_ms: int
    excess_ms: int
    has_holds: bool

    def total_ms(self, kind: str) -> int:
        """Slot time of one kind over all rows."""
        return sum(row.slot_ms[kind] for row in self.rows)


def account(usages: Iterable[Usage], by: Sequence[GroupBy] = ("name",)) -> Statement:
    """Charge all slot time of the applications to groups of jobs, the greatest first.

    What an attempt or a hold took outside its executor's presence is not charged.
    """
    rows: dict[tuple[str, ...], Row] = {}
    capacity_ms = idle_ms = excess_ms = 0
    has_holds = True
    for number, usage in enumerate(usages):
        has_holds &= usage.holds is not None
        charged: dict[str, int] = defaultdict(int)
        presence = {each.executor: each for each in usage.executors}
        for job, kind, executor, start_ms, end_ms, slots in _intervals(usage):
            there = presence.get(executor)
            if there is None:
                continue
            slot_ms = slots * max(0, min(end_ms, there.end_ms) - max(start_ms, there.start_ms))
            owner = usage.owners.get(job, _UNKNOWN)
            group = tuple(_OF[key](owner) for key in by)
            row = rows.setdefault(group, Row(group))
            row.jobs.add(f"{number}/{job}")
            row.slot_ms[kind] += slot_ms
            charged[executor] += slot_ms
        for there in usage.executors:
            offered_ms = there.slots * (there.end_ms - there.start_ms)
            capacity_ms += offered_ms
            idle_ms += max(0, offered_ms - charged[there.executor])
            excess_ms += max(0, charged[there.executor] - offered_ms)
    ordered = sorted(rows.values(), key=lambda row: (-row.total_ms, row.group))
    return Statement(tuple(by), tuple(ordered), capacity_ms, idle_ms, excess_ms, has_holds)


def _intervals(usage: Usage) -> Iterator[tuple[str, str, str, int, int, int]]:
    """(job, kind, executor, start in ms, end in ms, slots) of all attempts and holds."""
    by_task: dict[tuple[str, int], list[Attempt]] = defaultdict(list)
    for attempt in usage.attempts:
        by_task[attempt.stage, attempt.index].append(attempt)
    for attempts in by_task.values():
        attempts.sort(key=lambda attempt: attempt.end_ms)
        for place, a in enumerate(attempts):
            yield a.job, _kind(a, place, attempts), a.executor, a.start_ms, a.end_ms, a.slots
    for hold in usage.holds or ():
        yield hold.job, "held", hold.executor, hold.start_ms, hold.end_ms, 1


def _kind(attempt: Attempt, place: int, attempts: Sequence[Attempt]) -> str:
    """``attempts`` are those of one task in the order of their ends, this one at ``place``."""
    if attempt.outcome in ("failed", "lost"):
        return "failed"
    if attempt.outcome == "unknown":
        return "run"
    won_before = any(other.outcome == "success" for other in attempts[:place])
    if attempt.outcome == "success":
        return "copies" if won_before else "run"
    # A loser is killed once its twin has won; its end may be logged first.
    twins = (other for other in attempts if other is not attempt and other.outcome == "success")
    if any(other.start_ms < attempt.end_ms for other in twins):
        return "copies"
    again = any(other.start_ms >= attempt.end_ms for other in attempts if other is not attempt)
    return "evicted" if again else "cancelled"
