"""Usage from a Spark event log of stock Spark or of this scheduler, which logs the held slot time of each
job."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from spark_sched_lab.traces import Trace
from spark_sched_lab.traces.readers.spark_measured import Measured
from spark_sched_lab.usage.records import ChargedAttempt, Owner, Presence, Usage
from spark_sched_lab.usage.unlisted import cover_attempts


def usage_of_event_log(trace: Trace) -> Usage:
    """The usage of a trace that was read from a Spark event log.

    An attempt takes one slot of its executor. An executor without a logged end lasts until the last event of
    the log; so does an attempt, unless its stage or its executor ended before. An executor whose addition is
    not logged is there from its first attempt. Slot time held idle and its bound by equation
    4 are as the scheduler measured them, and users and classes are those that it accepted.
    """
    usage = Usage()
    jobs = trace.jobs.to_pydict()
    for number, name, user, job_class in zip(
        jobs["job"], jobs["name"], jobs["user"], jobs["class"], strict=True
    ):
        usage.owners[str(number)] = Owner(name or "", user or "", job_class or "")
    measured = Measured.of_parameters(trace.meta.parameters.get("measured"))
    if measured is not None:
        numbers = dict(zip(jobs["source_id"], jobs["job"], strict=True))
        for key, queue in measured.queues.items():
            if key in numbers:
                job_id = str(numbers[key])
                usage.owners[job_id] = replace(usage.owners[job_id], queue=queue)
        left_out_ms = measured.left_out.get("held_idle", 0)
        usage.held_ms = {"": left_out_ms}
        usage.held_at_most_ms = {"": math.inf} if left_out_ms else {}
        for key, times in measured.jobs.items():
            # A job without an attempt in the log may have held slots too.
            job_id = str(numbers.get(key, f"logged {key}" if key in measured.owners else ""))
            usage.held_ms[job_id] = usage.held_ms.get(job_id, 0) + times["held_idle"]
            at_most_ms = measured.held_at_most.get(key)
            if times["held_idle"] or at_most_ms is not None:
                bound_ms = math.inf if at_most_ms is None else at_most_ms
                usage.held_at_most_ms[job_id] = usage.held_at_most_ms.get(job_id, 0.0) + bound_ms
            if key in measured.owners:
                name, user, job_class = measured.owners[key]
                known = usage.owners.get(job_id)
                # An unmarked job's name is its key to the scheduler; the reader has better ones.
                shown = known.name if known is not None else name or key
                usage.owners[job_id] = Owner(shown, user or "", job_class or "", measured.queues.get(key, ""))
    last_ms = _last_ms(trace)
    stages = trace.stages.to_pydict()
    stage_ends_s = dict(zip(zip(stages["job"], stages["stage"], strict=True), stages["end_s"], strict=True))
    tasks = trace.tasks.to_pydict()
    removed_s = {m.machine: m.removed_s for m in trace.meta.machines if m.removed_s is not None}
    columns = ("job", "stage", "task", "host", "start_s", "duration_s", "outcome")
    for job, stage, index, executor, start_s, duration_s, outcome in zip(
        *(tasks[column] for column in columns), strict=True
    ):
        if start_s is None or executor is None:
            continue
        start_ms = round(start_s * 1000)
        if duration_s is not None:
            end_ms = start_ms + round(duration_s * 1000)
        else:
            ends_s = [e for e in (stage_ends_s.get((job, stage)), removed_s.get(executor)) if e is not None]
            end_ms = max(start_ms, round(min(ends_s) * 1000) if ends_s else last_ms)
        usage.attempts.append(
            ChargedAttempt(
                str(job),
                f"{job}.{stage}",
                index,
                executor,
                start_ms,
                end_ms,
                "success" if outcome == "finished" else outcome,
            )
        )
    usage.executors += _executors(trace, usage, last_ms)
    cover_attempts(usage, last_ms)
    return usage


def _executors(trace: Trace, usage: Usage, last_ms: int) -> Iterator[Presence]:
    first_ms: dict[str, int] = {}
    for attempt in usage.attempts:
        first_ms[attempt.executor] = min(attempt.start_ms, first_ms.get(attempt.executor, attempt.start_ms))
    for machine in trace.meta.machines:
        added_s, name = machine.added_s, machine.machine
        start_ms = first_ms.get(name, 0) if added_s is None else round(added_s * 1000)
        end_ms = last_ms if machine.removed_s is None else round(machine.removed_s * 1000)
        yield Presence(name, machine.slots or 0, start_ms, max(start_ms, end_ms), machine.host or "")


def _last_ms(trace: Trace) -> int:
    """The last event of any attempt, job or executor; a trace that the reader read says which it was."""
    starts, durations = (trace.tasks.column(name).to_pylist() for name in ("start_s", "duration_s"))
    ends_s: list[float] = [trace.meta.parameters.get("last_event_s", 0.0)]
    ends_s += [s + (d or 0.0) for s, d in zip(starts, durations, strict=True) if s is not None]
    ends_s += [end_s for end_s in trace.jobs.column("end_s").to_pylist() if end_s is not None]
    ends_s += [machine.removed_s for machine in trace.meta.machines if machine.removed_s is not None]
    return round(max(ends_s) * 1000)
