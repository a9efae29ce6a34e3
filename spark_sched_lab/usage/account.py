"""The statement of account: every slot-millisecond of every executor is charged once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from spark_sched_lab.usage.expected import held_at_most_ms
from spark_sched_lab.usage.records import ChargedAttempt, Owner, Usage

GroupBy: TypeAlias = Literal["user", "class", "name", "stage", "executor", "queue"]

#: The kinds of slot time. ``run``: attempts that completed a task, or still ran at the end. ``held``: slots
#: reserved for the job and idle. ``copies``: attempts that lost the race against their twin. ``evicted``:
#: killed attempts whose task ran again. ``failed``: attempts that failed or were lost with their executor.
#: ``cancelled``: killed attempts whose task never ran again.
KINDS = ("run", "held", "copies", "evicted", "failed", "cancelled")

_UNKNOWN = Owner("", "", "")


class Charge(NamedTuple):
    """The slot time of an attempt or a hold: ``slots`` slots of an executor from ``start_ms`` to ``end_ms``.

    ``stage`` is empty for a hold. ``caused_by`` is the job for which slot time of kind ``evicted`` was lost,
    if recorded, else the job itself.
    """

    job: str
    kind: str
    stage: str
    executor: str
    start_ms: int
    end_ms: int
    slots: int
    caused_by: str


def group_of(usage: Usage, job: str, charge: Charge, by: Sequence[GroupBy]) -> tuple[str, ...]:
    """The group that a job's charge belongs to."""
    owner = usage.owners.get(job, _UNKNOWN)
    named = {"user": owner.user, "class": owner.job_class, "name": owner.name, "queue": owner.queue}
    named |= {"stage": charge.stage, "executor": charge.executor}
    return tuple(named[key] for key in by)


@dataclass(slots=True)
class GroupUsage:
    """The slot time of one group of jobs, in slot-milliseconds by kind."""

    group: tuple[str, ...]
    jobs: set[str] = field(default_factory=set)
    slot_ms: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    #: The upper bound on ``held`` by equation 4 (`held_at_most_ms`); None: the source does not record its
    #: inputs.
    held_at_most_ms: float | None = None
    #: Slot time that other jobs lost to evictions for these jobs; it is charged to the other jobs.
    caused_ms: int = 0

    @property
    def total_ms(self) -> int:
        return sum(self.slot_ms.values())


class Caused(NamedTuple):
    """Slot time of kind ``evicted`` that ``group`` lost for jobs of ``caused_by``."""

    group: tuple[str, ...]
    caused_by: tuple[str, ...]
    slot_ms: int


@dataclass(frozen=True, slots=True)
class Statement:
    """Who used the slot time of all executors. Times are slot-milliseconds.

    ``capacity_ms`` is what the executors offered: the rows' totals, plus ``idle_ms`` (free and held for
    no job), minus ``excess_ms`` (charged beyond what its executor offered: an attempt's end is logged a
    little later than its slot is given away), exactly. ``caused`` has the evictions of which the source
    records the beneficiary, the greatest first; ``has_causes``: whether all sources record it.
    """

    by: tuple[GroupBy, ...]
    rows: tuple[GroupUsage, ...]
    capacity_ms: int
    idle_ms: int
    excess_ms: int
    has_holds: bool
    caused: tuple[Caused, ...] = ()
    has_causes: bool = False

    def total_ms(self, kind: str) -> int:
        return sum(row.slot_ms[kind] for row in self.rows)


