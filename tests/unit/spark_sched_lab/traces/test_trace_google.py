"""Google's event tables of 2011 and 2019."""

from __future__ import annotations

import json

import pytest

from spark_sched.errors import BadInputError
from spark_sched_lab.traces import open_trace

S = 1_000_000


def job_row(at_s, job, kind, name="n"):
    return f"{int(at_s * S)},,{job},{kind},user,2,jobname,{name}\n"


def task_row(at_s, job, index, kind, machine="", missing=""):
    return f"{int(at_s * S)},{missing},{job},{index},{machine},{kind},user,2,4,0.5,0.25,0.0,0\n"


@pytest.fixture
def tables(tmp_path):
    def make(jobs="", tasks="", machines=""):
        for name, text in (("job_events", jobs), ("task_events", tasks), ("machine_events", machines)):
            if text:
                (tmp_path / name).mkdir()
                (tmp_path / name / "part-00000-of-00500.csv").write_text(text)
        reader = open_trace(tmp_path)
        return reader.read(), reader

    return make


EVICTED = (
    task_row(601, 1, 0, 0)
    + task_row(602, 1, 0, 1, 77)
    + task_row(610, 1, 0, 2, 77)
    + task_row(610, 1, 0, 0)
    + task_row(620, 1, 0, 1, 78)
    + task_row(650, 1, 0, 4, 78)
)


def test_every_attempt_of_a_task_is_a_row_with_how_it_ended(tables):
    trace, _ = tables(job_row(601, 1, 0) + job_row(602, 1, 1) + job_row(650, 1, 4), EVICTED)
    rows = trace.tasks.to_pylist()
    assert [(r["attempt"], r["start_s"], r["duration_s"], r["outcome"], r["host"]) for r in rows] == [
        (0, 602, 8, "evicted", "77"),
        (1, 620, 30, "finished", "78"),
    ]
    job = trace.jobs.to_pylist()[0]
    assert (job["submit_s"], job["start_s"], job["end_s"], job["runtime_s"]) == (601, 602, 650, 48)
    assert (job["user"], job["name"], job["priority"], job["class"], job["slots"]) == ("user", "n", 4, "2", 1)
    stage = trace.stages.to_pylist()[0]
    assert (stage["tasks"], stage["cpus"], stage["memory"]) == (1, 0.5, 0.25)


def test_without_the_job_table_a_job_ends_with_its_last_task(tables):
    trace, _ = tables(tasks=EVICTED)
    job = trace.jobs.to_pylist()[0]
    assert (job["submit_s"], job["start_s"], job["end_s"], job["outcome"], job["name"]) == (
        601,
        602,
        650,
        "finished",
        None,
    )


def test_what_existed_before_the_trace_has_no_start_and_no_duration(tables):
    trace, _ = tables(
        job_row(0, 1, 0) + job_row(0, 1, 1) + job_row(700, 1, 4),
        task_row(0, 1, 0, 0, missing="2") + task_row(0, 1, 0, 1, 5, missing="2") + task_row(700, 1, 0, 4, 5),
    )
    job, row = trace.jobs.to_pylist()[0], trace.tasks.to_pylist()[0]
    assert (job["submit_s"], job["start_s"], job["runtime_s"], job["end_s"]) == (None, None, None, 700)
    assert (row["start_s"], row["duration_s"], row["outcome"]) == (None, None, "finished")


def test_what_the_end_of_the_files_cuts_off_is_unknown(tables):
    trace, _ = tables(job_row(601, 1, 0), task_row(601, 1, 0, 0) + task_row(602, 1, 0, 1, 5))
    assert trace.jobs.column("outcome").to_pylist() == ["unknown"]
    row = trace.tasks.to_pylist()[0]
    assert (row["start_s"], row["duration_s"], row["outcome"]) == (602, None, "unknown")


def test_a_task_of_a_job_that_the_job_table_does_not_know_makes_no_job(tables):
    trace, reader = tables(job_row(601, 1, 0), EVICTED + task_row(700, 999, 0, 0))
    assert trace.jobs.column("source_id").to_pylist() == ["1"]
    assert reader.report.notes == {"events of jobs whose submission is not in the files": 1}


def test_jobs_are_given_out_when_they_are_over_and_late_events_make_no_second_job(tables):
    tasks = EVICTED + task_row(651 + 4000, 2, 0, 0) + task_row(4700, 1, 0, 0)
    trace, reader = tables(tasks=tasks)
    assert trace.jobs.column("source_id").to_pylist() == ["1", "2"]
    assert reader.report.notes == {"events after the end of their job": 1}


