"""Usage from a Spark event log, of stock Spark or of this scheduler, which logs what it held for each job."""

from __future__ import annotations

from spark_sched.analysis.usage.records import ChargedAttempt, Owner, Presence, Usage
from spark_sched.traces import Trace
from spark_sched.traces.readers.spark_measured import Measured

__all__ = ["usage_of_event_log"]

_OUTCOMES = {"finished": "success"}


def usage_of_event_log(trace: Trace) -> Usage:
    """The usage of a trace that was read from a Spark event log.

    An attempt takes one slot of its executor. An executor without an end is there until the last event of
    any attempt, job or executor. Slot time held idle is as the scheduler measured it.
    """
    usage = Usage()
    jobs = trace.jobs.to_pydict()
    measured = Measured.of_parameters(trace.meta.parameters.get("measured"))
    if measured is not None:
        numbers = dict(zip(jobs["source_id"], jobs["job"], strict=True))
        usage.held_ms = {"": measured.left_out.get("held_idle", 0)}
        for key, times in measured.jobs.items():
            owner = str(numbers[key]) if key in numbers else ""
            usage.held_ms[owner] = usage.held_ms.get(owner, 0) + times["held_idle"]
    for number, name, user, job_class in zip(
        jobs["job"], jobs["name"], jobs["user"], jobs["class"], strict=True
    ):
        usage.owners[str(number)] = Owner(name or "", user or "", job_class or "")
    tasks = trace.tasks.to_pydict()
    columns = ("job", "stage", "task", "host", "start_s", "duration_s", "outcome")
    for job, stage, index, executor, start_s, duration_s, outcome in zip(
        *(tasks[column] for column in columns), strict=True
    ):
        if start_s is None or duration_s is None or executor is None:
            continue
        start_ms = round(start_s * 1000)
        usage.attempts.append(
            ChargedAttempt(
                str(job),
                f"{job}.{stage}",
                index,
                executor,
                start_ms,
                start_ms + round(duration_s * 1000),
                _OUTCOMES.get(outcome, outcome),
            )
        )
    ends_s = [end_s for end_s in jobs["end_s"] if end_s is not None]
    ends_s += [machine.removed_s for machine in trace.meta.machines if machine.removed_s is not None]
    last_ms = max(
        [attempt.end_ms for attempt in usage.attempts] + [round(s * 1000) for s in ends_s], default=0
    )
    for machine in trace.meta.machines:
        start_ms = round((machine.added_s or 0.0) * 1000)
        end_ms = last_ms if machine.removed_s is None else round(machine.removed_s * 1000)
        usage.executors.append(
            Presence(machine.machine, machine.slots or 0, start_ms, max(start_ms, end_ms), machine.host or "")
        )
    return usage
