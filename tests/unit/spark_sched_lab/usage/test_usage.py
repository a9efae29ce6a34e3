"""``spark-sched usage``: every slot-millisecond is charged once, to the right job and kind."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest
from click.testing import CliRunner, Result

from spark_sched.cli.app import app
from spark_sched.errors import BadInputError
from spark_sched.policies import ReservationRule
from spark_sched.policies.reservation.formulas import reservation_deadline_s, utilization_lower_bound
from spark_sched.state import JobView
from spark_sched_lab.simulator import ClusterSpec, JobSpec, StageSpec, simulate, uniform_nodes
from spark_sched_lab.traces import read_trace
from spark_sched_lab.traces.lines import lines
from spark_sched_lab.traces.read_report import ReadReport
from spark_sched_lab.traces.readers.spark_measured import EVENT
from spark_sched_lab.usage import (
    KINDS,
    ChargedAttempt,
    Hold,
    Owner,
    Presence,
    Usage,
    account,
    usage_of_event_log,
    usage_of_recorded,
)
from spark_sched_lab.usage.unlisted import cover_attempts
from tests.encoding import encode_event
from tests.unit.spark_sched_lab.engine.scripted import Scripted
from tests.unit.spark_sched_lab.traces.event_log import T0, Log
from tests.unit.spark_sched_lab.whatif.whatif_logs import Log as WhatifLog

SHARED = Path(__file__).parents[5] / "shared" / "data" / "spark_eventlogs"


def attempt(start_ms: int, end_ms: int, outcome: str = "success", **changed: Any) -> ChargedAttempt:
    known = {"job": "a", "stage": "a.0", "index": 0, "executor": "1"} | changed
    return ChargedAttempt(start_ms=start_ms, end_ms=end_ms, outcome=outcome, **known)


def charged(*attempts: ChargedAttempt, holds: list[Hold] | None = None, slots: int = 1) -> dict[str, int]:
    usage = Usage([Presence("1", slots, 0, 10_000)], {"a": Owner("a", "u", "c")}, list(attempts), holds)
    found = account([usage])
    return {kind: found.total_ms(kind) for kind in KINDS if found.total_ms(kind)}


def test_an_attempt_that_is_killed_and_runs_again_was_evicted():
    assert charged(attempt(0, 1_000, "killed"), attempt(3_000, 5_000)) == {"run": 2_000, "evicted": 1_000}


def test_an_attempt_that_is_killed_and_never_runs_again_was_cancelled():
    assert charged(attempt(0, 1_000, "killed")) == {"cancelled": 1_000}


@pytest.mark.parametrize("logged_ms", [2_999, 3_000, 3_007])
def test_the_twin_that_lost_is_a_copys_cost_whichever_end_is_logged_first(logged_ms):
    loser = attempt(500, logged_ms, "killed")
    assert charged(attempt(0, 3_000), loser, slots=2) == {"run": 3_000, "copies": logged_ms - 500}


def test_of_two_twins_that_both_succeed_the_later_one_is_the_copys_cost():
    assert charged(attempt(0, 3_000), attempt(500, 3_200), slots=2) == {"run": 3_000, "copies": 2_700}


@pytest.mark.parametrize("outcome", ["failed", "lost"])
def test_what_failed_or_was_lost_is_charged_though_it_ran_again(outcome):
    assert charged(attempt(0, 1_000, outcome), attempt(1_000, 2_000)) == {"run": 1_000, "failed": 1_000}


def test_slots_per_task_and_holds_count():
    held = [Hold("a", "1", 2_000, 3_500)]
    assert charged(attempt(0, 2_000, slots=2), holds=held, slots=2) == {"run": 4_000, "held": 1_500}


def test_attempts_are_charged_in_full_and_holds_within_their_executors_presence():
    held = [Hold("a", "1", 9_000, 12_000), Hold("a", "gone", 0, 1_000)]
    attempts = (
        attempt(-500, 500),
        attempt(9_000, 12_000, index=1),
        attempt(0, 700, index=2, executor="unlisted"),
    )
    assert charged(*attempts, holds=held, slots=2) == {"run": 4_700, "held": 1_000}


def test_executors_cover_their_attempts_and_the_unlisted_ones_are_counted():
    usage = Usage([Presence("1", 1, 0, 900)])
    usage.attempts = [attempt(0, 1_000), attempt(100, 400, executor="2"), attempt(399, 600, executor="2")]
    cover_attempts(usage, 2_000)
    assert usage.executors == [Presence("1", 1, 0, 1_000), Presence("2", 2, 100, 2_000)]
    assert usage.unlisted == 1


def test_a_log_without_its_executors_is_charged_and_says_what_it_lacks(tmp_path):
    log = Log().job(0, 0, {0: []}).stage(0, 0, 10_000, tasks=2).job_end(0, 10_000)
    log.add("SparkListenerApplicationEnd", Timestamp=T0 + 11_000).write(tmp_path / "log")
    found = CliRunner().invoke(app, ["usage", str(tmp_path / "log"), "--json"])
    document = json.loads(found.stdout)
    assert (document["total"]["run_slot_s"], document["capacity_slot_s"]) == (19.98, 21.98)
    assert document["missing"] == {"executors whose addition is not in the log": 1}
    assert document["unlisted_executors"] == 1
    assert "missing: 1 executors whose addition is not in the log" in found.stderr
    text = CliRunner().invoke(app, ["usage", str(tmp_path / "log")]).stdout
    assert "1 executors are not listed in the log" in " ".join(text.split())


def test_the_tail_of_a_log_is_charged_to_the_stage_or_to_nobody_it_names(tmp_path):
    whole = Log().executor(0, "1", 2).job(0, 0, {0: [], 1: [0]}).stage(0, 0, 1_000).stage(1, 1_000, 3_000)
    whole.events = whole.events[-4:]  # without the start of the job, and the submission of its first stage
    document = json.loads(
        CliRunner().invoke(app, ["usage", str(whole.write(tmp_path / "log")), "--json"]).stdout
    )
    assert [(row["name"], row["run_slot_s"]) for row in document["rows"]] == [("stage 1", 1.99)]
    assert document["missing"] == {
        "applications whose start is not in the log": 1,
        "executors whose addition is not in the log": 1,
        "stages of Spark jobs whose start is not in the log": 1,
    }


def test_the_statement_adds_up_and_says_what_overlaps():
    usage = Usage([Presence("1", 1, 0, 1_000), Presence("2", 1, 0, 1_000)], {}, [], [])
    usage.attempts = [attempt(0, 700), attempt(600, 1_000, index=1), attempt(0, 300, index=2, executor="2")]
    found = account([usage])
    assert (found.capacity_ms, found.idle_ms, found.excess_ms) == (2_000, 700, 100)
    assert found.rows[0].total_ms + found.idle_ms - found.excess_ms == found.capacity_ms


def test_groups_are_sums_over_jobs_and_logs():
    owners = {"a": Owner("daily", "ann", "slo"), "b": Owner("once", "ann", "")}
    one = Usage(
        [Presence("1", 2, 0, 5_000)], owners, [attempt(0, 1_000), attempt(0, 500, job="b", stage="b.0")]
    )
    found = account([one, one], ("user", "class"))
    assert [(row.group, len(row.jobs), row.total_ms) for row in found.rows] == [
        (("ann", "slo"), 2, 2_000),
        (("ann", ""), 2, 1_000),
    ]
    assert not found.has_holds


def evicting() -> Usage:
    """Bob's job waits; it evicts one attempt of Ann's for 2 s of work, and one that she evicted herself."""
    owners = {
        "a": Owner("daily", "ann", ""),
        "b": Owner("urgent", "bob", "slo"),
        "c": Owner("mine", "ann", ""),
    }
    attempts = [
        attempt(0, 2_000, "killed", evicted_for="b"),
        attempt(2_000, 3_000),
        attempt(0, 500, "killed", index=1, evicted_for="c"),
        attempt(3_000, 4_000, index=1),
    ]
    return Usage([Presence("1", 2, 0, 5_000)], owners, attempts, [])


def test_who_lost_slot_time_to_evictions_is_told_with_whom_for():
    found = account([evicting()], ("user",))
    assert [tuple(each) for each in found.caused] == [(("ann",), ("bob",), 2_000), (("ann",), ("ann",), 500)]
    rows = {row.group: (row.slot_ms["evicted"], row.caused_ms, row.total_ms) for row in found.rows}
    assert rows == {("ann",): (2_500, 500, 4_500), ("bob",): (0, 2_000, 0)}
    assert found.has_causes
    unknown = Usage([Presence("1", 1, 0, 5_000)], {}, [attempt(0, 1_000, "killed"), attempt(1_000, 2_000)])
    assert account([unknown]).caused == ()
    assert not account([unknown]).has_causes


def test_the_stage_that_slots_were_evicted_for_is_not_known():
    (first, _) = account([evicting()], ("name", "stage", "executor")).caused
    assert (first.group, first.caused_by) == (("daily", "a.0", "1"), ("urgent", "", "1"))


def recorded(tmp_path: Path, *lines: dict[str, Any]) -> Path:
    path = tmp_path / "events.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture
def simulated(tmp_path: Path) -> tuple[Path, dict[str, float]]:
    """What the planner would have recorded of a simulated run with holds and an eviction, and its totals."""
    lines: list[dict[str, Any]] = []
    jobs = [
        JobSpec(
            "wide",
            0,
            (StageSpec([2_000, 7_000]), StageSpec([1_000] * 2, parents=(0,))),
            priority=2,
            name="wide",
        ),
        JobSpec("thin", 500, (StageSpec([3_000] * 6),), name="thin"),
    ]
    rule = ReservationRule(1.0, None, None, 0.5, (), copies=False)

    def say(job: JobView, now_ms: int) -> dict[str, Any]:
        if job.job == "wide":
            return {"reservation": rule, "priority": 2}
        return {"evict": True, "deferred": True} if 4_000 <= now_ms < 6_000 else {}

    policy = Scripted(say, again_ms=lambda now: 4_000 if now < 4_000 else 6_000 if now < 6_000 else None)
    result = simulate(
        ClusterSpec(uniform_nodes(2, 2)),
        jobs,
        policy,
        observer=lambda event: lines.append(encode_event(event)),
    )
    assert not result.unfinished
    return recorded(tmp_path, *lines), result.totals


def test_a_recorded_run_is_charged_as_its_ledger_counted(simulated):
    path, totals = simulated
    found = account([usage_of_recorded(path)])
    assert found.excess_ms == 0
    assert found.has_holds
    assert found.total_ms("held") == totals["held_idle_slot_ms"] > 0
    assert found.total_ms("run") == 2_000 + 7_000 + 2 * 1_000 + 6 * 3_000
    assert found.total_ms("evicted") > 0
    assert sum(row.total_ms for row in found.rows) + found.idle_ms == found.capacity_ms


def test_a_reset_neither_loses_nor_doubles_what_runs_and_is_held(simulated, tmp_path):
    path, _ = simulated
    before = account([usage_of_recorded(path)])
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    middle = next(n for n, line in enumerate(lines) if line["time_ms"] >= 2_500)
    at_ms = lines[middle]["time_ms"]
    past = lines[:middle]
    ended = {line["task"] for line in past if line["type"] == "task_ended"}
    running = [x for x in past if x["type"] == "task_launched" and x["task"] not in ended]
    held: list[dict[str, Any]] = []
    for line in past:
        if line["type"] == "slot_held":
            held.append(line)
        elif line["type"] == "slot_freed":
            held.remove(next(h for h in held if (h["job"], h["executor"]) == (line["job"], line["executor"])))
    assert running
    assert held
    again = [{"type": "reset", "time_ms": at_ms, "version": 1, "dropped": 0}]
    again += [{**line, "time_ms": at_ms} for line in past if line["type"] == "executor_added"]
    again += [{**line, "time_ms": at_ms} for line in (*running, *held)]
    after = account([usage_of_recorded(recorded(tmp_path, *past, *again, *lines[middle:]))])
    assert after == before


def test_a_line_cut_off_by_a_kill_is_left_out_and_a_wrong_one_is_named(simulated):
    path, _ = simulated
    whole = account([usage_of_recorded(path)])
    with path.open("a") as file:
        file.write('{"type": "task_en')
    assert account([usage_of_recorded(path)]) == whole
    with path.open("a") as file:
        file.write("\n")
    lines = len(path.read_text().splitlines())
    with pytest.raises(BadInputError, match=f"line {lines} is not a recorded event"):
        usage_of_recorded(path)


RECORDED = sorted((Path(__file__).parents[3] / "replay" / "logs").glob("*.zstd"))


def of_tasks_ms(log: Path) -> int:
    """The time of all attempts, straight from the log's events."""
    infos = [
        event["Task Info"]
        for _, line in lines(log, ReadReport())
        if (event := json.loads(line))["Event"] == "SparkListenerTaskEnd"
    ]
    return sum(info["Finish Time"] - info["Launch Time"] for info in infos)