def test_a_job_that_fails_and_is_submitted_again_is_one_job(tables):
    jobs = job_row(601, 1, 0) + job_row(610, 1, 3) + job_row(611, 1, 0) + job_row(650, 1, 4)
    trace, _ = tables(jobs)
    assert [(j["submit_s"], j["end_s"], j["outcome"]) for j in trace.jobs.to_pylist()] == [
        (601, 650, "finished")
    ]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        pytest.param("1,2,3\n", "3 columns instead of 13", id="columns are missing"),
        pytest.param(task_row(603, 1, 0, 9), "event type 9 is unknown", id="an unknown event"),
        pytest.param(task_row(1, 1, 0, 4), "time goes back", id="time goes back"),
        pytest.param(task_row(603, 1, -5, 4), "task index is -5", id="a negative index"),
        pytest.param(task_row(603, "x", 0, 4), "job id is 'x'", id="no job id"),
    ],
)
def test_bad_rows_of_the_tables_are_counted(tables, row, reason):
    _, reader = tables(tasks=task_row(601, 1, 0, 0) + task_row(602, 1, 0, 1) + row)
    assert reader.report.bad_rows == 1
    assert reason in reader.report.examples[0].reason


def test_machines_have_spans_of_time(tables):
    _, reader = tables(
        job_row(601, 1, 0), machines=f"0,5,0,p,0.5,0.25\n{9 * S},5,1,p,,\n{10 * S},6,0,p,1,1\n"
    )
    spans = [(m.machine, m.cpus, m.added_s, m.removed_s) for m in reader.meta.machines]
    assert spans == [("5", 0.5, None, 9.0), ("6", 1.0, 10.0, None)]


def test_machine_events_alone_are_no_workload(tmp_path):
    path = tmp_path / "part"
    path.write_text("0,5,0,HofLGzk1Or,0.5,0.2493\n")
    with pytest.raises(BadInputError, match="machine_events table"):
        open_trace(path)


DERIVED = "job_id,user,logical_name,sched_class,submit_us,schedule_us,end_us,end_event,n_schedules\n"


def test_the_derived_table_has_jobs_without_stages(tmp_path):
    path = tmp_path / "jobs.csv"
    path.write_text(
        f"{DERIVED}1,0,0,3,0,0,,,1\n2,4,5,1,{600 * S},{601 * S},{700 * S},4,2\n2,4,5,1,1,1,1,4,2\n"
    )
    reader = open_trace(path)
    trace = reader.read()
    assert trace.jobs.column("runtime_s").to_pylist() == [None, 99]
    assert trace.jobs.column("outcome").to_pylist() == ["unknown", "finished"]
    assert trace.stages.num_rows == 0
    assert reader.report.bad_rows == 1


def collection(at_s, job, kind, **more):
    row = {"time": str(int(at_s * S)), "type": kind, "collection_id": str(job), "collection_type": 0}
    return {
        **row,
        "priority": 200,
        "user": "u",
        "collection_logical_name": "n",
        "scheduling_class": 1,
        **more,
    }


def instance(at_s, job, index, kind, **more):
    row = {
        "time": int(at_s * S),
        "type": kind,
        "collection_id": job,
        "instance_index": index,
        "priority": 200,
    }
    return {**row, "machine_id": 9, "resource_request": {"cpus": 0.1, "memory": 0.2}, **more}


def jsonl(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_the_2019_tables_are_read_from_json_lines(tmp_path):
    (tmp_path / "collection_events-000000000000.json").write_text(
        jsonl(
            collection(600, 1, "SUBMIT", start_after_collection_ids=["77"]),
            collection(600, 5, 0, collection_type=1),
            collection(601, 1, 3),
            collection(620, 1, "FINISH"),
        )
    )
    (tmp_path / "instance_events-000000000000.json").write_text(
        jsonl(
            instance(600, 1, 0, 0),
            instance(600, 5, 0, 0),
            instance(601, 1, 0, 3),
            instance(610, 1, 0, 4),
            instance(611, 1, 0, 0),
            instance(612, 1, 0, 3),
            instance(620, 1, 0, 6),
        )
    )
    reader = open_trace(tmp_path)
    trace = reader.read()
    job = trace.jobs.to_pylist()[0]
    assert (job["source_id"], job["user"], job["name"], job["priority"], job["runtime_s"]) == (
        "1",
        "u",
        "n",
        200,
        19,
    )
    assert dict(job["features"])["start_after"] == "77"
    assert trace.tasks.column("outcome").to_pylist() == ["evicted", "finished"]
    assert trace.tasks.column("duration_s").to_pylist() == [9, 8]
    assert trace.jobs.num_rows == 1
    assert reader.report.notes["alloc sets (reservations, no jobs)"] == 1


def test_the_2019_tables_are_read_from_csv_with_a_header(tmp_path):
    path = tmp_path / "instance_events.csv"
    header = (
        "time,type,collection_id,instance_index,machine_id,resource_request.cpus,resource_request.memory\n"
    )
    path.write_text(
        f"{header}{600 * S},0,1,0,,0.5,\n{601 * S},3,1,0,4,0.5,\n{605 * S},FINISH,1,0,4,0.5,\nx,0,1,0,,,\n"
    )
    reader = open_trace(path)
    trace = reader.read()
    assert trace.tasks.column("duration_s").to_pylist() == [4]
    assert trace.stages.column("cpus").to_pylist() == [0.5]
    assert [row.line for row in reader.report.examples] == [5]
