"""Formats with a job per line, Alibaba's DAGs and the stage profiles, on small made-up inputs."""

from __future__ import annotations

import json

import pytest

from spark_sched.errors import BadInputError
from spark_sched_lab.traces import open_trace
from spark_sched_lab.traces.grouping import grouped

SWF = """; UnixStartTime: 749458803
1 10 5 100 8 -1 -1 16 300 2048 1 3 1 4 2 -1 -1 -1
2 20 -1 -1 8 -1 -1 8 300 -1 0 3 1 4 2 -1 -1 -1
3 30 0 50 -1 -1 -1 4 -1 -1 5 -1 -1 -1 -1 -1 -1 -1
"""


def read(tmp_path, text, name="file", **options):
    path = tmp_path / name
    path.write_text(text)
    reader = open_trace(path, **options)
    return reader.read(), reader


def test_an_swf_job_is_a_gang_with_its_runtime_and_announced_runtime(tmp_path):
    trace, reader = read(tmp_path, SWF)
    first, second = trace.jobs.to_pylist()
    assert (first["source_id"], first["user"], first["name"], first["demand"]) == ("1", "3", "4", "gang")
    assert (first["submit_s"], first["start_s"], first["end_s"], first["runtime_s"]) == (10, 15, 115, 100)
    assert (first["slots"], first["estimate_s"], first["outcome"]) == (8, 300, "finished")
    assert dict(first["features"])["queue"] == "2"
    assert (second["slots"], second["estimate_s"], second["user"], second["outcome"]) == (
        4,
        None,
        None,
        "killed",
    )
    assert trace.meta.origin_epoch_ms == 749458803000
    assert reader.report.notes == {"jobs without run time or processors": 1}
    assert reader.report.bad_rows == 0


def test_bad_rows_are_shown_with_file_and_line_and_the_rest_is_read(tmp_path):
    trace, reader = read(
        tmp_path,
        SWF + "4 x 0 5 1 -1 -1 1 1 -1 1 1 1 1 1 -1 -1 -1\n5 6\n1 1 0 5 1 1 1 1 1 1 1 1 1 1 1 1 1 1\n",
    )
    assert trace.jobs.column("source_id").to_pylist() == ["1", "3"]
    assert [(row.line, row.reason) for row in reader.report.examples] == [
        (5, "column 2 is 'x', not a number"),
        (6, "2 columns instead of 18"),
        (7, "job 1 is a duplicate"),
    ]
    assert reader.report.examples[0].file.endswith("file")


def test_only_the_first_bad_rows_are_shown_but_all_are_counted(tmp_path):
    _, reader = read(tmp_path, SWF + "bad\n" * 50)
    assert reader.report.bad_rows == 50
    assert len(reader.report.examples) == 5


def test_a_file_without_one_usable_row_is_refused(tmp_path):
    path = tmp_path / "file"
    path.write_text("; Version: 2\n" + "bad\n" * 1000)
    reader = open_trace(path)
    with pytest.raises(BadInputError, match="no usable row of the Standard Workload Format"):
        reader.read()
    assert reader.report.rows < 300  # it gave up early


def test_hawk_rows_keep_every_tasks_duration(tmp_path):
    trace, _ = read(tmp_path, "0.5 2 3.0 2.0 4.0\n7 1 5 5\n")
    assert trace.jobs.column("submit_s").to_pylist() == [0.5, 7]
    assert trace.tasks.column("duration_s").to_pylist() == [2, 4, 5]
    assert trace.jobs.column("slots").to_pylist() == [2, 1]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        pytest.param("1 3 3.0 2.0 4.0", "2 durations for 3 tasks", id="a duration is missing"),
        pytest.param("1 2 9.0 2.0 4.0", "is not the durations' mean", id="the mean is another"),
        pytest.param("1 2 3.0 8.0 -2.0", "below 0", id="a negative duration"),
        pytest.param("1 2 nan nan nan", "not a finite number", id="no number"),
    ],
)
def test_a_hawk_row_that_contradicts_itself_is_left_out(tmp_path, row, reason):
    _, reader = read(tmp_path, f"7 1 5 5\n{row}\n")
    assert reason in reader.report.examples[0].reason


def test_a_number_too_large_for_its_column_is_a_bad_row(tmp_path):
    path = tmp_path / "file"
    good = "job{n}\t{n}\t1\t100\t0\t5\n"
    path.write_text(good.format(n=0) + f"job1\t1\t1\t{'9' * 30}\t0\t5\n" + good.format(n=2))
    reader = open_trace(path, "swim")
    assert reader.read().jobs.column("source_id").to_pylist() == ["job0", "job2"]
    assert reader.report.bad_rows == 1
    assert "input_bytes of stage 0 is too large" in reader.report.examples[0].reason


def test_swim_says_bytes_and_arrivals_and_makes_up_nothing_else(tmp_path):
    trace, _ = read(
        tmp_path, "job0\t49\t49\t740773\t2339561\t627471\njob1\t101\t52\t7\t0\t43\tinputPath1\t\t\n"
    )
    assert trace.jobs.column("submit_s").to_pylist() == [49, 101]
    assert trace.stages.column("parents").to_pylist() == [[], [0], []]
    assert trace.stages.column("output_bytes").to_pylist() == [None, 627471, 43]
    assert trace.stages.column("tasks").null_count == 3
    assert trace.jobs.column("slots").null_count == trace.jobs.column("runtime_s").null_count == 2
    assert dict(trace.jobs.column("features").to_pylist()[1]) == {"input_path": "inputPath1"}