@pytest.mark.parametrize("log", RECORDED, ids=lambda log: log.stem)
def test_a_recorded_run_is_charged_what_its_attempts_took(log: Path):
    found = account([usage_of_event_log(read_trace(log, "spark_eventlog"))])
    charged_ms = sum(row.total_ms for row in found.rows)
    assert charged_ms - found.total_ms("held") == pytest.approx(of_tasks_ms(log), rel=0.001)
    assert charged_ms + found.idle_ms - found.excess_ms == found.capacity_ms
    assert found.excess_ms <= 0.001 * found.capacity_ms


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared event logs are absent")
def test_recorded_applications_conserve_slot_time():
    logs = sorted(path for path in SHARED.rglob("*") if path.is_file() and path.name != "SOURCE.txt")
    checked = 0
    for log in logs:
        if checked == 10:
            break
        try:
            usage = usage_of_event_log(read_trace(log, "spark_eventlog"))
        except BadInputError:
            continue
        found = account([usage])
        total_ms = sum(row.total_ms for row in found.rows)
        assert total_ms + found.idle_ms - found.excess_ms == found.capacity_ms
        assert found.excess_ms <= 0.001 * found.capacity_ms
        checked += bool(found.capacity_ms)
    assert checked == 10


def test_an_event_log_has_the_queues_of_jobs(tmp_path: Path) -> None:
    log = WhatifLog(**{"spark.sched.planner.python": "python3"}).executor(0, "1", 2)
    for number in range(3):
        log.job(number, 100, 1_100, [(100, 1_100)])
    for key, body in {
        "spark-0": {"queue_name": "etl.nightly"},
        "spark-1": {},
        "spark-9": {"queue_name": "bi", "user": "ann", "name": "held"},
    }.items():
        slot_ms = {"run": 1_000, "held_idle": 500 if key == "spark-9" else 0, "evicted": 0, "copied": 0}
        whole = {"job": key, "slot_ms": slot_ms, **body}
        log.events.append({"Event": EVENT, "schema": 1, "kind": "job", "timeMs": T0, "body": whole})
    path = log.write(tmp_path / "log")
    found = json.loads(call(path, "--by", "queue", "--json").stdout)
    rows = {row["queue"]: (row["run_slot_s"], row["held_slot_s"]) for row in found["rows"]}
    assert rows == {"etl.nightly": (1.0, 0.0), "": (2.0, 0.0), "bi": (0.0, 0.5)}
    both = json.loads(call(path, "--by", "user,queue", "--json").stdout)
    assert both["by"] == ["user", "queue"]
    del log.events[-3:]
    refused = call(log.write(tmp_path / "stock"), "--by", "queue")
    assert refused.exit_code == 2
    assert "no job of" in refused.stderr


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["usage", *map(str, arguments)])


