"""A status document as plain text: lines about the application, a row for each job, a job's story."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from itertools import chain

from spark_sched.plain_text import plain, short
from spark_sched.view.rendering import as_text
from spark_sched.view.status import JobStatus, Status

#: The columns of a table of jobs.
COLUMNS = ("job", "prio", "state", "done", "run", "held", "wait", "ends in", "deadline", "why")


#: Rows of a table for people: the whole document has all jobs.
MOST_ROWS = 200

_WOULD_HAVE = "would_have_"
#: In place of a forecast whose interval has passed.
OVERDUE = "overdue"


def seconds(ms: float) -> str:
    """A length of time in its two greatest units.

    >>> seconds(1_500), seconds(90_000), seconds(7_260_000)
    ('1.5 s', '1 min 30 s', '2 h 1 min')
    """
    total_s = max(0.0, ms / 1000.0)
    if total_s < 60.0:
        return f"{total_s:.1f} s"
    whole = round(total_s)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def clock(ms: int) -> str:
    """A moment as local time of day."""
    return time.strftime("%H:%M:%S", time.localtime(ms / 1000.0))


def application_line(status: Status) -> str:
    """How many slots are in use, held and free."""
    app = status.application
    if not app.scheduling:
        return f"{app.name} ({app.id}): spark_sched has failed, and Spark's own scheduling is in force"
    would = "would be" if status.mode == "shadow" else "are"
    held = "reservations are paused" if status.reservations_paused else f"{app.held_slots} {would} held idle"
    kept = f", {app.kept_free_slots} are kept free by the plan" if app.kept_free_slots else ""
    executors = "1 executor" if app.executors == 1 else f"{app.executors} executors"
    jobs = "1 job" if len(status.jobs) == 1 else f"{len(status.jobs)} jobs"
    return (
        f"{app.name} ({app.id}): {app.running_slots} of {app.slots} slots run tasks on {executors}, "
        f"{held}{kept}; {jobs}"
    )


def mode_line(status: Status) -> str | None:
    """What the scheduler would have done, if the mode is or was shadow or off; None: it was always on."""
    would = {
        name.removeprefix(_WOULD_HAVE): count
        for name, count in status.counters.items()
        if name.startswith(_WOULD_HAVE) and count
    }
    # Equation 4 is only an upper bound (docs/explanation/architecture.md).
    bounds = {"predicted_idle_slot_ms": " (at most)"}
    counts = ", ".join(f"{name}{bounds.get(name, '')} {count}" for name, count in sorted(would.items()))
    if status.mode == "off":
        return "mode: off, Spark's own scheduling applies"
    if status.mode == "shadow":
        return f"mode: shadow, Spark's own order applies; would have: {counts or 'nothing yet'}"
    return f"mode: {status.mode}; in shadow mode it would have: {counts}" if would else None


def planner_line(status: Status) -> str:
    planner = status.planner
    if not planner.enabled:
        return f"planner: switched off (spark.sched.planner.enabled); policy {status.policy} is not asked"
    if planner.alive and planner.silent_ms is not None:
        state = f"alive (pid {planner.pid}, heard of {seconds(planner.silent_ms)} ago)"
    elif planner.pid is not None:
        state = f"starting (pid {planner.pid})"
    else:
        state = "not running"
    return (
        f"planner: {state}, {planner.restarts} restarts, {planner.plans_accepted} plans accepted, "
        f"{planner.plans_rejected} rejected, {planner.plan_fallbacks} ran out"
    )


def plan_line(status: Status) -> str:
    plan = status.plan
    if plan is None:
        age_ms = status.planner.last_plan_age_ms
        last = "there was no plan yet" if age_ms is None else f"the last plan was made {seconds(age_ms)} ago"
        return f"plan: none in force, the configured rules apply ({last})"
    parts = [f"plan: {plan.number} of policy {plan.policy}, {seconds(plan.age_ms)} old"]
    parts.append(f"valid for {seconds(plan.expires_in_ms)} more")
    if plan.solve_ms is not None:
        parts.append(f"made in {plan.solve_ms:.0f} ms")
    if plan.gap is not None:
        parts.append(f"at most {plan.gap:.1%} from the best")
    return ", ".join(parts)


def end_text(job: JobStatus, now_ms: int) -> str:
    """The forecast's median and 80 % interval, from now; else how many jobs are before it, if known."""
    if job.forecast is None:
        return behind_text(job) or "unknown"
    if is_overdue(job, now_ms):
        return OVERDUE
    low, middle, high = (
        seconds(max(0, at - now_ms))
        for at in (job.forecast.end_p10_ms, job.forecast.end_p50_ms, job.forecast.end_p90_ms)
    )
    return f"{middle} ({low} to {high})"


def is_overdue(job: JobStatus, now_ms: int) -> bool:
    """Whether the forecast's whole interval has passed: its end is later than expected."""
    return job.forecast is not None and job.forecast.end_p90_ms < now_ms


def behind_text(job: JobStatus) -> str | None:
    """Of a job that waits and whose end is unknown."""
    if job.after_jobs is None:
        return None
    return "after 1 job" if job.after_jobs == 1 else f"after {job.after_jobs} jobs"