HEADER = "name,job,instances,status,start_time,end_time,duration,plan_cpu,plan_mem\n"


def test_an_alibaba_job_is_a_dag_in_topological_order_wherever_its_rows_stand(tmp_path):
    trace, _ = read(
        tmp_path,
        HEADER
        + "J3_1_2,a,4,Terminated,20,30,9,100,0.5\nM1,b,1,Terminated,5,6,1,50,0.2\n"
        + "M1,a,2,Terminated,10,15,4,100,0.5\nM2_Stg1,a,3,Terminated,10,20,8,100,0.5\n"
        + "task_xyz,a,1,Running,10,0,,nan,nan\n",
    )
    stages = [row for row in trace.stages.to_pylist() if row["job"] == 0]
    assert [p["source_id"] for p in stages] == ["M1", "M2_Stg1", "J3_1_2", "task_xyz"]
    assert [p["parents"] for p in stages] == [[], [], [0, 1], []]
    assert [p["mean_task_s"] for p in stages] == [4, 8, 9, None]
    job = trace.jobs.to_pylist()[0]
    assert (job["submit_s"], job["end_s"], job["outcome"], job["slots"]) == (10, None, "unknown", 4)


def test_the_original_batch_task_table_has_no_header(tmp_path):
    trace, _ = read(
        tmp_path, "M1,1,j_1,1,Terminated,419209,419219,100,0.3\nR2_1,5,j_1,2,Terminated,419219,419300,,\n"
    )
    assert trace.stages.column("tasks").to_pylist() == [1, 5]
    assert trace.stages.column("mean_task_s").to_pylist() == [10, 81]
    assert trace.stages.column("cpus").to_pylist() == [100, None]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        pytest.param(
            "R2_7,a,1,Terminated,1,2,1,1,1", "needs task 7, which does not exist", id="a parent is missing"
        ),
        pytest.param("M1_2,a,1,Terminated,1,2,1,1,1\nM2_1,a,1,Terminated,1,2,1,1,1", "cycle", id="a cycle"),
        pytest.param("M1,a,1,Terminated,9,2,1,1,1", "before it starts", id="it ends before it starts"),
        pytest.param("M1,a,1,Done,1,2,1,1,1", "status 'Done' is unknown", id="an unknown status"),
        pytest.param("M1,a,1.5,Terminated,1,2,1,1,1", "not a whole number", id="half a task"),
    ],
)
def test_half_a_dag_is_no_job(tmp_path, row, reason):
    trace, reader = read(
        tmp_path, f"{HEADER}M1,b,1,Terminated,5,6,1,50,0.2\nM5,a,1,Terminated,1,2,1,1,1\n{row}\n"
    )
    assert trace.jobs.column("source_id").to_pylist() == ["b"]
    assert reason in reader.report.examples[0].reason


def test_rows_spread_over_buckets_come_together_as_in_memory():
    rows = [(f"job {i % 37}", i, b"line %d" % i) for i in range(1000)]
    small = dict(grouped(rows, 1))
    large = dict(grouped(rows, 1 << 30, in_memory_bytes=10))
    assert small == large
    assert small["job 3"][:2] == [(3, b"line 3"), (40, b"line 40")]


def profile(**change):
    stage = {"first_wave": {"2": [10, 20], "8": [30]}, "rest_wave": {"2": [30]}, "fresh_durations": {}}
    row = {"query": 1, "scale": "2g", "parents": [[], [0]], "stages": [stage, stage]}
    return json.dumps({**row, **change}) + "\n"


@pytest.mark.parametrize(
    ("executors", "durations"),
    [
        pytest.param(8, [0.03], id="as many as measured"),
        pytest.param(5, [0.01, 0.02, 0.03], id="the next smaller measurement"),
        pytest.param(1, [0.01, 0.02, 0.03], id="fewer than any measurement"),
    ],
)
def test_a_tpch_profile_takes_the_durations_measured_with_so_many_executors(tmp_path, executors, durations):
    trace, _ = read(tmp_path, profile(), executors=executors)
    assert trace.jobs.column("source_id").to_pylist() == ["tpch-q1-2g"]
    assert trace.tasks.column("duration_s").to_pylist() == durations * 2
    assert trace.stages.column("parents").to_pylist() == [[], [0]]
    assert trace.jobs.column("submit_s").null_count == 1


def test_a_profile_whose_stages_are_not_in_order_is_left_out(tmp_path):
    _, reader = read(tmp_path, profile() + profile(query=2, parents=[[1], []]) + '{"query": 3\n')
    assert "do not all come before it" in reader.report.examples[0].reason
    assert "no stage profile" in reader.report.examples[1].reason
    assert reader.report.bad_rows == 2


def test_an_option_that_the_reader_does_not_have_is_refused(tmp_path):
    path = tmp_path / "file"
    path.write_text(SWF)
    with pytest.raises(BadInputError, match="reader of swf has no option executors"):
        open_trace(path, executors=3)