def test_the_document_has_costs_and_the_files_have_its_rows(simulated, tmp_path):
    path, _ = simulated
    for name in ("usage.csv", "usage.parquet"):
        result = call(path, "--by", "name,user", "--rate", "3.6 EUR", "--out", tmp_path / name, "--json")
        assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    total = document["total"]
    assert total["cost"] == pytest.approx(total["total_slot_s"] / 1_000)
    assert document["currency"] == "EUR"
    read = pyarrow.parquet.read_table(tmp_path / "usage.parquet").to_pylist()
    assert read == document["rows"]
    assert pyarrow.csv.read_csv(tmp_path / "usage.csv").num_rows == len(document["rows"]) == 2


def test_a_csv_file_has_no_formula_and_the_others_have_the_names_as_they_are(simulated, tmp_path):
    path, _ = simulated
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    formula = '=HYPERLINK("http://evil.example")'
    for line in lines:
        if line.get("name") == "wide":
            line["name"] = formula
    recorded(path.parent, *lines)
    for name in ("usage.csv", "usage.parquet"):
        result = call(path, "--out", tmp_path / name)
        assert result.exit_code == 0, result.output
    assert f"'{formula}" in pyarrow.csv.read_csv(tmp_path / "usage.csv")["name"].to_pylist()
    assert formula in pyarrow.parquet.read_table(tmp_path / "usage.parquet")["name"].to_pylist()