def deadline_text(job: JobStatus, now_ms: int) -> str:
    """How far the deadline is, and the probability to meet it."""
    if job.marks.deadline_ms is None:
        return "none"
    left_ms = job.marks.deadline_ms - now_ms
    when = f"in {seconds(left_ms)}" if left_ms >= 0 else f"passed {seconds(-left_ms)} ago"
    probability = None if job.forecast is None else job.forecast.deadline_probability
    return when if probability is None else f"{when}, met with {probability:.0%}"


def why_text(job: JobStatus) -> str:
    """What the job waits for or has, and which of its marks do not count."""
    return "; ".join((job.notes.why or job.reason, *(f"mark: {each}" for each in job.notes.warnings)))


def job_row(job: JobStatus, now_ms: int) -> tuple[str, ...]:
    """The job's cells under `COLUMNS`."""
    cells = (
        short(job.shown_name),
        str(job.marks.priority),
        job.state_text,
        f"{job.tasks_done}/{job.tasks}" if job.tasks else "",
        str(job.slots.running),
        str(job.slots.held),
        str(job.slots.waiting),
        end_text(job, now_ms),
        deadline_text(job, now_ms),
        short(why_text(job)),
    )
    return tuple(map(plain, cells))


def shown_jobs(status: Status) -> tuple[Sequence[JobStatus], str | None]:
    """The jobs that a table for people shows, and a line about the others, if there are any: first those that
    run or wait, and of equal ones those that came first."""
    if len(status.jobs) <= MOST_ROWS:
        return status.jobs, None
    chosen = sorted(status.jobs, key=lambda job: not (job.slots.running or job.slots.waiting))[:MOST_ROWS]
    kept = {job.job for job in chosen}
    shown = [job for job in status.jobs if job.job in kept]
    return shown, f"and {len(status.jobs) - len(shown):,} more jobs: the JSON document has all of them"


def head_lines(status: Status) -> list[str]:
    """The application, warnings, its mode where that is not the usual one, the planner and the plan."""
    mode = mode_line(status)
    lines = [
        application_line(status),
        *(f"warning: {each}" for each in status.warnings),
        *([] if mode is None else [mode]),
    ]
    return list(map(plain, (*lines, planner_line(status), plan_line(status))))


@as_text.register
def of_status(status: Status) -> str:
    lines = head_lines(status)
    jobs, more = shown_jobs(status)
    if jobs:
        lines += _table([COLUMNS, *(job_row(job, status.now_ms) for job in jobs)])
    return "\n".join(chain(lines, filter(None, [more])))


@as_text.register
def of_job(job: JobStatus) -> str:
    return "\n".join(map(plain, _lines(job)))


def _lines(job: JobStatus) -> list[str]:
    slots, used = job.slots, job.slot_ms
    owner = f"user {job.marks.user or 'unknown'}, class {job.marks.job_class or 'none'}"
    now = f"{slots.running} run ({slots.copied} copies, {slots.pilot} pilots), {slots.held} held idle"
    so_far = f"{seconds(used.run)} run, {seconds(used.held_idle)} held idle"
    if used.held_idle_at_most:
        so_far += f" (by equation 4 at most {seconds(used.held_idle_at_most)})"
    lost = f"{seconds(used.evicted)} evicted, {seconds(used.copied)} copied"
    if used.would_have_held_idle:
        lost += f"; {seconds(used.would_have_held_idle)} would have been held idle"
    lines = [
        f"{job.shown_name} ({job.job}): {job.state_text}",
        f"  submitted {clock(job.times.submitted_ms)}, priority {job.marks.priority}, {owner}",
        *_prospects(job),
        f"  slots: {now}, {slots.waiting} waited for",
        f"  slot time: {so_far}, {lost}",
        *([f"  why: {job.notes.why}"] if job.notes.why else []),
        *([f"  plan: {job.reason}"] if job.outcome is None else []),
        *(f"  mark: {each}" for each in job.notes.warnings),
    ]
    return [*lines, *(f"  {clock(entry.at_ms)}  {entry.text}" for entry in job.story)]


def _prospects(job: JobStatus) -> list[str]:
    """The progress of its active stages, and until it is over its expected end; its deadline."""
    lines = [
        f"  stage {each.stage}: {each.done} of {each.tasks} tasks done, {each.running} run, "
        f"{each.waiting} wait ({each.name})"
        for each in job.stages
    ]
    forecast = job.forecast
    if forecast is not None:
        if forecast.start_p50_ms is not None and job.times.begun_ms is None:
            starts = (forecast.start_p10_ms, forecast.start_p50_ms, forecast.start_p90_ms)
            lines.append(f"  expected start: {_interval(starts)}")
        ends = (forecast.end_p10_ms, forecast.end_p50_ms, forecast.end_p90_ms)
        lines.append(f"  expected end: {_interval(ends)}")
    elif job.outcome is None:
        why = ": too little is known about it or about a job before it" if job.after_jobs is not None else ""
        lines.append(f"  expected end: {behind_text(job) or 'unknown'}{why}")
    if job.marks.deadline_ms is not None:
        chance = None if forecast is None else forecast.deadline_probability
        met = "" if chance is None else f", met with {chance:.0%}"
        lines.append(f"  deadline: {clock(job.marks.deadline_ms)}{met}")
    return lines


def _interval(quantiles: Iterable[int | None]) -> str:
    low, middle, high = (clock(at) for at in quantiles if at is not None)
    return f"{middle} (80 % interval: {low} to {high})"


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
