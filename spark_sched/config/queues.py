"""The tree of queues that tenants share the slots by. `queue_file` reads and checks its TOML file.

A queue limits what its jobs and those of the queues below it have together. The driver reads no TOML, and in
cluster mode it has no file of the user's, so the file becomes the setting ``spark.sched.queues``, one line of
JSON. ``schedcore.QueueTree`` reads that. ``docs/how-to/queues.md`` explains the keys.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

_INT_MAX = 2**31 - 1
_HOUR_MS = 3_600_000
#: So that rounding never takes a slot from a share of whole slots.
_EPSILON = 1e-9


@dataclass(frozen=True, slots=True)
class Amount:
    """A number of slots, or a percentage of the application's.

    Attributes:
        slots: the number; None: it is a percentage.
        percent: of all slots of the application, in (0, 100].
    """

    slots: int | None = None
    percent: float = 0.0

    def of(self, total: int) -> int:
        """Slots where the application has ``total``: a percentage is rounded down, to 1 at least."""
        if self.slots is not None:
            return self.slots
        return max(1, self.at_most(total))

    def at_most(self, total: int) -> int:
        """The same, but a percentage that is less than one slot is none: shares that fit together in the file
        fit together in slots."""
        return self.slots if self.slots is not None else int(self.percent * total / 100.0 + _EPSILON)

    def __str__(self) -> str:
        return f"{self.percent:g} %" if self.slots is None else str(self.slots)

    def exceeds(self, other: Amount) -> bool:
        """Whether it is more whatever the number of slots is; amounts of different kinds cannot be
        compared."""
        if self.slots is not None and other.slots is not None:
            return self.slots > other.slots
        return self.slots is None and other.slots is None and self.percent > other.percent


@dataclass(frozen=True, slots=True)
class PriorityLimit:
    """The highest priority of jobs in a queue whose user matches every pattern that is given."""

    max_priority: int
    user: str | None = None
    group: str | None = None

    def matches(self, user: str, groups: Collection[str]) -> bool:
        return (self.user is None or matches(self.user, user)) and (
            self.group is None or any(matches(self.group, group) for group in groups)
        )


@dataclass(frozen=True, slots=True)
class QueueSpec:
    """One queue.

    Attributes:
        path: its name after those of its ancestors, with dots between them.
        ceiling: the most slots that its jobs run on and hold; None: no limit, as for the others.
        held_ceiling: the most slots of these that its jobs hold idle.
        max_running_jobs: further jobs wait in its admission queue.
        max_waiting_jobs: the most jobs that wait; the next one is cancelled.
        wait_timeout_ms: how long a job waits before it is cancelled.
        max_priority: higher priorities of its jobs are lowered to it.
        max_priorities: the first one that matches a job's user counts in place of ``max_priority``.
        users: patterns of the users whose jobs it takes; without users and groups it takes everybody's.
        floor: slots that its jobs get before those of queues that have theirs; None: it is promised none.
        weight: its part of the slots above the floors, beside its siblings'; None: 1.
        groups: patterns of the groups whose users' jobs it takes, too.
        slot_hours_per_day: slot time of 24 hours after which it admits no job.
    """

    path: str
    ceiling: Amount | None = None
    held_ceiling: Amount | None = None
    max_running_jobs: int | None = None
    max_waiting_jobs: int | None = None
    wait_timeout_ms: int | None = None
    max_priority: int | None = None
    users: tuple[str, ...] = ()
    floor: Amount | None = None
    weight: float | None = None
    groups: tuple[str, ...] = ()
    slot_hours_per_day: float | None = None
    max_priorities: tuple[PriorityLimit, ...] = ()

    def highest_priority(self, user: str, groups: Collection[str]) -> int | None:
        """Of a job of such a user; None: any."""
        found = (limit.max_priority for limit in self.max_priorities if limit.matches(user, groups))
        return next(found, self.max_priority)

    @property
    def day_slot_ms(self) -> int | None:
        return None if self.slot_hours_per_day is None else round(self.slot_hours_per_day * _HOUR_MS)

    def takes(self, user: str, groups: Collection[str]) -> bool:
        """Whether it takes jobs of such a user."""
        if not self.users and not self.groups:
            return True
        return any(matches(pattern, user) for pattern in self.users) or any(
            matches(pattern, group) for pattern in self.groups for group in groups
        )

    @property
    def parent(self) -> str:
        """The path of its parent; empty at the top."""
        return self.path.rpartition(".")[0]


@dataclass(frozen=True, slots=True)
class PlacementRule:
    """A queue for the jobs that match every pattern that is given; ``*`` stands for any text."""

    queue: str
    user: str | None = None
    name: str | None = None
    job_class: str | None = None
    group: str | None = None

    def matches(self, user: str, name: str, job_class: str, groups: Collection[str]) -> bool:
        given = ((self.user, user), (self.name, name), (self.job_class, job_class))
        return all(pattern is None or matches(pattern, text) for pattern, text in given) and (
            self.group is None or any(matches(self.group, group) for group in groups)
        )


@dataclass(frozen=True, slots=True)
class Preemption:
    """When running tasks of other queues are evicted for a queue that stays below its floor.

    Attributes:
        mode: off; observe, which only counts and tells what would be evicted; on.
        threshold: the part of its floor that a queue has to have.
        timeout_ms: how long it may have less.
        interval_ms: between two looks that evict tasks.
    """

    mode: str = "observe"
    threshold: float = 0.5
    timeout_ms: int = 30_000
    interval_ms: int = 5_000


@dataclass(frozen=True)
class QueueTree:
    """All queues, parents before their children, and the rules that place jobs in them.

    Attributes:
        default: the queue of jobs that no rule places.
        preemption: for queues below their floors.
    """

    queues: tuple[QueueSpec, ...]
    rules: tuple[PlacementRule, ...]
    default: str
    preemption: Preemption = Preemption()

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_path", {queue.path: queue for queue in self.queues})

    @property
    def is_empty(self) -> bool:
        """Whether there are no queues at all, as in `NO_QUEUES`."""
        return not self.queues

    @property
    def leaves(self) -> frozenset[str]:
        """The queues that jobs can be in: those without queues below them."""
        return frozenset(spec.path for spec in self.queues) - {spec.parent for spec in self.queues}

    def __getitem__(self, path: str) -> QueueSpec:
        found: QueueSpec = self.__dict__["_by_path"][path]
        return found

    def path_of(self, queue: str) -> list[QueueSpec]:
        """The queue and its ancestors, from the top down."""
        if self.is_empty:
            return []
        parts = queue.split(".")
        return [self[".".join(parts[: n + 1])] for n in range(len(parts))]

    def takes(self, queue: str, user: str, groups: Collection[str] = ()) -> bool:
        """Whether the queue and its ancestors take jobs of the user, who is in these groups."""
        return all(spec.takes(user, groups) for spec in self.path_of(queue))

    def place(
        self, user: str, name: str = "", job_class: str = "", groups: Collection[str] = frozenset()
    ) -> str:
        """The queue of a job: of the first rule that matches it and whose queue takes its user's jobs."""
        for rule in self.rules:
            if rule.matches(user, name, job_class, groups) and self.takes(rule.queue, user, groups):
                return rule.queue
        return self.default

    def max_priority(self, queue: str, user: str = "", groups: Collection[str] = frozenset()) -> int:
        """The highest priority of a job in the queue."""
        limits = (spec.highest_priority(user, groups) for spec in self.path_of(queue))
        return min((limit for limit in limits if limit is not None), default=_INT_MAX)

    @property
    def shares(self) -> bool:
        """Whether queues are offered slots in an order of their own: one of them has a floor or a weight."""
        return any(spec.floor is not None or spec.weight is not None for spec in self.queues)

    @property
    def preempts(self) -> bool:
        """Whether anything is evicted, or would be, for a queue below its floor."""
        return self.preemption.mode != "off" and any(spec.floor is not None for spec in self.queues)

    def to_json(self) -> str:
        """The value of ``spark.sched.queues``."""
        if self.is_empty:
            return ""
        queues = [{"queue": spec.path, **dict(_given(spec))} for spec in self.queues]
        rules = [
            {"queue": rule.queue, **{key: text for key, text in _conditions(rule) if text is not None}}
            for rule in self.rules
        ]
        document: dict[str, object] = {"default": self.default, "queues": queues, "rules": rules}
        if self.preemption != Preemption():
            document["preemption"] = {
                "mode": self.preemption.mode,
                "threshold": self.preemption.threshold,
                "timeout": f"{self.preemption.timeout_ms} ms",
                "interval": f"{self.preemption.interval_ms} ms",
            }
        return json.dumps(document, separators=(",", ":"))