def test_evictions_have_a_table_and_rows_of_their_own(simulated):
    path, _ = simulated
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        if line["type"] == "task_ended" and line["outcome"] == "killed":
            line["evicted_for"] = "wide"
    recorded(path.parent, *lines)
    document = json.loads(call(path, "--json").stdout)
    (eviction,) = document["evictions"]
    assert (eviction["name"], eviction["caused_by_name"]) == ("thin", "wide")
    caused = {row["name"]: row["caused_evicted_slot_s"] for row in document["rows"]}
    assert caused == {"wide": eviction["evicted_slot_s"], "thin": 0.0}
    assert "name  evicted for name" in call(path).stdout


def test_the_table_begins_with_the_answer_in_a_sentence(simulated):
    first = call(simulated[0]).stdout.splitlines()[0]
    assert "slot-seconds ran tasks to their end" in first


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--by", "usr"), "did you mean 'user'"),
        (("--by", "user,user"), "each group once"),
        (("--rate", "cheap"), "--rate is 'cheap' but must be a number and a currency"),
        (("--out", "rows.txt"), "must end with .csv or .parquet"),
    ],
)
def test_bad_options_are_refused_in_one_sentence(simulated, arguments, says):
    result = call(simulated[0], *arguments)
    assert result.exit_code == 2
    assert says in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_lines_that_cannot_be_read_and_files_that_stop_are_named(simulated, tmp_path):
    path, _ = simulated
    with path.open("a") as file:
        file.write('{"type": "task_en')
    result = call(path, "--json")
    document = json.loads(result.stdout)
    assert (document["unread_lines"], document["truncated"]) == (1, [str(path)])
    assert "the last line is cut off" in result.stderr
    start = {"Event": "SparkListenerApplicationStart", "App ID": "a", "Timestamp": 1_000}
    log = tmp_path / "log.gz"
    text = "".join(f"{line}\n" for line in (json.dumps(start), "garbage", json.dumps(start)))
    log.write_bytes(gzip.compress(text.encode())[:-9])
    result = call(log, "--json")
    document = json.loads(result.stdout)
    assert (document["unread_lines"], document["truncated"]) == (2, [str(log)])
    assert f"{log}:2: no Spark event: 'garbage'" in result.stderr
    assert "stops in the middle" in result.stderr


