"""Workloads of the UWFQ benchmark tool."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from spark_sched.cli.app import app
from spark_sched.errors import BadInputError
from spark_sched_lab.runs.bench.suite import plan_jobs
from spark_sched_lab.runs.bench.uwfq import read_uwfq


def workload(name, kind, **more):
    return {
        "workloadName": name,
        "inputPath": "trips.parquet",
        "inputType": "PARQUET",
        "className": f"jobs.implementations.{kind}",
        "totalIterations": 1,
        "startTimeMs": "500",
        "poissonRateInMinutes": 0,
        "frequency": "PARA",
        "params": {},
        **more,
    }


CUSTOM = workload("custom", "udf.LoopCustom", params={"task_runtime_s": 8.0, "job_runtime_s": 8.0})
OFTEN = CUSTOM | {"workloadName": "often", "totalIterations": 400, "poissonRateInMinutes": 30}
USERS = [
    {"user": "ana", "workloads": [CUSTOM, workload("loop", "udf.Loop100")]},
    {"user": "ben", "workloads": []},
    {"user": "cem", "workloads": [CUSTOM | {"startTimeMs": 0, "colour": "red"}]},
]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "two_users.json"


def read(path, users):
    path.write_text(json.dumps(users))
    return read_uwfq(path)


def test_users_share_one_suite_in_which_jobs_arrive_at_their_times(path):
    found, left_out = read(path, USERS)
    (suite,) = found.suites
    assert (suite.description, suite.mode) == ("two_users", "parallel")
    planned = plan_jobs(found, 0)
    assert [(job.job.marks["user"], job.arrival_s) for job in planned] == [("cem", 0.0), ("ana", 0.5)]
    # Eight seconds of work on 2 x 8 slots.
    parameters = planned[0].job.parameters
    assert (parameters["tasks"], parameters["sleepms"]) == (found.cluster.all_slots, 500)
    assert left_out == [
        "workload 'loop' of 'ana': class Loop100",
        "colour of workload 'custom' of 'cem': unknown",
    ]


def test_iterations_arrive_as_a_poisson_process_that_the_names_determine(path):
    found, _ = read(path, [{"user": "ana", "workloads": [OFTEN]}])
    arrivals = [job.arrival_s for job in plan_jobs(found, 0)]
    assert (len(arrivals), arrivals[0]) == (400, 0.5)
    assert arrivals[-1] / 399 == pytest.approx(2.0, rel=0.2)
    assert arrivals == [
        job.arrival_s for job in plan_jobs(read(path, [{"user": "ana", "workloads": [OFTEN]}])[0], 0)
    ]


def test_iterations_in_sequence_follow_one_another(path):
    slow = CUSTOM | {"totalIterations": 3, "frequency": "SEQ"}
    found, left_out = read(path, [{"user": "ana", "workloads": [slow]}])
    assert [(job.arrival_s, job.after) for job in plan_jobs(found, 0)] == [
        (0.5, False),
        (0.5, True),
        (0.5, True),
    ]
    assert left_out == []


def test_operations_are_queries_on_their_data(path):
    kinds = ("SuperShortOperation", "ShortOperation", "LongOperation")
    found, left_out = read(path, [{"user": "ana", "workloads": [workload(kind, kind) for kind in kinds]}])
    assert [job.program.name for job in found.suites[0].jobs] == ["sql"] * 3
    assert {job.parameters["input"] for job in found.suites[0].jobs} == {"trips.parquet"}
    assert left_out == []


def test_a_base_configuration_with_users_is_read_and_its_application_named(path):
    found, left_out = read(path, {"master": "local[2]", "users": USERS[2:]})
    assert len(found.suites[0].jobs) == 1
    assert left_out[0] == "master: the application is this machine's"


@pytest.mark.parametrize(
    ("users", "sentence"),
    [
        pytest.param({"name": "x"}, "has no list of users", id="another file"),
        pytest.param(
            [{"user": "ana", "workloads": [workload("a", "Own")]}],
            "has no workload that this command can run",
            id="nothing known",
        ),
        pytest.param(
            [{"user": "a", "workloads": [CUSTOM | {"totalIterations": 0}]}],
            "totalIterations is 0",
            id="no runs",
        ),
        pytest.param(
            [{"user": "a", "workloads": [CUSTOM | {"startTimeMs": "x"}]}],
            "startTimeMs is 'x'",
            id="a wrong time",
        ),
        pytest.param(
            [{"user": "a", "workloads": [OFTEN | {"frequency": "SEQ"}]}],
            "wait for one another",
            id="a sequence",
        ),
        pytest.param(
            [{"user": "a", "workloads": [CUSTOM | {"frequency": "XXX"}]}],
            "frequency is 'XXX'",
            id="a wrong frequency",
        ),
        pytest.param(
            [{"user": "a", "workloads": [CUSTOM | {"params": {}}]}], "job_runtime_s is missing", id="no work"
        ),
        pytest.param(
            [{"user": "a", "workloads": [CUSTOM | {"params": {"job_runtime_s": float("inf")}}]}],
            "job_runtime_s is inf",
            id="endless work",
        ),
        pytest.param(
            [{"user": "a", "workloads": [CUSTOM | {"startTimeMs": float("inf")}]}],
            "startTimeMs is inf",
            id="no start",
        ),
    ],
)
def test_a_bad_file_is_refused_by_name(path, users, sentence):
    with pytest.raises(BadInputError, match=sentence) as refused:
        read(path, users)
    assert str(path) in str(refused.value)


def test_the_command_runs_such_a_file_and_names_what_it_leaves_out(path):
    path.write_text(json.dumps(USERS))
    done = CliRunner().invoke(app, ["bench", str(path), "--simulate"], catch_exceptions=False)
    assert done.exit_code == 0
    assert "left out: workload 'loop' of 'ana': class Loop100" in done.stderr
    assert "two_users: 2 jobs" in done.stdout
    path.write_text("[")
    refused = CliRunner().invoke(app, ["bench", str(path), "--simulate"])
    assert refused.exit_code == 2
    assert "is not a JSON document" in refused.stderr


def test_a_document_that_is_nested_too_deep_is_refused(path):
    path.write_text("[" * 100_000)
    with pytest.raises(BadInputError, match="is not a JSON document"):
        read_uwfq(path)
