"""Attaching by configuration only, each way a user may, on each inner master that runs on one machine."""

from __future__ import annotations

import json
import sys

import pytest

from spark_sched.bridge import conf
from spark_sched.cluster import LocalCluster
from spark_sched.config import format_properties, read_properties

pytestmark = pytest.mark.integration

# Two phases under a mark, then what the JVM says about itself, as the last line of standard output.
_PROGRAM = """
import json, sys
from operator import add
import spark_sched
from pyspark.sql import SparkSession

spark = SparkSession.builder{builder}.getOrCreate()
context = spark.sparkContext
with spark_sched.job(spark, "attach", priority=5):
    pairs = context.range(1000, numSlices=8).map(lambda n: (n % 3, n))
    sums = sorted(pairs.reduceByKey(add, 4).collect())
entry = context._jvm.org.apache.spark.scheduler.sparksched.SparkSched
print(json.dumps({{
    "sums": sums,
    "attached": entry.attached(context._jsc.sc()),
    "counters": json.loads(entry.counters(context._jsc.sc())),
    "argument": sys.argv[1:],
}}))
spark.stop()
"""
_SUMS = [[0, 166833], [1, 166167], [2, 166500]]
_MASTERS = ["local[2]", "local[*]", "local[2,0]", "local-cluster[2,1,1024]"]
_QUIET = {"spark.ui.enabled": "false"}


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "app.py"
    path.write_text(_PROGRAM.format(builder=""))
    return path


def assert_ran_attached(outcome, argument=()):
    assert outcome.status == 0, outcome.output[-3000:]
    report = json.loads(outcome.stdout.strip().splitlines()[-1])
    assert report["sums"] == _SUMS
    assert report["attached"] is True
    assert report["argument"] == list(argument)
    counters = report["counters"]
    assert counters["holds_total"] > 0
    assert counters["slots_held_now"] == 0
    assert counters["invariant_violations"] == 0


@pytest.mark.parametrize("master", _MASTERS)
def test_spark_submit_with_a_properties_file(run, program, tmp_path, master):
    properties = tmp_path / "sched.conf"
    printed = run(
        "spark-sched", "conf", "--master", master, "--set", "spark.ui.enabled=false", "--out", properties
    )
    assert printed.status == 0, printed.stderr
    assert_ran_attached(run("spark-submit", "--properties-file", properties, program))


def test_spark_sched_submit(run, program):
    master = "local-cluster[2,1,1024]"
    outcome = run(
        "spark-sched", "submit", "--master", master, "-c", "spark.ui.enabled=false", program, "--x", "1"
    )
    assert_ran_attached(outcome, ["--x", "1"])


def test_a_ready_properties_file_with_plain_spark_submit(run, program, root):
    class_path = run("spark-sched", "conf", "--class-path").stdout.strip()
    properties = root / "conf" / "local-cluster.conf"
    outcome = run("spark-submit", "--properties-file", properties, "--driver-class-path", class_path, program)
    assert_ran_attached(outcome)


def test_a_ready_properties_file_with_spark_sched_submit(run, program, root):
    outcome = run("spark-sched", "submit", "--properties-file", root / "conf" / "local.conf", program)
    assert_ran_attached(outcome)


def test_plain_python_with_the_properties_in_the_builder(run, tmp_path):
    script = tmp_path / "app.py"
    script.write_text(_PROGRAM.format(builder=".config(map=spark_sched.conf('local[2]'))"))
    assert_ran_attached(run(sys.executable, script))


def test_plain_python_with_the_properties_in_the_defaults(run, program, attached_conf_dir):
    assert_ran_attached(run(sys.executable, program, environment={"SPARK_CONF_DIR": str(attached_conf_dir)}))


def test_a_standalone_cluster_of_several_hosts(run, program, tmp_path, root):
    with LocalCluster(workers=2, cores_per_worker=2, memory="1g") as cluster:
        driver = {name: value for name, value in cluster.spark_conf().items() if name != "spark.master"}
        properties = tmp_path / "sched.conf"
        properties.write_text(
            format_properties(conf(cluster.master_url, {**driver, **_QUIET, "spark.executor.memory": "512m"}))
        )
        assert_ran_attached(run("spark-submit", "--properties-file", properties, program))
        ready = run(
            *("spark-sched", "submit", "--properties-file", root / "conf" / "standalone.conf"),
            *("--master", cluster.master_url, "--conf", "spark.executor.memory=512m", program),
        )
        assert_ran_attached(ready)