def test_attempts_without_an_end_are_told(simulated):
    path, _ = simulated
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if '"task_ended"' not in line))
    result = call(path)
    assert "attempts have no end in the log: they count as run" in " ".join(result.stdout.split())


def test_a_missing_log_and_a_file_that_is_none_are_refused(tmp_path):
    assert "does not exist" in call(tmp_path / "none").stderr
    (tmp_path / "text").write_text("hello\n")
    result = call(tmp_path / "text")
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1


def test_sums_of_held_slot_time_are_taken_from_the_time_that_slots_were_free():
    usage = Usage([Presence("1", 2, 0, 5_000)], {"a": Owner("a", "u", "c")}, [attempt(0, 4_000)])
    usage.held_ms = {"a": 1_500, "": 500, "b": 0}
    found = account([usage])
    assert {row.group: row.slot_ms["held"] for row in found.rows} == {("a",): 1_500, ("",): 500}
    assert (found.idle_ms, found.excess_ms, found.has_holds) == (4_000, 0, True)
    usage.held_ms["a"] = 6_500
    found = account([usage])
    assert (found.idle_ms, found.excess_ms) == (0, 1_000)
    assert sum(row.total_ms for row in found.rows) + found.idle_ms - found.excess_ms == found.capacity_ms


def pareto(seed: int, isolation: float, tmp_path: Path) -> Path:
    """What the planner would have recorded of thirty jobs one after the other, each held over one barrier."""
    rng, lines = np.random.default_rng(seed), []
    times_ms = (1_000 * (1 + rng.pareto(2.0, (30, 20)))).astype(int).tolist()
    jobs = [
        JobSpec(
            f"j{number}",
            100_000 * number,
            (StageSpec(of_tasks), StageSpec([10] * 20, parents=(0,))),
            name="wide",
            isolation=isolation,
            priority=2,
        )
        for number, of_tasks in enumerate(times_ms)
    ]
    rule = ReservationRule(isolation, 2.0, 1_000.0, 0.5, (), copies=False)
    result = simulate(
        ClusterSpec(uniform_nodes(1, 20)),
        jobs,
        Scripted(lambda job, now_ms: {"reservation": rule, "priority": 2}),
        settings={"spark.sched.reservation.deadline": "pareto"},
        observer=lambda event: lines.append(encode_event(event)),
    )
    assert not result.unfinished
    return recorded(tmp_path, *lines)