#: The tree of an application without queues: all jobs are in none.
NO_QUEUES = QueueTree((), (), "")


def matches(pattern: str, text: str) -> bool:
    """Whether the text is of the pattern, in which ``*`` stands for any text."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text, re.DOTALL) is not None


def _given(spec: QueueSpec) -> Iterator[tuple[str, object]]:
    for key in ("ceiling", "held_ceiling", "floor"):
        amount: Amount | None = getattr(spec, key)
        if amount is not None:
            yield key, str(amount) if amount.slots is None else amount.slots
    if spec.weight is not None:
        yield "weight", spec.weight
    for key in ("max_running_jobs", "max_waiting_jobs"):
        if getattr(spec, key) is not None:
            yield key, getattr(spec, key)
    if spec.wait_timeout_ms is not None:
        yield "wait_timeout", f"{spec.wait_timeout_ms} ms"
    if spec.max_priority is not None:
        yield "max_priority", spec.max_priority
    if spec.slot_hours_per_day is not None:
        yield "slot_hours_per_day", spec.slot_hours_per_day
    for key in ("users", "groups"):
        if getattr(spec, key):
            yield key, list(getattr(spec, key))
    if spec.max_priorities:
        yield "max_priorities", [_limit(limit) for limit in spec.max_priorities]


def _limit(limit: PriorityLimit) -> dict[str, object]:
    patterns = {"user": limit.user, "group": limit.group}
    given = {key: text for key, text in patterns.items() if text is not None}
    return {**given, "max_priority": limit.max_priority}


def _conditions(rule: PlacementRule) -> tuple[tuple[str, str | None], ...]:
    return ("user", rule.user), ("group", rule.group), ("name", rule.name), ("class", rule.job_class)