def test_the_pytest_spark_session_of_these_tests_is_attached(spark_context):
    entry = spark_context._jvm.org.apache.spark.scheduler.sparksched.SparkSched
    assert entry.attached(spark_context._jsc.sc())
    assert spark_context.parallelize(range(10), 4).sum() == 45


@pytest.mark.parametrize(
    ("properties", "sentence"),
    [
        pytest.param(
            {"spark.master": "spark-sched:locl[2]"}, "did you mean local", id="a wrong inner master"
        ),
        pytest.param({"spark.master": "spark-sched:local[0]"}, "The master 'local[0]' has a", id="no slot"),
        pytest.param(
            {"spark.sched.reservation.isolatoin": "1"},
            "did you mean spark.sched.reservation.isolation?",
            id="a wrong key",
        ),
        pytest.param(
            {"spark.sched.reservation.gap": "10"}, "must be a time such as", id="a time without its unit"
        ),
        pytest.param(
            {"spark.sched.reservation.isolation": "1.5"}, "must be a number from 0", id="out of range"
        ),
    ],
)
def test_the_jvm_refuses_what_python_did_not_see(run, program, tmp_path, properties, sentence):
    wrong = tmp_path / "wrong.conf"
    wrong.write_text(format_properties({**conf("local[2]"), **_QUIET, **properties}))
    outcome = run("spark-submit", "--properties-file", wrong, program)
    assert outcome.status != 0
    (key,) = properties
    assert sentence in outcome.output
    assert "Executor: Starting executor" not in outcome.output
    refused = run("spark-sched", "submit", "--properties-file", wrong, program)
    assert refused.status == 2
    assert refused.stderr.startswith("error: ")
    assert key.rpartition(".")[2] in refused.stderr
    assert refused.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("master", "task_cpus", "sentence"),
    [
        pytest.param("local[2]", 3, "has to be >= the number of cpus per task = 3", id="threads"),
        pytest.param(
            "local-cluster[1,2,1024]", 3, "has to be >= the number of cpus", id="cores of an executor"
        ),
        pytest.param(
            "yarn", 1, "neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set", id="a cluster nobody named"
        ),
    ],
)
def test_what_would_wait_without_end_is_refused(run, program, tmp_path, master, task_cpus, sentence):
    properties = tmp_path / "wide.conf"
    settings = {**conf(master), **_QUIET, "spark.task.cpus": str(task_cpus)}
    properties.write_text(format_properties(settings))
    outcome = run("spark-submit", "--properties-file", properties, program)
    assert outcome.status != 0
    assert sentence in outcome.output


def test_doctor_runs_a_job_and_finds_nothing_wrong(run):
    outcome = run("spark-sched", "doctor", "--json")
    assert outcome.status == 0, outcome.output
    report = json.loads(outcome.stdout)
    assert report["well"] is True
    assert {finding["check"] for finding in report["findings"]} >= {"java", "spark", "bridge", "job"}


def test_doctor_names_the_remedy_and_exits_with_2(run, tmp_path):
    outcome = run("spark-sched", "doctor", "--json", environment={"JAVA_HOME": str(tmp_path)})
    assert outcome.status == 2
    last = json.loads(outcome.stdout)["findings"][-1]
    assert (last["check"], last["state"]) == ("java", "wrong")
    assert last["remedy"] == "point it at a Java 17 or newer"


def test_every_ready_properties_file_attaches_and_is_valid(root):
    files = sorted((root / "conf").glob("*.conf"))
    assert {path.stem for path in files} == {"local", "local-cluster", "standalone"}
    for path in files:
        properties = read_properties(path)
        wrapped = properties.pop("spark.master")
        assert wrapped.startswith("spark-sched:")
        assert conf(wrapped, properties)["spark.master"] == wrapped
