"""Many jobs on one screen: which come first, and what of each fits into one line of a given width."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size

from spark_sched.plain_text import plain, short
from spark_sched.view import text

if TYPE_CHECKING:
    from spark_sched.view.status import JobStatus, Status

_GAP = 2
# A deadline that is more likely missed than met is at risk, as in the driver's sums by class.
_EVEN_CHANCE = 0.5
_NAME = (12, 48)
_WHY = (16, 120)


@dataclass(frozen=True, slots=True)
class Column:
    """A cell of each job: ``least`` and ``most`` characters; those of a low ``rank`` are left out last."""

    title: str
    cell: Callable[[JobStatus, int], str]
    rank: int
    least: int
    most: int
    right: bool = False


def is_at_risk(job: JobStatus, now_ms: int) -> bool:
    """Whether its deadline has passed, or is more likely missed than met."""
    deadline_ms = job.marks.deadline_ms
    if deadline_ms is None or job.outcome is not None:
        return False
    chance = None if job.forecast is None else job.forecast.deadline_probability
    return deadline_ms < now_ms or (chance is not None and chance < _EVEN_CHANCE)


def waits(job: JobStatus) -> bool:
    """Whether it has work and no slot."""
    return job.slots.waiting > 0 and job.slots.running == 0


def waited_ms(job: JobStatus, now_ms: int) -> int:
    """How long a job that has no slot yet has waited for its first one; 0 for the others."""
    return now_ms - job.times.submitted_ms if waits(job) and job.times.begun_ms is None else 0


_Key = Callable[["JobStatus", int], tuple[object, ...]]

#: Orders of jobs by name. ``attention``: deadlines at risk, then what waits, the longest wait first, then
#: what runs by the slots it has.
ORDERS: dict[str, _Key] = {
    "attention": lambda job, now_ms: (
        not is_at_risk(job, now_ms), not waits(job), -waited_ms(job, now_ms), -job.slots.running,
        -job.slots.held, job.order.arrival,
    ),
    "arrival": lambda job, now_ms: (job.order.arrival,),
    "priority": lambda job, now_ms: (-job.marks.priority, job.order.arrival),
    "name": lambda job, now_ms: (job.shown_name, job.order.arrival),
    "slots": lambda job, now_ms: (-job.slots.running - job.slots.held, job.order.arrival),
    "wait": lambda job, now_ms: (-waited_ms(job, now_ms), job.order.arrival),
    "deadline": lambda job, now_ms: (
        job.marks.deadline_ms is None, job.marks.deadline_ms or 0, job.order.arrival,
    ),
    "end": lambda job, now_ms: (
        job.forecast is None, 0 if job.forecast is None else job.forecast.end_p50_ms, job.order.arrival,
    ),
}  # fmt: skip


def chosen(
    jobs: Iterable[JobStatus], now_ms: int, order: str, user: str | None = None, queue: str | None = None
) -> list[JobStatus]:
    """The jobs of the user and of the tenants' queue or one below it, or all, in one of `ORDERS`."""
    key = ORDERS[order]
    mine = (
        job
        for job in jobs
        if (user is None or job.marks.user == user)
        and (queue is None or f"{job.order.queue_name or ''}.".startswith(f"{queue}."))
    )
    return sorted(mine, key=lambda job: key(job, now_ms))


def summary_line(status: Status) -> str:
    """How many jobs run and wait, the longest wait, and the deadlines at risk."""
    jobs, now_ms = status.jobs, status.now_ms
    waiting = [job for job in jobs if waits(job)]
    parts = [f"{sum(job.slots.running > 0 for job in jobs)} jobs run", f"{len(waiting)} wait"]
    longest = max(waiting, key=lambda job: waited_ms(job, now_ms), default=None)
    if longest is not None and waited_ms(longest, now_ms) > 0:
        parts[1] += (
            f", the longest for {text.seconds(waited_ms(longest, now_ms))} ({short(longest.shown_name)})"
        )
    at_risk = sum(is_at_risk(job, now_ms) for job in jobs)
    if any(job.marks.deadline_ms is not None for job in jobs):
        parts.append(f"{at_risk} deadlines at risk")
    return plain("; ".join(parts))


