"""A live run, replayed: a marked job of three actions, run twice on ``spark-sched:local[2]`` with copies on.

Recorded by ``spark.sched.events.path`` on Spark 4.3.0.
"""

from __future__ import annotations

import json
from pathlib import Path

from spark_sched.predict import StageHistory
from spark_sched.protocol.events import Event, decode_event
from spark_sched.state import ClusterState, JobSummary
from tests.encoding import encode_event

LINES = [json.loads(line) for line in Path(__file__).with_name("recorded-run.jsonl").read_text().splitlines()]
EVENTS: list[Event] = [event for line in LINES if (event := decode_event(line)) is not None]


def test_recorded_lines_are_events_but_for_the_resets() -> None:
    assert [line["type"] for line in LINES if decode_event(line) is None] == ["reset"]
    assert [encode_event(event) for event in EVENTS] == [line for line in LINES if line["type"] != "reset"]


def test_the_state_agrees_with_itself_throughout_and_is_empty_at_the_end() -> None:
    state = ClusterState()
    jobs = []
    for event in EVENTS:
        ended = state.apply(event)
        state.check()
        if isinstance(ended, JobSummary):
            jobs.append(ended)
    assert [(job.name, job.cut_short) for job in jobs] == [("loop", False), ("loop", False)]
    snapshot = state.snapshot()
    assert not snapshot.jobs
    assert all(executor.held_slots == 0 for executor in snapshot.executors.values())
    # A job may end before its last stage, whose slower twin is killed only then.
    assert set(state.ignored) <= {"stage_ended"}


def test_slots_in_use_never_exceed_the_slots_there_are() -> None:
    state = ClusterState()
    for event in EVENTS:
        state.apply(event)
        for executor in state.snapshot().executors.values():
            assert executor.running_slots <= executor.slots


def test_the_second_run_is_foretold_by_the_first() -> None:
    state, predictor = ClusterState(), StageHistory()
    foretold = []
    for event in EVENTS:
        ended = state.apply(event)
        predictor.observe(event)
        if ended is not None:
            predictor.learn(ended)
        if event.type == "stage_started":
            foretold += [predictor.forecast(job).stage_tasks for job in state.snapshot().jobs.values()]
    assert foretold == [()] * 6 + [(4, 2, 4, 2, 4, 2)] * 6
