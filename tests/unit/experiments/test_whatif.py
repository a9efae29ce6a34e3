"""``spark-sched whatif`` on logs small enough to reckon by hand, and on input that it refuses."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from spark_sched.analysis.whatif import Question, answer, read_log
from spark_sched.analysis.whatif.overheads import Launch, Occupancy, turnaround_ms
from spark_sched.analysis.whatif.recorded import RecordedAttempt
from spark_sched.cli.app import app
from spark_sched.experiments.simulate.experiment import read_experiment
from spark_sched.sim import MarkChange
from spark_sched.traces.readers.spark_measured import EVENT
from spark_sched.traces.tables import Machine

T0 = 1_700_000_000_000


class Log:
    """Listener events as Spark writes them; times in ms since the application's start."""

    def __init__(self, **properties: str) -> None:
        self.events: list[dict[str, Any]] = [
            {"Event": "SparkListenerLogStart", "Spark Version": "4.1.0"},
            {
                "Event": "SparkListenerApplicationStart",
                "App Name": "test",
                "App ID": "app-1",
                "Timestamp": T0,
                "User": "anna",
            },
            {"Event": "SparkListenerEnvironmentUpdate", "Spark Properties": properties},
        ]

    def add(self, kind: str, **fields: Any) -> Log:
        self.events.append({"Event": kind, **fields})
        return self

    def executor(self, at: int, name: str, cores: int, **info: Any) -> Log:
        return self.add(
            "SparkListenerExecutorAdded",
            **{
                "Timestamp": T0 + at,
                "Executor ID": name,
                "Executor Info": {"Host": f"h{name}", "Total Cores": cores, **info},
            },
        )

    def job(self, number: int, begin: int, end: int, tasks: list[tuple[int, int]], **properties: str) -> Log:
        """A Spark job of one stage that is submitted when it is; tasks by (launch, finish) on executor 1."""
        info = {
            "Stage ID": number,
            "Stage Attempt ID": 0,
            "Stage Name": f"stage {number}",
            "Number of Tasks": len(tasks),
            "Parent IDs": [],
            "Submission Time": T0 + begin,
        }
        self.add(
            "SparkListenerJobStart",
            **{
                "Job ID": number,
                "Submission Time": T0 + begin,
                "Stage Infos": [info],
                "Properties": {k.replace("_", "."): v for k, v in properties.items()},
            },
        )
        self.add("SparkListenerStageSubmitted", **{"Stage Info": info})
        for index, (launch, finish) in enumerate(tasks):
            self.add(
                "SparkListenerTaskEnd",
                **{
                    "Stage ID": number,
                    "Stage Attempt ID": 0,
                    "Task End Reason": {"Reason": "Success"},
                    "Task Info": {
                        "Index": index,
                        "Attempt": 0,
                        "Launch Time": T0 + launch,
                        "Finish Time": T0 + finish,
                        "Executor ID": "1",
                        "Locality": "PROCESS_LOCAL",
                    },
                },
            )
        done = {**info, "Completion Time": T0 + max(finish for _, finish in tasks)}
        self.add("SparkListenerStageCompleted", **{"Stage Info": done})
        return self.add(
            "SparkListenerJobEnd",
            **{"Job ID": number, "Completion Time": T0 + end, "Job Result": {"Result": "JobSucceeded"}},
        )

    def write(self, path: Path) -> Path:
        path.write_text("".join(json.dumps(e, separators=(",", ":")) + "\n" for e in self.events))
        return path


def contended(log: Log | None = None, **marks: str) -> Log:
    """Two slots. A long job of four tasks, and a short one with these marks that waits for it for 1.9 s."""
    log = (log or Log()).executor(0, "1", 2)
    log.job(0, 100, 4_120, [(120, 2_120), (120, 2_120), (2_120, 4_100), (2_120, 4_100)])
    return log.job(1, 200, 5_120, [(4_100, 5_100)], **marks)


Whatif = Callable[..., Result]


