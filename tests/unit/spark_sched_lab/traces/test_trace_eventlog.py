"""Spark event logs: jobs by mark, DAGs of stages, retries, logs that stop early, what was measured live."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from spark_sched.cli.app import app
from spark_sched_lab.traces import open_trace
from spark_sched_lab.traces.read_report import ReadReport
from spark_sched_lab.traces.readers.spark_app import SparkApplication
from spark_sched_lab.usage import account, usage_of_event_log
from tests.unit.spark_sched_lab.traces.event_log import T0, Log, read, two_jobs


def stages(trace, job=0):
    return [row for row in trace.stages.to_pylist() if row["job"] == job]


def test_stages_become_stages_with_their_dag_and_the_drivers_delays(tmp_path):
    log = Log().executor(5, "1", 4).job(0, 100, {0: [], 1: [], 2: [0, 1]})
    log.stage(0, 120, 500, tasks=2).stage(1, 130, 700).stage(2, 740, 900).job_end(0, 910)
    trace, reader = read(log.write(tmp_path / "log"))
    job = trace.jobs.to_pylist()[0]
    assert (job["source_id"], job["submit_s"], job["start_s"], job["end_s"], job["runtime_s"]) == (
        "spark-0", 0.1, 0.13, 0.91, 0.81,
    )  # fmt: skip
    assert (job["user"], job["name"], job["slots"], job["outcome"]) == ("anna", "stage 2", 2, "finished")
    assert [p["parents"] for p in stages(trace)] == [[], [], [0, 1]]
    assert [p["delay_s"] for p in stages(trace)] == [0.02, 0.03, 0.04]
    assert [p["cpus"] for p in stages(trace)] == [2, 2, 2]
    assert trace.tasks.column("duration_s").to_pylist() == [0.37, 0.37, 0.56, 0.15]
    machine = reader.meta.machines[0]
    assert (machine.machine, machine.slots, machine.added_s) == ("1", 2, 0.005)
    assert trace.meta.origin_epoch_ms == T0


def test_a_skipped_stage_is_no_stage_and_hands_on_its_own_parents(tmp_path):
    log = Log().job(0, 0, {0: [], 1: [0], 2: [1]}).stage(0, 1, 10).stage(2, 20, 30).job_end(0, 31)
    trace, _ = read(log.write(tmp_path / "log"))
    assert [(p["source_id"], p["parents"]) for p in stages(trace)] == [("0.0", []), ("2.0", [0])]


def test_spark_jobs_of_one_job_follow_each_other_as_the_driver_ran_them(tmp_path):
    mark = {"spark.sched.job.id": "m1", "spark.sched.job.name": "fit", "spark.sched.job.priority": "10",
            "spark.sched.job.deadline": str(T0 + 60_000), "spark.sched.job.isolation": "0.9"}  # fmt: skip
    log = Log().job(0, 0, {0: []}, **mark).stage(0, 1, 100).job_end(0, 101)
    log.job(1, 150, {1: []}, **mark).job(2, 160, {2: []}, **mark).stage(1, 151, 200).stage(2, 161, 300)
    log.job_end(1, 201).job_end(2, 301).job(3, 400, {3: []}, **mark).stage(3, 410, 500).job_end(3, 501)
    trace, _ = read(log.write(tmp_path / "log"))
    job = trace.jobs.to_pylist()[0]
    assert (job["source_id"], job["name"], job["priority"], job["isolation"]) == ("mark-m1", "fit", 10, 0.9)
    assert (job["deadline_s"], job["submit_s"], job["end_s"]) == (60, 0, 0.501)
    assert [p["parents"] for p in stages(trace)] == [[], [0], [0], [1, 2]]
    assert stages(trace)[3]["delay_s"] == 0.11


@pytest.mark.parametrize(
    ("text", "deadline_s"), [("15 min", 900.1), ("1h30m", 5400.1), ("soon", None), ("", None)]
)
def test_a_deadline_in_words_counts_from_the_jobs_beginning(tmp_path, text, deadline_s):
    mark = {"spark.sched.job.name": "fit", "spark.sched.job.deadline": text}
    log = Log().job(0, 0, {0: []}).stage(0, 1, 2).job_end(0, 3)
    log.job(1, 100, {1: []}, **mark).stage(1, 110, 200).job_end(1, 201)
    trace, _ = read(log.write(tmp_path / "log"))
    assert [job["deadline_s"] for job in trace.jobs.to_pylist()] == [None, deadline_s]


def test_a_retried_stage_is_a_stage_of_its_own_that_waits_for_the_first(tmp_path):
    log = (
        Log()
        .job(0, 0, {0: [], 1: [0]})
        .stage(0, 1, 10)
        .stage(1, 11, 20, failure="FetchFailed", reason="FetchFailed")
    )
    log.stage(0, 21, 30, attempt=1).stage(1, 31, 40, attempt=1).job_end(0, 41)
    trace, _ = read(log.write(tmp_path / "log"))
    found = {p["source_id"]: p for p in stages(trace)}
    assert set(found) == {"0.0", "1.0", "0.1", "1.1"}
    assert found["1.0"]["outcome"] == "failed"
    index = {p["source_id"]: p["stage"] for p in stages(trace)}
    assert index["0.0"] in found["0.1"]["parents"]
    assert index["1.0"] in found["1.1"]["parents"]


def test_task_attempts_keep_how_they_ended_and_whether_they_were_copies(tmp_path):
    log = (
        Log()
        .job(0, 0, {0: []})
        .add(
            "SparkListenerStageSubmitted",
            **{"Stage Info": {"Stage ID": 0, "Stage Attempt ID": 0, "Stage Name": "s", "Number of Tasks": 2}},
        )
    )
    log.task(0, 0, 0, 50, reason="ExecutorLostFailure").task(0, 0, 60, 90, number=1)
    log.task(0, 1, 60, 95, number=1, copy=True).task(0, 1, 0, 95, reason="TaskKilled")
    trace, _ = read(log.write(tmp_path / "log"))
    rows = trace.tasks.to_pylist()
    assert [(r["task"], r["attempt"], r["outcome"], r["copy"]) for r in rows] == [
        (0, 0, "lost", False), (0, 1, "finished", False), (1, 1, "finished", True), (1, 0, "killed", False),
    ]  # fmt: skip
    assert trace.jobs.column("outcome").to_pylist() == ["unknown"]


def test_an_attempt_whose_output_is_lost_has_one_row(tmp_path):
    log = Log().executor(0, "1", 4).job(0, 0, {0: []}).stage(0, 0, 90, tasks=2, task_ends=False)
    log.task(0, 0, 10, 50).task(0, 1, 10, 60)
    # Spark ends an attempt a second time when its executor is lost while the stage runs.
    log.task(0, 1, 10, 60, reason="Resubmitted").task(0, 1, 70, 90, number=1).job_end(0, 91)
    trace, _ = read(log.write(tmp_path / "log"))
    assert [(r["task"], r["attempt"], r["outcome"]) for r in trace.tasks.to_pylist()] == [
        (0, 0, "finished"), (1, 0, "lost"), (1, 1, "finished"),
    ]  # fmt: skip
    used = account([usage_of_event_log(trace)])
    assert (used.total_ms("run"), used.total_ms("failed"), used.total_ms("copies")) == (60, 50, 0)


def test_a_lost_output_whose_first_end_is_not_in_the_log_is_lost(tmp_path):
    log = Log().job(0, 0, {0: []}).stage(0, 0, 90, task_ends=False)
    log.task(0, 0, 10, 60, reason="Resubmitted").job_end(0, 91)
    trace, _ = read(log.write(tmp_path / "log"))
    assert [(r["task"], r["outcome"]) for r in trace.tasks.to_pylist()] == [(0, "lost")]


@pytest.mark.parametrize(
    ("properties", "key"),
    [
        pytest.param({}, "spark-0", id="nothing"),
        pytest.param({"spark.sql.execution.id": "7"}, "sql-7", id="a SQL execution"),
        pytest.param(
            {"spark.sql.execution.id": "7", "spark.jobGroup.id": "g"}, "group-g", id="a job group wins"
        ),
        pytest.param(
            {"spark.jobGroup.id": "g", "spark.sched.job.name": "n"}, "mark-name-n", id="a name wins"
        ),
        pytest.param({"spark.job.tags": "x,sched:id=t"}, "mark-t", id="a tag"),
        pytest.param(
            {"spark.job.tags": "a_b_sched:id=t", "spark.sched.job.id": "p"}, "mark-p", id="property over tag"
        ),
    ],
)
def test_a_job_has_the_key_it_has_live(tmp_path, properties, key):
    log = Log().job(0, 0, {0: []}, **properties).stage(0, 1, 10).job_end(0, 11)
    trace, _ = read(log.write(tmp_path / "log"))
    assert trace.jobs.column("source_id").to_pylist() == [key]


def test_a_sql_execution_is_named_by_its_description(tmp_path):
    log = Log().add(
        "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart",
        executionId=7,
        rootExecutionId=7,
        description="nightly report",
        details="x" * 10,
    )
    log.job(0, 0, {0: []}, **{"spark.sql.execution.id": "7"}).stage(0, 1, 10).job_end(0, 11)
    trace, _ = read(log.write(tmp_path / "log"))
    assert trace.jobs.column("name").to_pylist() == ["nightly report"]


def test_a_log_that_stops_early_says_unknown_and_makes_up_no_end(tmp_path):
    log = Log().job(0, 0, {0: [], 1: [0]}).stage(0, 1, 10)
    text = log.job(1, 20, {5: []}).text()
    path = tmp_path / "log.inprogress"
    path.write_text(text[:-40])
    trace, reader = read(path)
    assert trace.jobs.column("source_id").to_pylist() == ["spark-0"]
    assert trace.jobs.column("end_s").to_pylist() == [None]
    assert reader.report.bad_rows == 1


def test_what_still_runs_has_a_row_without_a_duration_and_is_charged_until_the_last_event(tmp_path):
    log = Log().executor(0, "1", 8).job(0, 0, {0: []})  # four slots: a task takes two CPUs
    submitted = {"Stage ID": 0, "Stage Attempt ID": 0, "Stage Name": "s", "Number of Tasks": 4}
    log.add("SparkListenerStageSubmitted", **{"Stage Info": submitted})
    for index in range(4):
        log.begin(index + 1, 0, index, 10 * index)
    log.task(0, 0, 0, 1_000)
    trace, _ = read(log.write(tmp_path / "log"))
    assert [(r["task"], r["start_s"], r["duration_s"], r["outcome"]) for r in trace.tasks.to_pylist()] == [
        (0, 0.0, 1.0, "finished"),
        (1, 0.01, None, "unknown"), (2, 0.02, None, "unknown"), (3, 0.03, None, "unknown"),
    ]  # fmt: skip
    used = account([usage_of_event_log(trace)])
    assert (used.total_ms("run"), used.capacity_ms, used.idle_ms) == (3_940, 4_000, 60)


def test_an_attempt_whose_end_the_log_lost_is_charged_until_its_stage_ends(tmp_path):
    log = Log().executor(0, "1", 2).job(0, 0, {0: [], 1: []})
    log.stage(0, 0, 50, task_ends=False).begin(7, 0, 0, 5)
    log.events.insert(-1, log.events.pop())  # before the end of its stage
    log.stage(1, 50, 80).job_end(0, 80).add("SparkListenerApplicationEnd", Timestamp=T0 + 200)
    usage = usage_of_event_log(read(log.write(tmp_path / "log"))[0])
    assert [(a.start_ms, a.end_ms, a.outcome) for a in usage.attempts] == [
        (5, 50, "unknown"), (60, 80, "success"),
    ]  # fmt: skip
    assert [(e.start_ms, e.end_ms) for e in usage.executors] == [(0, 200)]


def test_a_stage_of_no_known_job_is_a_job_of_which_only_the_attempts_are_known(tmp_path):
    log = Log().stage(3, 1, 10, tasks=2).job_end(9, 11)
    trace, reader = read(log.write(tmp_path / "log"))
    (job,) = trace.jobs.to_pylist()
    known = {name: job[name] for name in ("source_id", "name", "user", "submit_s", "runtime_s", "outcome")}
    assert known == {
        "source_id": "stage-3", "name": "stage 3", "user": None,
        "submit_s": None, "runtime_s": None, "outcome": "unknown",
    }  # fmt: skip
    assert trace.tasks.num_rows == 2
    assert reader.report.missing == {
        "stages of Spark jobs whose start is not in the log": 1,
        "executors whose addition is not in the log": 1,
        "ends of Spark jobs whose start is not in the log": 1,
    }


def test_a_stage_whose_submission_is_missing_belongs_to_its_job(tmp_path):
    log = two_jobs()
    log.events = [e for e in log.events if e["Event"] != "SparkListenerStageSubmitted"]
    trace, reader = read(log.write(tmp_path / "log"))
    assert [(j["source_id"], j["runtime_s"]) for j in trace.jobs.to_pylist()] == [
        ("spark-0", 0.011), ("spark-1", 0.011),
    ]  # fmt: skip
    assert trace.tasks.num_rows == 6
    assert reader.report.missing["stages whose submission is not in the log"] == 2


def test_a_stage_in_a_mark_joins_the_marks_job_without_the_start_of_its_spark_job(tmp_path):
    log = Log().job(1, 0, {1: []}, **{"spark.sched.job.name": "nightly"}).stage(1, 0, 10).job_end(1, 10)
    log.stage(0, 0, 10)
    log.events[-3]["Properties"] = {"spark.sched.job.name": "nightly"}
    trace, _ = read(log.write(tmp_path / "log"))
    assert trace.jobs.column("name").to_pylist() == ["nightly"]
    assert trace.jobs.column("runtime_s").to_pylist() == [None]  # when it began is not known
    assert trace.tasks.num_rows == 2


def test_parts_out_of_order_give_the_jobs_of_the_whole(tmp_path):
    log = two_jobs()
    whole, _ = read(log.write(tmp_path / "whole"))
    log.events = log.events[:3] + log.events[-8:] + log.events[3:-8]
    for cut in range(1, 8):
        log.events = log.events[:3] + log.events[3 + cut :] + log.events[3 : 3 + cut]
        mixed, reader = read(log.write(tmp_path / "mixed"))
        columns = ["source_id", "runtime_s", "outcome"]
        assert sorted(map(str, mixed.jobs.select(columns).to_pylist())) == sorted(
            map(str, whole.jobs.select(columns).to_pylist())
        )
        assert mixed.tasks.num_rows == whole.tasks.num_rows
        assert reader.report.bad_rows == 0


def test_an_attempt_that_the_log_has_twice_counts_once(tmp_path):
    log = two_jobs()
    log.events.append(log.events[6])
    trace, reader = read(log.write(tmp_path / "log"))
    assert trace.tasks.num_rows == 6
    assert reader.report.notes["ends of attempts that the log has twice"] == 1


def test_work_after_the_end_of_its_query_is_a_job_of_its_own(tmp_path):
    log = Log()
    query = {"spark.sql.execution.id": "7"}
    log.job(0, 0, {0: []}, **query).stage(0, 0, 10).job_end(0, 10)
    log.add("org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd", executionId=7, time=T0 + 10)
    for _ in range(2_001):
        log.add("SparkListenerApplicationEnd", Timestamp=T0 + 20)
    log.job(1, 30, {1: []}, **query).stage(1, 30, 40).job_end(1, 40)
    log.task(0, 1, 5, 25)
    trace, _ = read(log.write(tmp_path / "log"))
    assert trace.jobs.column("source_id").to_pylist() == ["sql-7", "sql-7#2"]
    assert trace.tasks.num_rows == 3


def test_jobs_are_given_out_once_they_are_over_not_at_the_end(tmp_path):
    log = Log()
    for number in range(60):
        log.job(number, number * 100, {number: []}).stage(
            number, number * 100 + 1, number * 100 + 50, tasks=60
        )
        log.job_end(number, number * 100 + 60)
    reader = open_trace(log.write(tmp_path / "log"))
    rows_at = [reader.report.rows for _ in reader.records()]
    assert len(rows_at) == 60
    assert rows_at[0] < 2200 < rows_at[-1]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"Job ID": "x"}, id="a job number that is none"),
        pytest.param({"Stage Infos": 5}, id="stages that are no list"),
        pytest.param({"Submission Time": None}, id="no time"),
        pytest.param({"Properties": [1]}, id="properties that are a list"),
    ],
)
def test_a_damaged_event_is_a_bad_row_and_the_rest_is_read(tmp_path, change):
    log = two_jobs()
    start = next(e for e in log.events if e["Event"] == "SparkListenerJobStart")
    start.update(change)
    trace, reader = read(log.write(tmp_path / "log"))
    # Its stage ran, whosoever it was.
    assert sorted(trace.jobs.column("source_id").to_pylist()) == ["spark-1", "stage-0"]
    assert reader.report.bad_rows == 1
    assert "SparkListenerJobStart cannot be read" in reader.report.examples[0].reason


def test_a_job_that_is_over_leaves_nothing_behind(tmp_path):
    log = Log()
    for number in range(60):
        log.add(
            "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart",
            executionId=number,
            description=f"query {number}",
        )
        log.job(number, number * 100, {number: []}, **{"spark.sql.execution.id": str(number)})
        log.stage(number, number * 100 + 1, number * 100 + 50, tasks=60).job_end(number, number * 100 + 60)
        log.add(
            "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd",
            executionId=number,
            time=T0 + number,
        )
    app = SparkApplication(ReadReport(), T0, taken=None)
    for event in log.events:
        kind = event["Event"]
        line = json.dumps(event, separators=(",", ":")).encode()
        list(app.apply(kind, event) if app.reads(kind) else app.other(kind, line))
    kept = {
        name: len(value)
        for part in (app, app._open, app.about.origins)
        for name, value in vars(part).items()
        if isinstance(value, dict) and name not in ("_handlers", "closed", "_closed_stages")
    }
    assert max(kept.values()) <= 33  # jobs of the last 2,000 events
    assert [job.name for job in app.finish()][-1] == "query 59"


def scheduling(kind, schema=1, **body):
    name = "org.apache.spark.scheduler.sparksched.SchedulingEvent"
    return {"Event": name, "schema": schema, "kind": kind, "timeMs": T0, "body": body}


def times(run, held):
    return {"run": run, "held_idle": held, "evicted": 0, "copied": 5}


def test_what_the_scheduler_measured_is_read_with_the_trace(tmp_path):
    log = (
        Log()
        .executor(0, "1", 4)
        .job(0, 0, {0: []}, **{"spark.jobGroup.id": "g"})
        .stage(0, 0, 50)
        .job_end(0, 60)
    )
    log.events.append(scheduling("plan", policy="fair"))
    log.events.append(scheduling("job", job="group-g", slot_ms=times(40, 30)))
    log.events.append(scheduling("job", job="group-g", slot_ms=times(1, 2)))
    log.events.append(scheduling("job", schema=2, job="group-g", slot_ms="of a later version"))
    for jobs, held in ((1, 7), (3, 9)):
        log.events.append(scheduling("status", left_out={"jobs": jobs, "slot_ms": times(0, held)}))
    log.events.append(scheduling("job", job="group-g"))
    reader = open_trace(log.write(tmp_path / "log"))
    assert len(list(reader.records())) == 1
    assert reader.report.bad_rows == 1
    assert reader.meta.parameters["measured"] == {
        "jobs": {"group-g": {"run": 41, "held_idle": 32, "evicted": 0, "copied": 10}},
        "owners": {},
        "left_out": times(0, 9),
        "left_out_jobs": 3,
        "complete": False,
        "events": 5,
    }
    assert reader.measured.total_ms("held_idle") == 41


CONNECT = "SparkConnect_OperationTag_User_{0}_Session_01234567-89ab-cdef-0123-456789abcdef"


def test_users_of_connect_and_thrift_servers_have_jobs_of_their_own(tmp_path):
    log = Log().executor(0, "1", 2)
    for number, user in enumerate(("ana", "bob")):
        tags = ",".join(CONNECT.format(user) + end for end in ("_Operation_x", "_Tag_sched:name=report"))
        log.job(number, 100 * number, {number: []}, **{"spark.job.tags": tags})
        log.stage(number, 100 * number, 100 * number + 50).job_end(number, 100 * number + 60)
    thrift = "org.apache.spark.sql.hive.thriftserver.ui.SparkListenerThriftServerOperationStart"
    log.add(thrift, groupId="5d", userName="carol", statement="select 1")
    log.job(2, 200, {2: []}, **{"spark.jobGroup.id": "5d"}).stage(2, 200, 250).job_end(2, 260)
    trace, _ = read(log.write(tmp_path / "log"))
    jobs = {row["source_id"]: (row["name"], row["user"]) for row in trace.jobs.to_pylist()}
    assert jobs == {
        "mark-name-3-ana-report": ("report", "ana"),
        "mark-name-3-bob-report": ("report", "bob"),
        "group-5-carol-5d": ("5d", "carol"),
    }


RUN = "0f0e0d0c-1111-4222-8333-abcdefabcdef"
SESSION = "01234567-89ab-cdef-0123-456789abcdef"
SQL = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecution"


@pytest.mark.parametrize(
    ("of_query", "key", "name"),
    [
        pytest.param({"spark.jobGroup.id": "query"}, "group-query", "query", id="in a job group"),
        pytest.param({"spark.sched.job.name": "etl"}, "mark-name-etl", "etl", id="marked"),
        pytest.param({}, "sql-7", "select 1", id="unmarked"),
    ],
)
@pytest.mark.parametrize("first", [True, False], ids=["before", "after"])
def test_a_broadcast_in_a_group_of_its_own_is_part_of_its_query(tmp_path, of_query, key, name, first):
    execution = {"spark.sql.execution.id": "7"}
    broadcast = {"spark.jobGroup.id": RUN, "spark.job.description": f"broadcast exchange (runId {RUN})"}
    log = Log().executor(0, "1", 2).add(f"{SQL}Start", executionId=7, description="select 1")
    for number in range(2):
        own = broadcast if (number == 0) == first else of_query
        at = 100 * number
        log.job(number, at, {number: []}, **execution, **own).stage(number, at, at + 50)
        log.job_end(number, at + 60)
    log.add(f"{SQL}End", executionId=7, time=T0 + 200)
    log.job(2, 300, {2: []}, **of_query).stage(2, 300, 350).job_end(2, 360)
    trace, reader = read(log.write(tmp_path / "log"))
    jobs = {row["source_id"]: row for row in trace.jobs.to_pylist()}
    assert (jobs[key]["name"], jobs[key]["submit_s"]) == (name, 0.0)
    assert len(stages(trace, list(jobs).index(key))) == (3 if of_query else 2)
    assert reader.report.bad_rows == 0
    assert not reader.report.notes


def _started(log, execution, configs, tags=(), group=None):
    log.add(
        f"{SQL}Start",
        executionId=execution,
        description='select "modifiedConfigs":{}',
        time=T0,
        modifiedConfigs=configs,
        jobTags=list(tags),
        **({} if group is None else {"jobGroupId": group}),
    )
    return {"spark.sql.execution.id": str(execution), "spark.sql.execution.root.id": str(execution)}


def test_what_a_session_set_gives_no_identity_in_a_log_either(tmp_path):
    log = Log().executor(0, "1", 2)
    eves, alices = (CONNECT.format(user) + f"_Operation_{SESSION}" for user in ("eve", "alice"))
    own = f"spark-session-{SESSION}"
    _started(log, 0, {}, (eves, own))
    forged = {"spark.job.tags": alices, "spark.sched.job.id": "stolen", "spark.jobGroup.id": "victims"}
    run = _started(log, 1, forged, (alices, own), "victims")
    log.job(0, 0, {0: []}, **run, **forged | {"spark.job.tags": f"{alices},{own}"})
    log.stage(0, 1, 50).job_end(0, 51)
    # In no execution, and with the settings all the same: the source of a table is looked into.
    log.job(1, 60, {1: []}, **{"spark.job.tags": alices, "spark.jobGroup.id": "victims"})
    log.stage(1, 61, 70).job_end(1, 71)
    # Another's execution.
    run = _started(log, 2, {"spark.sql.execution.id": "1"}, (alices, own))
    log.job(2, 80, {2: []}, **{"spark.sql.execution.id": "1", "spark.job.tags": own})
    log.stage(2, 81, 90).job_end(2, 91)
    trace, reader = read(log.write(tmp_path / "log"))
    jobs = {row["source_id"]: row["user"] for row in trace.jobs.to_pylist()}
    assert jobs == {"mark-3-eve-stolen": "eve", "spark-1": "anna", "spark-2": "eve"}
    assert reader.report.bad_rows == 0


def test_a_thrift_session_is_its_users_in_a_log_also_where_a_statement_hides_its_group(tmp_path):
    log = Log().executor(0, "1", 2)
    thrift = "org.apache.spark.sql.hive.thriftserver.ui.SparkListenerThriftServerOperationStart"
    log.add(thrift, groupId=RUN, userName="carol", statement="set")
    own = f"spark-session-{SESSION}"
    _started(log, 0, {}, (own,), RUN)
    settings = {"spark.jobGroup.id": "etl", "spark.sched.job.name": "report", "spark.sched.job.user": "ana"}
    run = _started(log, 1, settings, (own,), "etl")
    log.job(0, 0, {0: []}, **run, **settings, **{"spark.job.tags": own}).stage(0, 1, 50).job_end(0, 51)
    trace, _ = read(log.write(tmp_path / "log"))
    assert [(row["source_id"], row["user"]) for row in trace.jobs.to_pylist()] == [
        ("mark-name-5-carol-report", "carol")
    ]


def test_whose_a_job_is_and_whose_marks_count_is_as_the_driver_knew_it(tmp_path):
    marks = {"spark.sched.job.user": "eve", "spark.sched.job.class": "slo", "spark.sched.job.name": "etl"}
    log = Log().executor(0, "1", 2).job(0, 0, {0: []}, **marks).stage(0, 0, 40).job_end(0, 50)
    for key, user in (("mark-name-etl", None), ("mark-7f", "bob")):
        body = {"job": key, "name": "known live", "user": user, "class": None, "slot_ms": times(0, 5)}
        log.events.append(scheduling("job", **body))
    log.add("SparkListenerApplicationEnd", Timestamp=T0 + 100)
    used = account([usage_of_event_log(read(log.write(tmp_path / "log"))[0])], ("user", "class", "name"))
    # No attempt of bob's is in the log, but slots were held for him.
    assert {row.group: row.slot_ms["held"] for row in used.rows if row.slot_ms["held"]} == {
        ("anna", "", "etl"): 5, ("bob", "", "known live"): 5,
    }  # fmt: skip


def test_usage_has_the_bound_of_equation_4_where_all_jobs_of_a_row_have_one(tmp_path):
    log = Log().executor(0, "1", 2).job(0, 0, {0: []}).stage(0, 0, 40).job_end(0, 50)

    def job(key, user, **slot_ms):
        body = {"job": key, "name": key, "user": user, "class": None, "slot_ms": times(0, 5) | slot_ms}
        log.events.append(scheduling("job", **body))

    job("a", "ada", held_idle_at_most=8)
    job("a", "ada", held_idle_at_most=9)  # it came again
    job("b", "bob", held_idle_at_most=7)
    job("c", "bob")  # at isolation level 1 nothing bounds it
    job("d", "dan", held_idle_at_most=4)
    job("e", "dan", held_idle=0)
    job("f", "eve")
    job("f", "eve", held_idle_at_most=6)
    log.add("SparkListenerApplicationEnd", Timestamp=T0 + 100)
    path = log.write(tmp_path / "log")
    done = CliRunner().invoke(app, ["usage", str(path), "--by", "user", "--json"])
    bounds = {row["user"]: row["held_at_most_slot_s"] for row in json.loads(done.stdout)["rows"]}
    assert bounds == {"ada": 0.017, "bob": None, "dan": 0.004, "eve": None, "anna": None}
    assert "held by eq. 4" in " ".join(CliRunner().invoke(app, ["usage", str(path)]).stdout.split())


def test_marks_beyond_the_applications_limits_do_not_count(tmp_path):
    log = Log()
    log.events[2]["Spark Properties"]["spark.sched.limits.marks"] = "name, priority"
    log.job(0, 0, {0: []}, **{"spark.sched.job.user": "eve", "spark.sched.job.name": "etl"})
    trace, _ = read(log.stage(0, 0, 40).job_end(0, 50).write(tmp_path / "log"))
    assert trace.jobs.to_pylist()[0]["user"] == "anna"


def test_a_log_of_stock_spark_measured_nothing(tmp_path):
    reader = open_trace(Log().job(0, 0, {0: []}).stage(0, 0, 50).job_end(0, 60).write(tmp_path / "log"))
    list(reader.records())
    assert "measured" not in reader.meta.parameters
