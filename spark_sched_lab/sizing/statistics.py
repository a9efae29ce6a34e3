"""Busy slots, CPU use, demand and waits of an application's jobs, for all of them and for each group."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter

from spark_sched_lab.evictions.wasc import CHEBYSHEV, upper_estimate
from spark_sched_lab.sizing.logged_application import LoggedApplication, Ran
from spark_sched_lab.traces.jobs import Executed
from spark_sched_lab.usage import GroupBy, Owner, Statement, account

_UNKNOWN = Owner("", "", "")
_NOT_RAN = Ran()


@dataclass(frozen=True, slots=True)
class Busy:
    """Slots busy at once, over the time in which at least one was.

    Spark logs the end of a task a little after it has given the slot to another task, so at most the
    executors' slots count as busy. ``full_share``: the share of that time in which all slots of the executors
    were busy.
    """

    seconds: float
    mean: float
    deviation: float
    most: int
    full_share: float = 0.0

    def bound(self, chebyshev: float = CHEBYSHEV) -> float:
        """Equation 8.3 for busy slots, at most the largest recorded number."""
        return min(float(self.most), upper_estimate(self.mean, self.deviation, chebyshev))


@dataclass(frozen=True, slots=True)
class Cpu:
    """CPU use of tasks in cores, every second that one ran with the same weight.

    ``mean_demand_s`` is the mean CPU time of a task; ``tasks`` is the number of tasks in the figures.
    """

    tasks: int
    mean_demand_s: float
    mean: float
    deviation: float
    most: float


@dataclass(slots=True)
class Group:
    """Jobs of one name, user or class, or of several of these.

    ``slot_s`` is the slot time of all their attempts. ``wait_s`` is the mean, None if not recorded.
    """

    group: tuple[str, ...]
    job_class: str
    jobs: int
    slot_s: float
    busy: Busy
    cpu: Cpu | None
    wait_s: float | None
    priorities: tuple[int, ...] = ()

    @property
    def demand_s(self) -> float:
        """Slot time of a job, mean."""
        return self.slot_s / self.jobs


@dataclass(frozen=True, slots=True)
class Statistics:
    """All statistics behind the recommendations; ``unseen`` attempts have no CPU time of their own."""

    by: tuple[GroupBy, ...]
    busy: Busy
    groups: tuple[Group, ...]
    attempts: int
    unseen: int
    statement: Statement


@dataclass(slots=True)
class _Members:
    """Jobs and attempts of one group, of all applications."""

    steps: list[list[tuple[int, int, int]]] = field(default_factory=list)  # one list per application
    jobs: set[tuple[int, str]] = field(default_factory=set)
    classes: set[str] = field(default_factory=set)
    slot_ms: int = 0


def measure(applications: Sequence[LoggedApplication], by: Sequence[GroupBy] = ("name",)) -> Statistics:
    """The statistics of one application's runs, each on a clock of its own; groups by their slot time."""
    everything: list[list[tuple[int, int, int]]] = []
    members: dict[tuple[str, ...], _Members] = defaultdict(_Members)
    for number, application in enumerate(applications):
        usage = application.usage
        offered = [
            step
            for there in usage.executors
            for step in ((there.start_ms, 0, there.slots), (there.end_ms, 0, -there.slots))
        ]
        steps = list(offered)
        mine: dict[tuple[str, ...], list[tuple[int, int, int]]] = {}
        for attempt in usage.attempts:
            owner = usage.owners.get(attempt.job, _UNKNOWN)
            names = {"user": owner.user, "class": owner.job_class, "name": owner.name}
            group = tuple(names[key] for key in by)
            ran = [(attempt.start_ms, attempt.slots, 0), (attempt.end_ms, -attempt.slots, 0)]
            steps += ran
            mine.setdefault(group, list(offered)).extend(ran)
            found = members[group]
            found.jobs.add((number, attempt.job))
            found.classes.add(owner.job_class)
            found.slot_ms += attempt.slots * (attempt.end_ms - attempt.start_ms)
        everything.append(steps)
        for group, own in mine.items():
            members[group].steps.append(own)
    groups = [_group(group, found, applications) for group, found in members.items()]
    groups.sort(key=lambda group: (-group.slot_s, group.group))
    return Statistics(
        tuple(by),
        _busy(everything),
        tuple(groups),
        sum(len(application.usage.attempts) for application in applications),
        sum(ran.unseen for application in applications for ran in application.ran.values()),
        account((application.usage for application in applications), by),
    )


def _group(group: tuple[str, ...], found: _Members, applications: Sequence[LoggedApplication]) -> Group:
    ran = [applications[number].ran.get(job, _NOT_RAN) for number, job in found.jobs]
    waits = [one.wait_s for one in ran if one.wait_s is not None]
    return Group(
        group,
        next(iter(found.classes)) if len(found.classes) == 1 else "",
        len(found.jobs),
        found.slot_ms / 1000,
        _busy(found.steps),
        _cpu(executed for one in ran for executed in one.executed),
        sum(waits) / len(waits) if waits else None,
        tuple(sorted({one.priority for one in ran if one.priority is not None})),
    )


def _busy(applications: Iterable[list[tuple[int, int, int]]]) -> Busy:
    """Steps are (time in ms, change of busy slots, change of the executors' slots)."""
    total_ms = first = second = full_ms = most = 0
    for steps in applications:
        running = slots = since_ms = 0
        for at_ms, together in groupby(sorted(steps), key=itemgetter(0)):
            if running > 0:
                busy = min(running, slots) if slots > 0 else running
                span_ms = at_ms - since_ms
                total_ms += span_ms
                first += busy * span_ms
                second += busy * busy * span_ms
                full_ms += span_ms if busy == slots else 0
                most = max(most, busy)
            since_ms = at_ms
            for _, change, offered in together:
                running += change
                slots += offered
    if not total_ms:
        return Busy(0.0, 0.0, 0.0, 0)
    mean = first / total_ms
    deviation = math.sqrt(max(0.0, second / total_ms - mean * mean))
    return Busy(total_ms / 1000, mean, deviation, most, full_ms / total_ms)


def _cpu(executed: Iterable[Executed]) -> Cpu | None:
    """None without any CPU time: some JVMs do not measure it and log zeros."""
    ran = [one for one in executed if one.run_s > 0]
    run_s = math.fsum(one.run_s for one in ran)
    cpu_s = math.fsum(one.cpu_s for one in ran)
    if cpu_s <= 0:
        return None
    mean = cpu_s / run_s
    spread = math.fsum(one.run_s * (one.cpu_s / one.run_s - mean) ** 2 for one in ran) / run_s
    # Run times are whole milliseconds, rounded down: a task of 1.9 ms of CPU time and 1 ms used one core.
    most = max(one.cpu_s / (one.run_s + 0.001) for one in ran)
    return Cpu(len(ran), cpu_s / len(ran), mean, math.sqrt(spread), max(mean, most))