def test_held_slots_stay_below_what_equation_4_expects(tmp_path):
    (row,) = account([usage_of_recorded(pareto(3, 0.5, tmp_path))]).rows
    assert row.held_at_most_ms is not None
    assert 0.1 * row.held_at_most_ms < row.slot_ms["held"] < row.held_at_most_ms


def test_the_bound_of_a_stage_is_the_papers_and_infinite_at_isolation_1():
    times = [attempt(0, ms, index=n) for n, ms in enumerate((1_000, 1_500, 2_000))]
    usage = Usage([Presence("1", 3, 0, 5_000)], {"a": Owner("a", "u", "c")}, times)
    assert account([usage]).rows[0].held_at_most_ms is None
    usage.isolation, usage.barriers = {"a": 0.4}, {"a.0": "a"}
    alpha = 3 / float(np.log([1.5, 2.0]).sum())
    loss = 1.0 - utilization_lower_bound(0.4, alpha, 3)
    expected_ms = 3_000 * reservation_deadline_s(0.4, 1.0, alpha, 3) * loss
    assert account([usage]).rows[0].held_at_most_ms == pytest.approx(expected_ms)
    usage.isolation["a"] = 1.0
    assert account([usage]).rows[0].held_at_most_ms == float("inf")
    usage.isolation["a"] = 0.0
    assert account([usage]).rows[0].held_at_most_ms == 0.0
