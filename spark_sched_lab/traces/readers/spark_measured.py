"""What this project's scheduler wrote into a Spark event log: slot time by job, as measured in the driver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

#: The class of the events (``protocol/README.md``).
EVENT = "org.apache.spark.scheduler.sparksched.SchedulingEvent"
_SCHEMA = 1
#: Run by originals that were not evicted, held idle, run by evicted attempts, run by copies.
KINDS = ("run", "held_idle", "evicted", "copied")
_WOULD_HAVE = "would_have_"
_AT_MOST = "held_idle_at_most"


@dataclass(slots=True)
class Measured:
    """Slot time in slot-milliseconds by kind (`KINDS`).

    Attributes:
        jobs: of each job that the log mentions, by its key.
        owners: name, user and class of these jobs, as the driver knew them: whose marks counted.
        left_out: of jobs that ended faster than they are logged, as one sum.
        left_out_jobs: how many they were.
        complete: the log has the application's end.
        events: how many of our events there were; 0: the scheduler wrote none.
        would_have: counters of what shadow mode would have done, by their names without ``would_have_``.
        held_at_most: what equation 4 of "Speculative Slot Reservation" expects of ``held_idle`` at most, in
            slot-milliseconds, by the key of jobs that held slots; None or absent where nothing bounds it.
        ended_ms: when each job last ended, in milliseconds since 1970, by its key: of a block of the driver's
            program that is one job, its end, which may come after that of its last Spark job. Not in
            parameters: a trace has a column for it.
        queues: the tenants' queue of each job that was in one, by its key.
    """

    jobs: dict[str, dict[str, int]] = field(default_factory=dict)
    owners: dict[str, list[str | None]] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)
    left_out_jobs: int = 0
    complete: bool = False
    events: int = 0
    would_have: dict[str, int] = field(default_factory=dict)
    held_at_most: dict[str, int | None] = field(default_factory=dict)
    ended_ms: dict[str, int] = field(default_factory=dict)
    queues: dict[str, str] = field(default_factory=dict)

    def apply(self, event: Mapping[str, Any], prefix: str = "", user: str | None = None) -> None:
        """Take one event in; ``prefix`` goes in front of jobs' keys. One of another schema is skipped.

        ``user`` is the application's, which owns the jobs without a user of their own.

        Raises:
            KeyError, TypeError, ValueError, AttributeError: the event is damaged.
        """
        if event["schema"] != _SCHEMA:
            return
        kind, body = event["kind"], event["body"]
        if kind == "job":
            slot_ms = body["slot_ms"]
            found = {name: int(slot_ms[name]) for name in KINDS}
            at_most = int(slot_ms[_AT_MOST]) if _AT_MOST in slot_ms else None
            # A job group that rests for long is over, and comes again.
            key = prefix + str(body["job"])
            times = self.jobs.setdefault(key, dict.fromkeys(KINDS, 0))
            if "user" in body:
                self.owners[key] = [body.get("name"), body["user"] or user, body.get("class")]
            if body.get("queue_name") is not None:
                self.queues[key] = str(body["queue_name"])
            if body.get("ended_ms") is not None:
                self.ended_ms[key] = int(body["ended_ms"])
            for name in KINDS:
                times[name] += found[name]
            if found["held_idle"] or at_most is not None:
                so_far = self.held_at_most.get(key, 0)
                self.held_at_most[key] = None if so_far is None or at_most is None else so_far + at_most
        elif kind in ("status", "end"):
            left = body["left_out"]
            # Sums since the application's start: the latest has all of them.
            self.left_out = {name: int(left["slot_ms"][name]) for name in KINDS}
            self.left_out_jobs = int(left["jobs"])
            self.complete = kind == "end"
            self.would_have = {
                name.removeprefix(_WOULD_HAVE): int(count)
                for name, count in body.get("counters", {}).items()
                if name.startswith(_WOULD_HAVE)
            }
        self.events += 1

    def to_parameters(self) -> dict[str, Any]:
        """As JSON for a trace's metadata (`of_parameters` reads it), without jobs that used no slot time."""
        jobs = {key: times for key, times in self.jobs.items() if any(times.values())}
        bounds = {key: at_most for key, at_most in self.held_at_most.items() if at_most is not None}
        return {
            "jobs": jobs,
            "owners": {key: owner for key, owner in self.owners.items() if key in jobs},
            "left_out": self.left_out,
            "left_out_jobs": self.left_out_jobs,
            "complete": self.complete,
            "events": self.events,
            **({"would_have": self.would_have} if self.would_have else {}),
            **({"held_at_most": bounds} if bounds else {}),
            **({"queues": self.queues} if self.queues else {}),
        }

    @classmethod
    def of_parameters(cls, given: Mapping[str, Any] | None) -> Measured | None:
        """What `to_parameters` gave; None where the scheduler wrote nothing."""
        return None if not given or not given["events"] else cls(**given)

    def plus(self, other: Measured) -> Measured:
        """Of two applications, whose jobs have different keys."""
        return Measured(
            {**self.jobs, **other.jobs},
            {**self.owners, **other.owners},
            {name: self.left_out.get(name, 0) + other.left_out.get(name, 0) for name in KINDS},
            self.left_out_jobs + other.left_out_jobs,
            # An application that wrote none says nothing of its end.
            (self.complete or not self.events) and (other.complete or not other.events),
            self.events + other.events,
            {
                name: self.would_have.get(name, 0) + other.would_have.get(name, 0)
                for name in (*self.would_have, *(other.would_have.keys() - self.would_have.keys()))
            },
            {**self.held_at_most, **other.held_at_most},
            {**self.ended_ms, **other.ended_ms},
            {**self.queues, **other.queues},
        )

    def total_ms(self, kind: str) -> int:
        """Of all jobs."""
        return sum(times[kind] for times in self.jobs.values()) + self.left_out.get(kind, 0)
