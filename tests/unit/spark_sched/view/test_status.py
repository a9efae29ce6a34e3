"""The status document as objects, as text and as HTML."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from spark_sched.errors import BadInputError
from spark_sched.view.status import HeldFor, Status
from spark_sched.view.text import clock, of_job, of_status, seconds

EXAMPLES = Path(__file__).parents[4] / "protocol" / "examples"


def example(name: str = "status.json") -> Any:
    return json.loads((EXAMPLES / name).read_text())


def test_every_field_of_the_document_is_read():
    status = Status.from_json(example())
    report, etl = status.jobs
    assert (status.policy, status.plan.number, status.planner.alive) == ("3sigma", 12, True)
    assert (report.name, report.marks.job_class, report.slots.held, report.slot_ms.held_idle) == (
        "nightly-report",
        "batch",
        2,
        3000,
    )
    given = example()["jobs"][0]
    flat = {**asdict(report.marks), **asdict(report.times), **asdict(report.order)}
    assert flat == {name: given["class" if name == "job_class" else name] for name in flat}
    assert (report.tasks, report.tasks_done) == (given["tasks"], given["tasks_done"])
    assert (report.stages[0].done, report.forecast.deadline_probability) == (3, 0.97)
    assert [(each.executor, each.running, each.held) for each in status.executors] == [
        ("0", 2, (HeldFor("mark-1", "nightly-report", 2),)),
        ("1", 2, ()),
    ]
    assert [(each.copied, each.pilot) for each in status.executors] == [(1, 0), (0, 0)]
    assert status.counters["offers_refused"] == 7
    assert (report.notes.why, etl.notes.why[:17]) == (given["why"], "waits for 4 slots")
    assert (report.notes.warnings, etl.notes.warnings) == (tuple(given["warnings"]), ())
    assert [(each.name, each.jobs_ended, each.slot_ms.run) for each in status.users] == [("ada", 2, 58000)]
    assert (etl.state, etl.forecast, etl.marks.user) == ("deferred", None, None)
    queues = [asdict(queue) for queue in status.queues]
    assert [queue.pop("sums")["slot_ms"]["run"] for queue in queues] == [58000, 58000]
    without_limit = {"day_slot_ms": None, "day_most_slot_ms": None, "day_frees_ms": None}
    assert queues == [
        {**without_limit, **{k: v for k, v in queue.items() if k != "sums"}} for queue in example()["queues"]
    ]
    assert status.queues[0].sums == replace(status.users[0], name="reports")
    assert (report.order.queue_name, etl.order.queue_name) == ("reports.nightly", None)
    assert Status.from_json(example("status.job.json")).jobs[0].story[0].text == "submitted"


@pytest.mark.parametrize("text", ["{", "[" * 100_000 + "]" * 100_000], ids=["cut off", "too deep"])
def test_a_document_that_is_no_json_is_refused(text):
    with pytest.raises(BadInputError, match="the status document is not JSON"):
        Status.from_text(text)


def test_names_control_nothing_where_people_see_them():
    name = "a\x1b[31m\nforged\u202e<b>"
    document = example("status.job.json")
    document["jobs"][0] |= {"name": name, "reason": name, "state_text": name, "user": name}
    document["jobs"][0]["story"][0]["text"] = name
    document["application"]["name"] = name
    status = Status.from_json(document)
    (job,) = status.jobs
    for shown in (str(status), str(job), status._repr_html_(), job._repr_html_()):
        assert "a\ufffd[31m forged\ufffd" in shown
        assert not set("\x1b\u202e") & set(shown)
    assert "forged" not in [line[:6] for line in str(status).splitlines() + str(job).splitlines()]


def test_a_table_of_very_many_jobs_has_those_that_run_or_wait_and_says_how_many_more_there_are():
    document = example()
    working, done = document["jobs"]
    slots = dict.fromkeys(done["slots"], 0)
    idle = [done | {"job": f"idle-{n}", "name": f"idle-{n}", "slots": slots} for n in range(1000)]
    document["jobs"] = [*idle, working | {"name": "n" * 1000}]
    status = Status.from_json(document)
    lines = str(status).splitlines()
    assert lines[-1] == "and 801 more jobs: the JSON document has all of them"
    assert any(line.startswith("n" * 255 + "…") for line in lines)
    assert len(str(status)) < 200_000
    assert "and 801 more jobs" in status._repr_html_()


def test_fields_that_a_newer_driver_adds_are_ignored():
    document = example() | {"more": 1}
    document["jobs"][0] = document["jobs"][0] | {"more": 1}
    assert Status.from_json(document) == Status.from_json(example())


def test_what_equation_4_expects_is_called_a_bound():
    document = example() | {"mode": "shadow"}
    document["counters"] = {"would_have_predicted_idle_slot_ms": 7, "would_have_holds_total": 3}
    assert "would have: holds_total 3, predicted_idle_slot_ms (at most) 7" in of_status(
        Status.from_json(document)
    )


def test_slot_time_that_would_have_been_held_in_shadow_mode_is_apart():
    document = example()
    document["jobs"][0]["slot_ms"] |= {"held_idle": 0, "would_have_held_idle": 3000}
    shadowed, plain = Status.from_json(document).jobs[0], Status.from_json(example()).jobs[0]
    assert (shadowed.slot_ms.held_idle, shadowed.slot_ms.would_have_held_idle) == (0, 3000)
    assert plain.slot_ms.would_have_held_idle == 0
    assert "; 3.0 s would have been held idle" in of_job(shadowed)
    assert "would have" not in of_job(plain)


def test_what_equation_4_expects_stands_beside_the_slot_time_held_idle():
    document = example()
    document["jobs"][0]["slot_ms"] |= {"held_idle_at_most": 4500}
    bounded, plain = Status.from_json(document).jobs[0], Status.from_json(example()).jobs[0]
    assert "3.0 s held idle (by equation 4 at most 4.5 s)" in of_job(bounded)
    assert "equation 4" not in of_job(plain)


def test_fields_that_an_older_driver_lacks_are_empty():
    document = example()
    del document["executors"], document["counters"], document["application"]["kept_free_slots"]
    status = Status.from_json(document)
    assert (status.executors, status.counters, status.application.kept_free_slots) == ((), {}, 0)


@pytest.mark.parametrize("document", [[], {}, {"schema": 2}, None, {"schema": 1}, {"schema": 1, "plan": 3}])
def test_what_is_no_status_document_is_refused_in_a_sentence(document: Any):
    with pytest.raises(BadInputError, match="the status document"):
        Status.from_json(document)


def test_text_answers_who_waits_why_and_whether_the_planner_is_alive():
    text = str(Status.from_json(example()))
    assert "4 of 8 slots run tasks on 2 executors, 2 are held idle, " in text
    assert "idle, 2 are kept free by the plan; 2 jobs" in text
    assert "planner: alive (pid 4711, heard of 0.1 s ago), 1 restarts" in text
    assert "plan: 12 of policy 3sigma, 0.8 s old, valid for 9.2 s more, made in 14 ms, at most 2.0%" in text
    assert "30.0 s (20.0 s to 1 min 0 s)" in text
    assert "met with 97%" in text
    assert "deferred until 2025-10-09T08:54:00Z" in text
    assert repr(Status.from_json(example())) == text


def test_text_says_when_the_configured_rules_apply():
    document = example("status.job.json")
    text = str(Status.from_json(document))
    assert "planner: not running" in text
    assert "plan: none in force, the configured rules apply (there was no plan yet)" in text
    document["planner"]["enabled"] = False
    assert "planner: switched off" in str(Status.from_json(document))
    document["application"]["scheduling"] = False
    assert "Spark's own scheduling is in force" in str(Status.from_json(document))


def test_a_story_is_told_line_by_line():
    job = Status.from_json(example("status.job.json")).jobs[0]
    assert [line.split("  ")[-1] for line in str(job).splitlines()[-3:]] == [
        entry.text for entry in job.story
    ]


def test_a_job_that_waits_says_when_it_is_expected_to_start_or_how_many_are_before_it():
    document = example()
    report, etl = document["jobs"]
    report["begun_ms"] = None
    report["forecast"] |= {"start_p10_ms": 1760000040000, "start_p50_ms": 1760000045000}
    report["forecast"]["start_p90_ms"] = 1760000055000
    etl |= {"after_jobs": 9, "begun_ms": None}
    status = Status.from_json(document)
    low, middle, high = map(clock, (1760000040000, 1760000045000, 1760000055000))
    first, second = map(of_job, status.jobs)
    assert f"  expected start: {middle} (80 % interval: {low} to {high})\n" in first
    assert "  expected end: after 9 jobs: too little is known about it or about a job before it\n" in second
    assert "expected start" not in second
    assert "  after 9 jobs  " in str(status)
    etl["after_jobs"] = 1
    assert "expected end: after 1 job:" in of_job(Status.from_json(document).jobs[1])


def test_a_job_says_when_it_is_expected_to_end():
    report, etl = Status.from_json(example()).jobs
    text = of_job(report)
    assert "  stage 4.0: 3 of 8 tasks done, 4 run, 1 wait (reduceByKey at report.py:12)\n" in text
    low, middle, high, deadline = map(clock, (1760000050000, 1760000060000, 1760000090000, 1760000900000))
    assert f"  expected end: {middle} (80 % interval: {low} to {high})\n" in text
    assert f"  deadline: {deadline}, met with 97%\n" in text
    assert "  expected end: unknown\n" in of_job(etl)
    assert "deadline" not in of_job(replace(etl, reason=""))
    ended = of_job(replace(report, outcome="ended", forecast=None, stages=()))
    assert "expected end" not in ended
    assert f"  deadline: {deadline}\n" in ended


def test_html_has_every_job_and_escapes_names():
    document = example()
    document["jobs"][0]["name"] = "<script>"
    status = Status.from_json(document)
    assert "&lt;script&gt;" in status._repr_html_()
    assert "<script>" not in status._repr_html_() + status.jobs[0]._repr_html_()
    story = Status.from_json(example("status.job.json")).jobs[0]
    assert story._repr_html_().count("<tr>") == 1 + len(story.story)


def test_an_unknown_name_is_answered_with_the_nearest():
    status = Status.from_json(example())
    sentence = str(status.unknown_job("nightly-reprot"))
    assert "did you mean 'nightly-report'?" in sentence
    assert "now there are etl, nightly-report" in sentence
    document = example() | {"jobs": []}
    assert "there are no jobs now" in str(Status.from_json(document).unknown_job("x"))


@pytest.mark.parametrize(
    ("ms", "said"),
    [(0, "0.0 s"), (-5, "0.0 s"), (59_940, "59.9 s"), (60_000, "1 min 0 s"), (7_260_000, "2 h 1 min")],
)
def test_lengths_of_time_have_two_units_at_most(ms: float, said: str):
    assert seconds(ms) == said


def test_text_says_what_would_have_been_done():
    document = example() | {"mode": "shadow"}
    document["counters"] = document["counters"] | {"would_have_holds_total": 5, "would_have_evictions": 0}
    text = str(Status.from_json(document))
    assert "mode: shadow, Spark's own order applies; would have: holds_total 5\n" in text
    assert "would be held idle" in text
    document["mode"] = "on"
    assert "in shadow mode it would have: holds_total 5" in str(Status.from_json(document))
    assert "mode:" not in str(Status.from_json(example()))
    assert "reservations are paused" in str(Status.from_json(example() | {"reservations_paused": True}))
