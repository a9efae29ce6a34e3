"""``spark-sched whatif`` on logs small enough to reckon by hand, and on input that it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from spark_sched.cli.app import app
from spark_sched_lab.traces.readers.spark_measured import EVENT
from spark_sched_lab.traces.tables import Machine
from spark_sched_lab.whatif import Question, answer, read_log
from spark_sched_lab.whatif.overheads import Launch, Occupancy, turnaround_ms
from spark_sched_lab.whatif.recorded import RecordedAttempt
from spark_sched_lab.whatif.replayed import build_model
from tests.unit.spark_sched_lab.whatif.whatif_logs import T0, Log, contended

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


def test_a_block_of_the_program_that_is_one_job_holds_its_slots_until_its_own_end(tmp_path: Path) -> None:
    """Its last Spark job ends at 2.12 s, the block at 3.52 s, and a job of low priority waits until then."""
    mark = {"spark_sched_job_id": "1", "spark_sched_job_name": "block", "spark_sched_job_priority": "5"}
    settings = {"spark.sched.reservation.firstGap": "2s"}
    log = Log(**{"spark.sched.planner.python": "python3", **settings}).executor(0, "1", 2)
    log.job(0, 100, 2_120, [(120, 2_100), (120, 2_100)], **mark)
    log.job(1, 200, 4_620, [(3_540, 4_600), (3_540, 4_600)])
    slot_ms = {"run": 3_960, "held_idle": 2_800, "evicted": 0, "copied": 0}
    body = {"job": "mark-1", "name": "block", "user": None, "ended_ms": T0 + 3_520, "slot_ms": slot_ms}
    log.events.append({"Event": EVENT, "schema": 1, "kind": "job", "timeMs": T0 + 3_520, "body": body})
    document = answer(read_log(log.write(tmp_path / "log")), Question())
    assert [(r["real_jct_s"], r["jct_s"]) for r in document["arms"][0]["jobs"]] == [
        (3.42, pytest.approx(3.42, abs=0.03)),
        (4.42, pytest.approx(4.42, abs=0.03)),
    ]


def test_the_time_of_an_evicted_attempt_is_not_its_tasks(tmp_path: Path) -> None:
    """A task of 2 s is killed after 0.5 s for a job of 1 s, and runs again from its start."""
    log = Log(**{"spark.sched.planner.python": "python3"}).executor(0, "1", 1)
    log.job(0, 100, 3_640, [(120, 620), (1_620, 3_620)])
    killed, again = (event for event in log.events if event["Event"] == "SparkListenerTaskEnd")
    killed["Task End Reason"] = {"Reason": "TaskKilled", "Kill Reason": "evicted"}
    again["Task Info"]["Index"] = 0
    again["Task Info"]["Attempt"] = 1
    (stage,) = build_model(read_log(log.write(tmp_path / "log"))).jobs[0].stages
    assert stage.durations_ms == [pytest.approx(2_000, abs=30)]


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


def test_a_policy_among_the_settings_is_the_one_that_is_tried(tmp_path: Path) -> None:
    question = Question(settings={"spark.sched.planner.policy": "las"})
    question.check()
    document = answer(read_log(contended().write(tmp_path / "log")), question)
    assert [arm["arm"] for arm in document["arms"]][1:] == ["las"]


def test_recorded_options_of_policies_are_replayed(tmp_path: Path) -> None:
    log = contended()
    log.events[2]["Spark Properties"]["spark.sched.policy.fair.poolBy"] = "user"
    assert read_log(log.write(tmp_path / "log")).settings == {"spark.sched.policy.fair.poolBy": "user"}


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
    together = document["together"]
    assert (together["logs"], together["jobs"], together["within_10_percent"]) == (2, 4, 1.0)
    assert together["time_within_10_percent"] == 1.0
    assert together["by_length"][0] == {"at_least_s": 1, "jobs": 4, "within_10_percent": 1.0}
    assert document["left_out"][0]["log"].endswith("empty")
    assert "has no job with a task" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(("nowhere",), "nowhere does not exist", id="no such file"),
        pytest.param(("log", "--policy", "reservations"), "did you mean", id="unknown policy"),
        pytest.param(("log", "--set", "spark.sched.reservation.isolation=2"), "from 0 to 1", id="bad value"),
        pytest.param(("log", "--set", "spark.executor.cores=2"), "unknown setting", id="not ours"),
        pytest.param(("log", "--set", "spark.sched.placement=pack"), "does nothing", id="no effect"),
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
        return Launch(RecordedAttempt(0, start, end, "e", "finished", False, ""), 0, -1)

    own = [launch(1_000 * i // 2 + 4 * (i // 2), 1_000 * i // 2 + 996 + 4 * (i // 2)) for i in range(20)]
    assert turnaround_ms(own, {"e": 2}) == pytest.approx(8, abs=4)
    assert turnaround_ms(own[:3], {"e": 2}) == 0.0


def test_free_slots_are_followed_back_to_when_the_last_one_came_free() -> None:
    attempts = [
        RecordedAttempt(0, 0, 100, "e", "finished", False, ""),
        RecordedAttempt(1, 0, 50, "e", "finished", False, ""),
    ]
    occupancy = Occupancy(attempts, [Machine("e", slots=2)], 0)
    assert occupancy.free_since_ms(40) == 40
    assert occupancy.free_since_ms(80) == 50
    assert occupancy.any_slot(0)
