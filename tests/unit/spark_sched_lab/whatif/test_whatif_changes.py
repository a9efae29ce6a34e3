"""What operators changed while an application ran, in its replays."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_sched.config.queues import NO_QUEUES, Amount, PlacementRule, QueueSpec, QueueTree
from spark_sched_lab.runs.simulate.experiment import read_experiment
from spark_sched_lab.simulator import MarkChange
from spark_sched_lab.traces.readers.spark_measured import EVENT
from spark_sched_lab.whatif import Question, answer, read_log
from tests.unit.spark_sched_lab.whatif.whatif_logs import T0, Log, contended


def logged_change(log: Log, at: int, body: dict[str, Any]) -> None:
    log.events.append({"Event": EVENT, "schema": 1, "kind": "change", "timeMs": T0 + at, "body": body})


def test_a_switch_of_the_mode_without_its_event_is_noted(tmp_path: Path) -> None:
    log = contended(Log(**{"spark.sched.planner.python": "python3"}))
    for what in ("the policy is fair", "the mode is shadow", "job report: the mode is on"):
        logged_change(log, 1_000, {"by": "ada", "what": what})
    recorded = read_log(log.write(tmp_path / "log"))
    assert recorded.changes.modes == ("shadow",)
    assert recorded.changes.others == ("the policy is fair", "job report: the mode is on")
    document = answer(recorded, Question())
    assert document["scheduler"] == "reservation"
    assert document["notes"][0].startswith(
        "operators switched the mode while it ran (to shadow): replayed in"
    )
    assert document["notes"][1] == (
        "operators changed this while it ran, which the replay does not repeat: the policy is fair; "
        "job report: the mode is on"
    )


def changed(log: Log, at: int, what: str, **event: Any) -> None:
    """An operator's change as the bridge logs it."""
    told = {"type": "job_changed", "time_ms": T0 + at, "by": "ada", "on_hold": False, **event}
    logged_change(log, at, {"by": "ada", "what": what, "job": event["job"], "event": told})


MARKS: dict[str, Any] = {"priority": 0, "isolation": None, "deadline_ms": None}


def test_changes_of_a_jobs_marks_are_repeated_by_every_replay(tmp_path: Path) -> None:
    log = contended(Log(**{"spark.sched.planner.python": "python3"}))
    raised = {**MARKS, "priority": 5, "deadline_ms": T0 + 9_000, "isolation": 0.5}
    changed(log, 1_000, "job stage 1: priority 0 -> 5", job="spark-1", **raised)
    recorded = read_log(log.write(tmp_path / "log"))
    (change,) = recorded.changes.of_jobs["spark-1"]
    assert change == MarkChange(800, priority=5, deadline_ms=9_000, isolation=0.5)
    assert (recorded.changes.repeated, recorded.changes.others) == (("job stage 1: priority 0 -> 5",), ())
    document = answer(recorded, Question(policies=("priority", "stock-fifo")))
    # It waits for the first wave of the long job only, but where nobody looks at priorities.
    ran, by_priority, stock = ([row["jct_s"] for row in arm["jobs"]] for arm in document["arms"])
    assert ran[1] == by_priority[1] == pytest.approx(2.92, abs=0.03)
    assert stock[1] == pytest.approx(4.92, abs=0.03)
    assert document["notes"][0] == (
        "operators changed this while it ran, which every replay repeats: job stage 1: priority 0 -> 5"
    )
    # A question about priorities is asked instead of what operators did.
    asked = answer(recorded, Question(policies=("priority",), priorities=(("stage 1", -1),)))
    assert asked["arms"][1]["jobs"][1]["jct_s"] == pytest.approx(4.92, abs=0.03)


