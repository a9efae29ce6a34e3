"""The input of the accounting: executors, attempts and holds of one application, on its own clock."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Presence:
    """One executor with ``slots`` slots from ``start_ms`` to ``end_ms``; ``host`` is empty where unknown."""

    executor: str
    slots: int
    start_ms: int
    end_ms: int
    host: str = ""


@dataclass(frozen=True, slots=True)
class Owner:
    """The job that slot time is charged to; ``queue`` is empty where it was in none, or the source does not
    tell."""

    name: str
    user: str
    job_class: str
    queue: str = ""


@dataclass(frozen=True, slots=True)
class ChargedAttempt:
    """One attempt of a task. ``outcome`` is ``success``, ``failed``, ``killed``, ``lost`` or ``unknown``.

    ``evicted_for`` is the job that it was killed for, empty where none is recorded.
    """

    job: str
    stage: str
    index: int
    executor: str
    start_ms: int
    end_ms: int
    outcome: str
    slots: int = 1
    evicted_for: str = ""


@dataclass(frozen=True, slots=True)
class Hold:
    """One slot that was reserved for a job and idle."""

    job: str
    executor: str
    start_ms: int
    end_ms: int


@dataclass(slots=True)
class Usage:
    """All of one application; ``holds`` is None where the source does not record them.

    ``held_ms`` is the slot time held idle by job, in slot-milliseconds, if the source records sums instead of
    holds; slot time of unknown jobs has the key ``""``. ``held_at_most_ms`` is its upper bound by equation 4,
    if the source records that, too: infinite if nothing bounds it. Otherwise the bound follows from
    ``isolation``, the isolation level of jobs that had one of their own, and ``barriers``, the jobs of stages
    whose slots were held for a next one. ``unlisted`` is the number of executors not listed by the source:
    their slots are the most that their attempts took at once.
    """

    executors: list[Presence] = field(default_factory=list)
    owners: dict[str, Owner] = field(default_factory=dict)
    attempts: list[ChargedAttempt] = field(default_factory=list)
    holds: list[Hold] | None = None
    held_ms: dict[str, int] | None = None
    held_at_most_ms: dict[str, float] | None = None
    isolation: dict[str, float] = field(default_factory=dict)
    barriers: dict[str, str] = field(default_factory=dict)
    unlisted: int = 0