def account(usages: Iterable[Usage], by: Sequence[GroupBy] = ("name",)) -> Statement:
    """Charge all slot time of the applications to groups of jobs, the greatest first.

    Attempts are charged in full; of a hold, only its time within its executor's presence is charged.
    """
    rows: dict[tuple[str, ...], GroupUsage] = {}
    capacity_ms = idle_ms = excess_ms = 0
    caused: dict[tuple[tuple[str, ...], tuple[str, ...]], int] = defaultdict(int)
    has_holds = has_causes = True

    def row_of(usage: Usage, number: int, job: str, charge: Charge) -> GroupUsage:
        group = group_of(usage, job, charge, by)
        row = rows.setdefault(group, GroupUsage(group))
        row.jobs.add(f"{number}/{job}")
        return row

    def add(usage: Usage, number: int, charge: Charge, slot_ms: int) -> None:
        row = row_of(usage, number, charge.job, charge)
        row.slot_ms[charge.kind] += slot_ms
        if charge.caused_by != charge.job:
            # In which stage the other job needed the slot is not recorded.
            causer = row_of(usage, number, charge.caused_by, charge._replace(stage=""))
            causer.caused_ms += slot_ms
            caused[row.group, causer.group] += slot_ms

    for number, usage in enumerate(usages):
        has_holds &= usage.holds is not None or usage.held_ms is not None
        has_causes &= usage.holds is not None  # A source that records holds records causes, too.
        charged: dict[str, int] = defaultdict(int)
        presence = {each.executor: each for each in usage.executors}
        for charge in charges(usage):
            start_ms, end_ms = charge.start_ms, charge.end_ms
            if charge.kind == "held":
                there = presence.get(charge.executor)
                if there is None:
                    continue
                start_ms, end_ms = max(start_ms, there.start_ms), min(end_ms, there.end_ms)
            slot_ms = charge.slots * max(0, end_ms - start_ms)
            add(usage, number, charge, slot_ms)
            charged[charge.executor] += slot_ms
        free_ms = 0
        excess_ms += sum(ms for executor, ms in charged.items() if executor not in presence)
        for there in usage.executors:
            offered_ms = there.slots * (there.end_ms - there.start_ms)
            capacity_ms += offered_ms
            free_ms += max(0, offered_ms - charged[there.executor])
            excess_ms += max(0, charged[there.executor] - offered_ms)
        # Sums do not say on which executors slots were held: they are charged where slots were free.
        held_ms = {job: ms for job, ms in (usage.held_ms or {}).items() if ms > 0}
        for job, ms in held_ms.items():
            add(usage, number, Charge(job, "held", "", "", 0, 0, 0, job), ms)
        for job, at_most_ms in held_at_most_ms(usage).items():
            row = rows.get(group_of(usage, job, Charge(job, "held", "", "", 0, 0, 0, job), by))
            if row is not None:
                row.held_at_most_ms = (row.held_at_most_ms or 0.0) + at_most_ms
        free_ms -= sum(held_ms.values())
        idle_ms += max(0, free_ms)
        excess_ms += max(0, -free_ms)
    ordered = sorted(rows.values(), key=lambda row: (-row.total_ms, row.group))
    causes = sorted((Caused(*groups, ms) for groups, ms in caused.items()), key=lambda each: -each.slot_ms)
    return Statement(
        tuple(by), tuple(ordered), capacity_ms, idle_ms, excess_ms, has_holds, tuple(causes), has_causes
    )


def charges(usage: Usage) -> Iterator[Charge]:
    """All attempts and holds of an application; sums of held slot time (``held_ms``) are none."""
    by_task: dict[tuple[str, int], list[ChargedAttempt]] = defaultdict(list)
    for attempt in usage.attempts:
        by_task[attempt.stage, attempt.index].append(attempt)
    for attempts in by_task.values():
        attempts.sort(key=lambda attempt: attempt.end_ms)
        for place, a in enumerate(attempts):
            kind = _kind(a, place, attempts)
            caused_by = (a.evicted_for if kind == "evicted" else "") or a.job
            yield Charge(a.job, kind, a.stage, a.executor, a.start_ms, a.end_ms, a.slots, caused_by)
    for hold in usage.holds or ():
        yield Charge(hold.job, "held", "", hold.executor, hold.start_ms, hold.end_ms, 1, hold.job)


def _kind(attempt: ChargedAttempt, place: int, attempts: Sequence[ChargedAttempt]) -> str:
    """``attempts`` are those of one task in the order of their ends, this one at ``place``."""
    if attempt.outcome in ("failed", "lost"):
        return "failed"
    if attempt.outcome == "unknown":
        return "run"
    won_before = any(other.outcome == "success" for other in attempts[:place])
    if attempt.outcome == "success":
        return "copies" if won_before else "run"
    # A losing attempt is killed after its twin has won, but its end may be logged first.
    twins = (other for other in attempts if other is not attempt and other.outcome == "success")
    if any(other.start_ms < attempt.end_ms for other in twins):
        return "copies"
    again = any(other.start_ms >= attempt.end_ms for other in attempts if other is not attempt)
    return "evicted" if again else "cancelled"