def test_pauses_are_repeated_by_every_replay_and_policies_by_that_of_the_run(tmp_path: Path) -> None:
    log = contended(Log(**{"spark.sched.planner.python": "python3"}), spark_sched_job_priority="5")
    for at, what, policy, paused in (
        (50, "the policy is fifo", "fifo", False),
        (60, "reservations are paused", "fifo", True),
        (70, "the policy is of-tomorrow", "of-tomorrow", True),
    ):
        event = {
            "type": "scheduling_changed",
            "time_ms": T0 + at,
            "policy": policy,
            "mode": "on",
            "by": "ada",
        }
        logged_change(log, at, {"by": "ada", "what": what, "event": {**event, "reservations_paused": paused}})
    recorded = read_log(log.write(tmp_path / "log"))
    assert [(s.at_ms, s.policy, s.reserves) for s in recorded.changes.for_all] == [
        (50, "fifo", True),
        (60, None, False),
        (70, "of-tomorrow", False),
    ]
    document = answer(recorded, Question(policies=("reservation",)))
    ran, ours = document["arms"]
    assert [arm["jobs"][1]["jct_s"] for arm in (ran, ours)] == [
        pytest.approx(4.92, abs=0.03),  # Nobody looks at priorities from 50 ms on.
        pytest.approx(2.92, abs=0.03),
    ]
    assert document["notes"][:3] == [
        "operators changed this for all jobs, which every replay repeats: reservations are paused",
        (
            "operators switched the policy, which the replay as it ran repeats; the others have one policy: "
            "the policy is fifo"
        ),
        "operators changed this while it ran, which the replay does not repeat: the policy is of-tomorrow",
    ]


SHORT_FIRST = QueueTree(
    (QueueSpec("slow", ceiling=Amount(1)), QueueSpec("fast")),
    (PlacementRule("fast", name="stage 1"),),
    "slow",
)


def test_changes_of_queues_are_repeated_by_every_replay_without_queues_of_its_own(tmp_path: Path) -> None:
    log = contended(Log(**{"spark.sched.planner.python": "python3"}))
    what = "queue slow is new: ceiling none -> 1"
    logged_change(log, 1_000, {"by": "ada", "what": what, "queues": SHORT_FIRST.to_json()})
    logged_change(log, 1_100, {"by": "ada", "what": "of a later version", "queues": '{"queues": 3}'})
    logged_change(log, 9_000, {"by": "ada", "what": "queue slow is gone", "queues": ""})
    recorded = read_log(log.write(tmp_path / "log"))
    assert [(put.at_ms, put.tree) for put in recorded.changes.queues] == [
        (1_000, SHORT_FIRST),
        (9_000, NO_QUEUES),
    ]
    wide = QueueTree((QueueSpec("all"),), (), "all").to_json()
    for settings, replayed_s in (({}, 2.92), ({"spark.sched.queues": wide}, 4.92)):
        document = answer(recorded, Question(policies=("fifo",), settings=settings))
        ran, fifo = ([row["jct_s"] for row in arm["jobs"]] for arm in document["arms"])
        # From the end of the first wave on the long job has one slot.
        assert ran[1] == pytest.approx(2.92, abs=0.03)
        assert fifo[1] == pytest.approx(replayed_s, abs=0.03)
    assert document["notes"][:2] == [
        (
            "operators changed the queues, which every replay without queues of its own repeats: "
            f"{what}; queue slow is gone"
        ),
        "operators changed this while it ran, which the replay does not repeat: of a later version",
    ]


@pytest.mark.parametrize(
    ("sparks_order", "priority", "began_in", "at", "mode", "short_jct_s"),
    [
        ("FIFO", "5", "on", 1_000, "shadow", 4.92),  # Spark's order is in force when the first wave ends.
        ("FIFO", "5", "on", 3_000, "off", 2.92),  # The short job has its slot by then.
        ("FIFO", "5", "shadow", 1_000, "on", 2.92),
        ("FIFO", "5", "off", 3_000, "on", 4.92),
        ("FAIR", "0", "on", 1_000, "off", 2.92),  # Without a priority only FAIR lets it pass.
        ("FAIR", "0", "off", 1_000, "on", 4.92),
    ],
)
def test_switches_of_the_mode_are_repeated_by_the_replay_as_it_ran(
    tmp_path: Path, sparks_order: str, priority: str, began_in: str, at: int, mode: str, short_jct_s: float
) -> None:
    properties = {"spark.sched.planner.python": "python3", "spark.sched.mode": began_in}
    log = Log(**properties, **{"spark.scheduler.mode": sparks_order})
    contended(log, spark_sched_job_priority=priority)
    event = {"type": "scheduling_changed", "time_ms": T0 + at, "policy": "reservation", "mode": mode}
    event |= {"by": "ada", "reservations_paused": False}
    logged_change(log, at, {"by": "ada", "what": f"the mode is {mode}", "event": event})
    recorded = read_log(log.write(tmp_path / "log"))
    assert [(s.at_ms, s.policy, s.mode, s.reserves) for s in recorded.changes.for_all] == [
        (at, None, mode, True)
    ]
    document = answer(recorded, Question(policies=("fifo",)))
    ran, fifo = ([row["jct_s"] for row in arm["jobs"]] for arm in document["arms"])
    assert ran[1] == pytest.approx(short_jct_s, abs=0.03)
    assert fifo[1] == pytest.approx(4.92, abs=0.03)
    assert (
        "operators switched the mode, which the replay as it ran repeats; the others are in one mode: "
        f"the mode is {mode}"
    ) in document["notes"]


