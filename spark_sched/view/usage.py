"""The slot time that an application's jobs have used so far, from the status document."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from spark_sched.view.status import JobStatus, Status
from spark_sched.view.sums import GroupStatus, SlotTimes

#: Kinds as ``spark-sched usage`` names them, with the document's names. ``run`` has what failed or was
#: cancelled, too, and ``copies`` all that copies ran, whether they won or lost.
LIVE_KINDS: Mapping[str, str] = {
    "run": "run",
    "held": "held_idle",
    "copies": "copied",
    "evicted": "evicted",
}

_OF: Mapping[str, Callable[[JobStatus, str], str]] = {
    "user": lambda job, user: job.marks.user or user,
    "class": lambda job, user: job.marks.job_class or "",
    "name": lambda job, user: job.name,
    "queue": lambda job, user: job.order.queue_name or "",
}
#: The groups by which a live application's slot time can be divided.
LIVE_GROUPS = tuple(_OF)
#: The document's word for jobs without a class, or without a user.
_NONE = "none"


@dataclass(slots=True)
class LiveRow:
    """Jobs of one group, with their slot time in slot-milliseconds by kind (`LIVE_KINDS`).

    ``held_at_most_ms`` is what equation 4 expects of ``held`` at most; None: nothing bounds what some of the
    jobs held, or the document has only their sum.
    """

    group: tuple[str, ...]
    jobs: int = 0
    slot_ms: dict[str, int] = field(default_factory=lambda: dict.fromkeys(LIVE_KINDS, 0))
    held_at_most_ms: int | None = 0

    @property
    def total_ms(self) -> int:
        return sum(self.slot_ms.values())

    def add(self, jobs: int, times: SlotTimes, sign: int = 1) -> None:
        """Add jobs, or subtract them again (``sign`` -1); no sum falls below 0."""
        self.jobs = max(0, self.jobs + sign * jobs)
        for kind, name in LIVE_KINDS.items():
            self.slot_ms[kind] = max(0, self.slot_ms[kind] + sign * getattr(times, name))
        if sign < 0 or (times.held_idle and not times.held_idle_at_most):
            self.held_at_most_ms = None
        elif self.held_at_most_ms is not None:
            self.held_at_most_ms += times.held_idle_at_most


@dataclass(frozen=True, slots=True)
class LiveUsage:
    """Slot time since the application's start.

    ``ended`` is what the document adds up of jobs that are over and does not divide by the groups; None:
    nothing, since ``rows`` has them, or since the driver is older than these sums.
    """

    rows: tuple[LiveRow, ...]
    ended: LiveRow | None

    def total_ms(self, kind: str) -> int:
        return sum(row.slot_ms[kind] for row in (*self.rows, *([self.ended] if self.ended else [])))


def _sums(status: Status, by: Sequence[str]) -> tuple[GroupStatus, ...]:
    """The document's own sums of these groups; an older driver has none of users or queues."""
    if len(by) != 1:
        return ()
    # Jobs are in the lowest queues; the sums of the others have those jobs again.
    parents = {each.queue.rpartition(".")[0] for each in status.queues}
    lowest = [each.sums for each in status.queues if each.queue not in parents]
    queues = tuple(sums for sums in lowest if sums is not None and (sums.jobs or sums.jobs_ended))
    return {"class": status.classes, "user": status.users, "queue": queues}.get(by[0], ())


def live_usage(status: Status, by: Sequence[str]) -> LiveUsage:
    """Divide the slot time by groups out of `LIVE_GROUPS`, the greatest first.

    The document has sums of each class, of each user and of each tenants' queue, of jobs that are over, too;
    by name, and by several groups at once, it has only the jobs that are not over. Who has no user is the
    application's.
    """
    rows: dict[tuple[str, ...], LiveRow] = {}
    ended = LiveRow(())
    for each in status.classes:
        ended.add(each.jobs + each.jobs_ended, each.slot_ms)
    sums = _sums(status, by)
    if sums:
        for each in sums:
            none = status.application.user if tuple(by) == ("user",) else ""
            group: tuple[str, ...] = (none if each.name == _NONE else each.name,)
            rows.setdefault(group, LiveRow(group)).add(each.jobs + each.jobs_ended, each.slot_ms)
        ended = LiveRow(())
    else:
        for job in status.jobs:
            group = tuple(_OF[key](job, status.application.user) for key in by)
            rows.setdefault(group, LiveRow(group)).add(1, job.slot_ms)
            ended.add(1, job.slot_ms, -1)
    ordered = sorted(rows.values(), key=lambda row: (-row.total_ms, row.group))
    return LiveUsage(tuple(ordered), ended if ended.jobs or ended.total_ms else None)