def _why(job: JobStatus, now_ms: int) -> str:
    """One sentence; an older driver has the plan's reason alone, after what the state's word leaves out."""
    if job.notes.why:
        return short(text.why_text(job))
    more = job.state_text if job.state_text not in (_state(job, now_ms), "") else ""
    return short("; ".join(filter(None, (more, job.reason))))


def _state(job: JobStatus, now_ms: int) -> str:
    return job.state.replace("_", " ")


def _ends(job: JobStatus, now_ms: int) -> str:
    if job.forecast is None:
        return text.behind_text(job) or ""
    if text.is_overdue(job, now_ms):
        return text.OVERDUE
    return text.seconds(max(0, job.forecast.end_p50_ms - now_ms))


def _deadline(job: JobStatus, now_ms: int) -> str:
    deadline_ms = job.marks.deadline_ms
    if deadline_ms is None:
        return ""
    left_ms = deadline_ms - now_ms
    when = text.seconds(left_ms) if left_ms >= 0 else f"-{text.seconds(-left_ms)}"
    chance = None if job.forecast is None else job.forecast.deadline_probability
    return when if chance is None else f"{when} {chance:.0%}"


def _wait(job: JobStatus, now_ms: int) -> str:
    return str(job.slots.waiting) if job.slots.waiting else ""


COLUMNS = (
    Column("job", lambda job, now_ms: short(job.shown_name), 0, *_NAME),
    Column("user", lambda job, now_ms: short(job.marks.user or ""), 9, 6, 12),
    Column("queue", lambda job, now_ms: short(job.order.queue_name or ""), 11, 6, 18),
    Column("prio", lambda job, now_ms: str(job.marks.priority), 4, 4, 11, right=True),
    Column("state", _state, 1, 9, 9),
    Column("done", lambda job, now_ms: f"{job.tasks_done}/{job.tasks}" if job.tasks else "", 6, 4, 15, True),
    Column("run", lambda job, now_ms: str(job.slots.running or ""), 2, 3, 6, right=True),
    Column("held", lambda job, now_ms: str(job.slots.held or ""), 5, 4, 6, right=True),
    Column("wait", _wait, 3, 4, 7, right=True),
    Column("ends in", _ends, 7, 7, 14, right=True),
    Column("deadline", _deadline, 8, 8, 16, right=True),
    Column("why", _why, 10, *_WHY),
)


def rows(jobs: Sequence[JobStatus], now_ms: int, width: int) -> tuple[list[Column], list[list[str]]]:
    """The columns that fit into lines of ``width`` characters; their titles, and each job's cells, as wide as
    their column. Columns that are empty for all jobs are left out.
    """
    found = {
        column: [plain(column.cell(job, now_ms)) for job in jobs]
        for column in sorted(COLUMNS, key=lambda column: column.rank)
    }
    left = width + _GAP
    widths: dict[Column, int] = {}
    for column, cells in found.items():
        if not any(cells):
            continue
        wanted = min(column.most, max(column.least, len(column.title), *map(cell_len, cells)))
        # Names and reasons may be cut, numbers may not.
        least = wanted if column.right else max(column.least, len(column.title))
        if least + _GAP <= left:
            widths[column] = least
            left -= least + _GAP
    # Names and reasons, which are the longest, get the rest.
    for column in sorted(widths, key=lambda column: column.most):
        cells = found[column]
        wanted = min(column.most, max(widths[column], *map(cell_len, cells)))
        grown = min(wanted - widths[column], max(0, left))
        widths[column] += grown
        left -= grown
    columns = [column for column in COLUMNS if column in widths]
    lines = ([column.title for column in columns], *zip(*(found[column] for column in columns), strict=True))
    return columns, [
        [_cut(cell, widths[column], column.right) for column, cell in zip(columns, line, strict=True)]
        for line in lines
    ]


def _cut(cell: str, width: int, right: bool) -> str:
    """The cell as wide as ``width`` on a screen, where some characters take two places."""
    if cell_len(cell) > width:
        return set_cell_size(cell, width - 1) + "…"
    blanks = " " * (width - cell_len(cell))
    return blanks + cell if right else cell + blanks