def test_simulations_of_an_event_log_repeat_the_same_changes(tmp_path: Path) -> None:
    log = contended(Log(**{"spark.sched.planner.python": "python3"}))
    raised = {**MARKS, "priority": 5, "deadline_ms": T0 + 9_000, "isolation": 0.5}
    changed(log, 1_000, "job stage 1: priority 0 -> 5", job="spark-1", **raised)
    logged_change(log, 2_000, {"by": "ada", "what": "the policy is fair"})
    log.write(tmp_path / "log")
    experiment = tmp_path / "x.toml"
    part = '[[workload]]\nname = "{}"\ntrace = "log"\noffset = "10s"\n'
    text = part.format("as-it-was") + part.format("marked") + "priority = 2\n"
    experiment.write_text(f'[cluster]\nnodes = 2\n{text}[[arm]]\npolicy = "fifo"\n')
    left_out: Counter[str] = Counter()
    jobs = {job.key: job for job in read_experiment(experiment).jobs(0, left_out)}
    # The first job comes at 0 and not after 0.1 s, as in the log.
    change = MarkChange(800, priority=5, deadline_ms=18_900, isolation=0.5)
    assert jobs["as-it-was-spark-1"].changes == (change,)
    assert jobs["marked-spark-1"].changes == (replace(change, priority=2),)
    assert jobs["as-it-was-spark-0"].changes == ()
    assert left_out == {"changes by operators, which are not repeated": 2}


def test_a_hold_is_repeated_if_somebody_ended_it(tmp_path: Path) -> None:
    log = contended(Log(**{"spark.sched.planner.python": "python3"}))
    changed(log, 1_000, "job stage 0: on hold", job="spark-0", **MARKS, on_hold=True)
    changed(log, 6_000, "job stage 0: resumed", job="spark-0", **MARKS)
    changed(log, 7_000, "job stage 1: on hold", job="spark-1", **MARKS, on_hold=True)
    recorded = read_log(log.write(tmp_path / "log"))
    assert [change.on_hold for change in recorded.changes.of_jobs["spark-0"]] == [True, False]
    assert recorded.changes.others == ("job stage 1: on hold",)
    long, short = answer(recorded, Question())["arms"][0]["jobs"]
    # Its second wave waits for its resumption, and the short job does not wait for that.
    assert long["end_s"] == pytest.approx(8.0, abs=0.1)
    assert short["jct_s"] == pytest.approx(2.92, abs=0.03)


@pytest.mark.parametrize(
    "event", [None, "text", {"type": "job_changed"}, {"type": "of tomorrow", "time_ms": T0}], ids=str
)
def test_a_change_without_values_is_noted_only(tmp_path: Path, event: Any) -> None:
    log = contended(Log(**{"spark.sched.planner.python": "python3"}))
    body = {"by": "ada", "what": "job stage 1: priority 0 -> 5", "job": "spark-1", "event": event}
    logged_change(log, 1_000, body)
    recorded = read_log(log.write(tmp_path / "log"))
    assert (recorded.changes.of_jobs, recorded.changes.others) == ({}, ("job stage 1: priority 0 -> 5",))
