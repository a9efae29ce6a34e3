"""Whatever a Spark event log lacks and in whatever order: the totals are those of the attempts in it."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from spark_sched_lab.traces import open_trace
from spark_sched_lab.usage import account, usage_of_event_log

T0 = 1_700_000_000_000
_JOB_KINDS = ({}, {"spark.jobGroup.id": "group"}, {"spark.sched.job.name": "marked"})


def whole_log(stages_of_jobs, kinds):
    """Events of jobs one after the other; each stage has two tasks of one second, on two executors."""
    yield {
        "Event": "SparkListenerApplicationStart",
        "App ID": "app",
        "App Name": "a",
        "Timestamp": T0,
        "User": "u",
    }
    for executor in "12":
        added = {"Timestamp": T0, "Executor ID": executor, "Executor Info": {"Host": "h", "Total Cores": 1}}
        yield {"Event": "SparkListenerExecutorAdded", **added}
    stage, at = 0, T0
    for number, stages in enumerate(stages_of_jobs):
        properties = _JOB_KINDS[kinds[number]]
        infos = [
            {
                "Stage ID": stage + n,
                "Stage Attempt ID": 0,
                "Stage Name": "s",
                "Number of Tasks": 2,
                "Parent IDs": [],
            }
            for n in range(stages)
        ]
        start = {"Job ID": number, "Submission Time": at, "Stage Infos": infos, "Properties": properties}
        yield {"Event": "SparkListenerJobStart", **start}
        for info in infos:
            submitted = {"Stage Info": {**info, "Submission Time": at}, "Properties": properties}
            yield {"Event": "SparkListenerStageSubmitted", **submitted}
            where = {"Stage ID": info["Stage ID"], "Stage Attempt ID": 0}
            for index in range(2):
                task = {
                    "Task ID": 2 * info["Stage ID"] + index,
                    "Index": index,
                    "Attempt": 0,
                    "Launch Time": at,
                }
                task |= {"Executor ID": str(index + 1), "Host": "h", "Speculative": False, "Finish Time": 0}
                yield {"Event": "SparkListenerTaskStart", **where, "Task Info": task}
                task = {**task, "Finish Time": at + 1_000}
                end = {"Task End Reason": {"Reason": "Success"}, "Task Info": task}
                yield {"Event": "SparkListenerTaskEnd", **where, **end}
            at += 1_000
            yield {"Event": "SparkListenerStageCompleted", "Stage Info": {**info, "Completion Time": at}}
        end = {"Job ID": number, "Completion Time": at, "Job Result": {"Result": "JobSucceeded"}}
        yield {"Event": "SparkListenerJobEnd", **end}
        stage += stages
    yield {"Event": "SparkListenerApplicationEnd", "Timestamp": at}


def attempts_in(events, kind):
    return {event["Task Info"]["Task ID"] for event in events if event["Event"] == kind}


@given(st.data())
def test_totals_are_those_of_the_attempts_in_the_log(data):
    stages = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=4), label="stages of jobs")
    kinds = [data.draw(st.integers(0, len(_JOB_KINDS) - 1)) for _ in stages]
    events = list(whole_log(stages, kinds))
    kept = data.draw(st.lists(st.booleans(), min_size=len(events), max_size=len(events)), label="kept")
    events = [event for event, keep in zip(events, kept, strict=True) if keep]
    if data.draw(st.booleans(), label="out of order"):
        events = data.draw(st.permutations(events))
    ended = attempts_in(events, "SparkListenerTaskEnd")
    begun = attempts_in(events, "SparkListenerTaskStart")
    if not ended | begun:
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "log")
        path.write_text("".join(json.dumps(e, separators=(",", ":")) + "\n" for e in events))
        reader = open_trace(path, "spark_eventlog")
        trace = reader.read()
    usage = usage_of_event_log(trace)
    assert reader.report.bad_rows == 0
    assert len(usage.attempts) == len(ended | begun)
    finished = [attempt for attempt in usage.attempts if attempt.outcome == "success"]
    assert sum(a.end_ms - a.start_ms for a in finished) == 1_000 * len(ended)
    statement = account([usage])
    charged_ms = sum(row.total_ms for row in statement.rows)
    assert charged_ms == sum(a.end_ms - a.start_ms for a in usage.attempts)
    assert charged_ms + statement.idle_ms - statement.excess_ms == statement.capacity_ms
    names = {row.group[0] for row in statement.rows}
    assert names <= {"s", "group", "marked", "(not in the log)"}
    assert trace.jobs.column("source_id").to_pylist() == list(
        dict.fromkeys(trace.jobs["source_id"].to_pylist())
    )
    added = {e["Executor ID"] for e in events if e["Event"] == "SparkListenerExecutorAdded"}
    used = {attempt.executor for attempt in usage.attempts}
    assert usage.unlisted == len(used - added)
    assert reader.report.missing["executors whose addition is not in the log"] == len(used - added)