@pytest.fixture
def whatif(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Whatif:
    monkeypatch.chdir(tmp_path)
    contended().write(tmp_path / "log")

    def call(*arguments: str) -> Result:
        return CliRunner().invoke(
            app, ["whatif", *arguments], prog_name="spark-sched", catch_exceptions=False
        )

    return call


def test_the_replay_gives_back_what_happened(tmp_path: Path) -> None:
    document = answer(read_log(contended().write(tmp_path / "log")), Question())
    assert [(r["real_jct_s"], r["jct_s"]) for r in document["arms"][0]["jobs"]] == [
        (4.02, pytest.approx(4.02, abs=0.03)),
        (4.92, pytest.approx(4.92, abs=0.03)),
    ]
    assert document["replay"]["within_10_percent"] == 1.0
    assert document["answer"][0].startswith(
        "Replayed under stock FIFO, as it ran: 2 of 2 jobs (100%) are within 10 % of the recording"
    )


@pytest.mark.parametrize("mode", ["shadow", "off"])
def test_a_run_that_enforced_nothing_is_replayed_under_sparks_own_scheduling(
    tmp_path: Path, mode: str
) -> None:
    log = Log(**{"spark.sched.planner.python": "python3", "spark.sched.mode": mode})
    recorded = read_log(contended(log, spark_sched_job_priority="5").write(tmp_path / "log"))
    document = answer(recorded, Question(policies=("reservation",)))
    assert (document["scheduler"], document["attached"]) == ("stock FIFO", True)
    ran, ours = ([row["jct_s"] for row in arm["jobs"]] for arm in document["arms"])
    assert ran == [pytest.approx(4.02, abs=0.03), pytest.approx(4.92, abs=0.03)]
    assert ours[1] == pytest.approx(2.92, abs=0.03)
    assert f"spark.sched.mode was {mode}, so that Spark's own scheduling is replayed" in document["notes"]


def test_a_run_in_shadow_mode_is_answered_with_what_would_have_been(tmp_path: Path) -> None:
    log = Log(**{"spark.sched.planner.python": "python3", "spark.sched.mode": "shadow"})
    contended(log, spark_sched_job_priority="5")
    counters = {"would_have_holds_total": 3, "would_have_held_idle_slot_ms": 2_500, "holds_total": 7}
    nothing = dict.fromkeys(("run", "held_idle", "evicted", "copied"), 0)
    body = {"counters": counters, "left_out": {"jobs": 0, "slot_ms": nothing}}
    log.events.append({"Event": EVENT, "schema": 1, "kind": "end", "timeMs": T0 + 6_000, "body": body})
    document = answer(read_log(log.write(tmp_path / "log")), Question())
    assert [arm["arm"] for arm in document["arms"]] == ["as it ran", "reservation"]
    assert document["measured"]["would_have"] == {"holds_total": 3, "held_idle_slot_ms": 2_500}
    said = "\n".join(document["answer"])
    assert (
        "Counted in shadow mode: slots would have been held 3 times, for 2.5 idle slot-seconds; 0 copies"
        in said
    )
    assert "Under reservation: jobs would have taken" in said


def logged_change(log: Log, at: int, body: dict[str, Any]) -> None:
    log.events.append({"Event": EVENT, "schema": 1, "kind": "change", "timeMs": T0 + at, "body": body})


def test_a_switch_of_the_mode_without_its_event_is_noted(tmp_path: Path) -> None:
    log = contended(Log(**{"spark.sched.planner.python": "python3"}))
    for what in ("the policy is fair", "the mode is shadow", "job report: the mode is on"):
        logged_change(log, 1_000, {"by": "ada", "what": what})
    recorded = read_log(log.write(tmp_path / "log"))
    assert recorded.switches == ("shadow",)
    assert recorded.changes == ("the policy is fair", "job report: the mode is on")
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
    (change,) = recorded.mark_changes["spark-1"]
    assert change == MarkChange(800, priority=5, deadline_ms=9_000, isolation=0.5)
    assert (recorded.repeated, recorded.changes) == (("job stage 1: priority 0 -> 5",), ())
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
    assert [(s.at_ms, s.policy, s.reserves) for s in recorded.for_all] == [
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
    assert [(s.at_ms, s.policy, s.mode, s.reserves) for s in recorded.for_all] == [(at, None, mode, True)]
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
    assert [change.on_hold for change in recorded.mark_changes["spark-0"]] == [True, False]
    assert recorded.changes == ("job stage 1: on hold",)
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
    assert (recorded.mark_changes, recorded.changes) == ({}, ("job stage 1: priority 0 -> 5",))


def test_tasks_that_still_ran_when_the_log_ended_change_nothing(tmp_path: Path) -> None:
    log = contended()
    running = {"Task ID": 9, "Index": 0, "Attempt": 0, "Launch Time": T0 + 5_000, "Executor ID": "1"}
    last = [event for event in log.events if event["Event"] == "SparkListenerStageSubmitted"][-1]
    # A second attempt in the last stage, and a job of which no task has ended.
    log.events.insert(-2, {"Event": "SparkListenerTaskStart", "Stage ID": 1, "Task Info": running})
    info = {**last["Stage Info"], "Stage ID": 2}
    log.add("SparkListenerJobStart", **{"Job ID": 2, "Submission Time": T0 + 5_000, "Stage Infos": [info]})
    log.add("SparkListenerStageSubmitted", **{"Stage Info": info})
    log.add("SparkListenerTaskStart", **{"Stage ID": 2, "Task Info": {**running, "Task ID": 10}})
    found, whole = (read_log(each.write(tmp_path / "log")) for each in (log, contended()))
    assert found.notes == {"jobs without a task that ended": 1}
    assert answer(found, Question())["arms"] == answer(whole, Question())["arms"]


def test_a_jobs_priority_takes_it_to_the_front_and_the_words_say_so(whatif: Whatif) -> None:
    result = whatif("log", "--policy", "priority", "--priority", "stage 1=5", "--json")
    assert result.exit_code == 0
    log = json.loads(result.stdout)["logs"][0]
    ran, tried = ({row["job"]: row for row in arm["jobs"]} for arm in log["arms"])
    # It waits for the first wave of the long job only.
    assert ran["spark-1"]["jct_s"] == pytest.approx(4.92, abs=0.03)
    assert tried["spark-1"]["jct_s"] == pytest.approx(2.92, abs=0.03)
    assert tried["spark-0"]["jct_s"] == pytest.approx(5.02, abs=0.03)
    assert "'stage 1' (priority 5) would have finished after 2.9 s instead of 4.9 s (-40%)." in log["answer"]


def test_the_table_and_the_sentences_are_printed(whatif: Whatif) -> None:
    result = whatif("log", "--policy", "stock-fair")
    assert result.exit_code == 0
    for words in ("2 of 2 jobs", "Under stock-fair:", "recorded", "stage 0", "1 executors, 2 slots"):
        assert words in result.stdout


def test_several_logs_are_answered_one_by_one_and_an_unusable_one_is_named(
    whatif: Whatif, tmp_path: Path
) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    contended().write(folder / "good")
    Log().write(folder / "empty")
    result = whatif("logs", "log", "--json")
    document = json.loads(result.stdout)
    assert [Path(log["log"]).name for log in document["logs"]] == ["good", "log"]
    assert document["together"] == {"logs": 2, "jobs": 4, "within_10_percent": 1.0}
    assert document["left_out"][0]["log"].endswith("empty")
    assert "has no job with a task" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(("nowhere",), "nowhere does not exist", id="no such file"),
        pytest.param(("log", "--policy", "reservations"), "did you mean", id="unknown policy"),
        pytest.param(("log", "--set", "spark.sched.reservation.isolation=2"), "from 0 to 1", id="bad value"),
        pytest.param(("log", "--set", "spark.executor.cores=2"), "unknown setting", id="not ours"),
        pytest.param(("log", "--priority", "stage"), "JOB=N", id="no number"),
        pytest.param(("log", "--priority", "report=3"), "matches no job of", id="no such job"),
        pytest.param(("swf",), "is not a Spark event log but", id="another trace"),
        pytest.param(("log", "--pools", "log"), "not an allocation file", id="no pools"),
    ],
)
def test_bad_input_is_one_sentence(
    whatif: Whatif, tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    (tmp_path / "swf").write_text("".join(f"{i} 2 3.0 2.0 4.0\n" for i in range(20)))
    result = whatif(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_a_driver_that_never_ran_two_jobs_at_once_waits_for_each(tmp_path: Path) -> None:
    log = Log().executor(0, "1", 1).job(0, 0, 1_000, [(10, 990)]).job(1, 1_500, 2_500, [(1_510, 2_490)])
    recorded = read_log(log.write(tmp_path / "log"))
    document = answer(recorded, Question())
    assert document["model"]["one_by_one"]
    assert [row["submit_s"] for row in document["arms"][0]["jobs"]] == [0.0, 1.5]
    fixed = answer(recorded, Question(one_by_one=False))
    assert not fixed["model"]["one_by_one"]


def test_gpus_bound_an_executors_slots(tmp_path: Path) -> None:
    log = Log().add(
        "SparkListenerResourceProfileAdded",
        **{
            "Resource Profile Id": 0,
            "Task Resource Requests": {"cpus": {"Amount": 1.0}, "gpu": {"Amount": 0.25}},
        },
    )
    log.executor(0, "1", 16, Resources={"gpu": {"name": "gpu", "addresses": ["0"]}})
    log.job(0, 0, 100, [(10, 90)])
    assert read_log(log.write(tmp_path / "log")).executors[0].slots == 4


def test_an_executor_that_gets_nothing_while_tasks_wait_is_not_there(tmp_path: Path) -> None:
    log = Log().executor(0, "1", 1).executor(0, "2", 8)
    log.job(0, 0, 3_020, [(10, 1_010), (1_010, 2_010), (2_010, 3_010)])
    document = answer(read_log(log.write(tmp_path / "log")), Question())
    assert document["replay"]["within_5_percent"] == 1.0


def test_waiting_for_slots_is_no_overhead(tmp_path: Path) -> None:
    """The second job's 3.9 s before its first launch are simulated anew, not copied."""
    document = answer(read_log(contended().write(tmp_path / "log")), Question())
    assert document["model"]["launch_ms"] == 20


def test_turnaround_is_matched_by_the_order_of_ends() -> None:
    def launch(start: int, end: int) -> Launch:
        return Launch(RecordedAttempt(0, start, end, "e", True, False, ""), 0, -1)

    own = [launch(1_000 * i // 2 + 4 * (i // 2), 1_000 * i // 2 + 996 + 4 * (i // 2)) for i in range(20)]
    assert turnaround_ms(own, {"e": 2}) == pytest.approx(8, abs=4)
    assert turnaround_ms(own[:3], {"e": 2}) == 0.0


def test_free_slots_are_followed_back_to_when_the_last_one_came_free() -> None:
    attempts = [
        RecordedAttempt(0, 0, 100, "e", True, False, ""),
        RecordedAttempt(1, 0, 50, "e", True, False, ""),
    ]
    occupancy = Occupancy(attempts, [Machine("e", slots=2)], 0)
    assert occupancy.free_since_ms(40) == 40
    assert occupancy.free_since_ms(80) == 50
    assert occupancy.any_slot(0)
