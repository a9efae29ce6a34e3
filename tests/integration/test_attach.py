"""Attaching by configuration only: each way a user may, and each inner master that runs on one machine."""

from __future__ import annotations

import json
import os
import re
import sys

import pytest

from spark_sched.attach import conf, find_spark
from spark_sched.config import format_properties, read_properties
from tests.integration.attached import (
    EACH,
    EACH_OR_REFUSAL,
    HARD_CODED,
    SUMS,
    assert_attached,
    last_line,
)
from tests.integration.doctored import bridge_for, spark_with_renamed
from tests.spark_lines import has_connect

pytestmark = pytest.mark.integration

# Every application is to be refused, and the last one, for which the program was started, ends it.
_REFUSED = """
import json, sys
from pyspark.sql import SparkSession
for properties in json.loads(sys.argv[1]):
    try:
        SparkSession.builder.config(map=properties).getOrCreate()
    except Exception as error:
        print("REFUSED", str(error).replace("\\n", " "), flush=True)
SparkSession.builder.getOrCreate()
"""
_PLUGIN = "org.apache.spark.scheduler.sparksched.SchedPlugin"
_MASTERS = ["local[2]", "local[*]", "local[2,0]", "local-cluster[2,1,1024]"]
_QUIET = {"spark.ui.enabled": "false"}


def test_spark_submit_with_a_properties_file(run, program, tmp_path):
    properties = tmp_path / "sched.conf"
    printed = run(
        *("spark-sched", "conf", "--master", "local[*]", "--set", "spark.ui.enabled=false"),
        *("--out", properties),
    )
    assert printed.status == 0, printed.stderr
    assert_attached(last_line(run("spark-submit", "--properties-file", properties, program)))


def test_spark_sched_submit(run, program):
    outcome = run(
        "spark-sched", "submit", "--master", "local[2,3]", "-c", "spark.ui.enabled=false", program, "--x", "1"
    )
    assert_attached(last_line(outcome), ["--x", "1"])


def test_a_ready_properties_file_with_plain_spark_submit(run, program, root):
    class_path = run("spark-sched", "conf", "--class-path").stdout.strip()
    properties = root / "conf" / "local-cluster.conf"
    outcome = run("spark-submit", "--properties-file", properties, "--driver-class-path", class_path, program)
    assert_attached(last_line(outcome))


def test_a_program_that_names_its_master_is_attached_each_time_by_a_jar_of_the_application(run, tmp_path):
    script = tmp_path / "app.py"
    script.write_text(HARD_CODED)
    class_path = run("spark-sched", "conf", "--class-path").stdout.strip()
    plugin = ("--jars", class_path, "--conf", f"spark.plugins={_PLUGIN}")
    planner = ("--conf", f"spark.sched.planner.python={sys.executable}", "--conf", "spark.ui.enabled=false")
    reports = last_line(run("spark-submit", *plugin, *planner, script))
    assert len(reports) == 2
    for report in reports:
        assert_attached(report)


def test_a_connect_server_that_is_a_plugin_too_starts_beside_ours(run, program, tmp_path):
    if not has_connect():
        pytest.skip("this Spark comes without Spark Connect")
    connect = "org.apache.spark.sql.connect.SparkConnectPlugin"
    settings = {**_QUIET, "spark.plugins": connect, "spark.connect.grpc.binding.port": "0"}
    properties = tmp_path / "sched.conf"
    properties.write_text(format_properties(conf("local[2]", settings)))
    outcome = run("spark-submit", "--properties-file", properties, program)
    report = last_line(outcome)
    assert_attached(report)
    assert report["plugins"] == connect
    assert re.search(r"Successfully started service '\S*SparkConnectService\S*' on port", outcome.stderr)


def test_the_pyspark_shell_is_attached(run, tmp_path):
    properties = tmp_path / "sched.conf"
    properties.write_text(format_properties(conf("local[2]", _QUIET)))
    entry = "sc._jvm.org.apache.spark.scheduler.sparksched.SparkSched"
    asked = f"print('ATTACHED', {entry}.attached(sc._jsc.sc()))\n"
    interactive = {"PYSPARK_DRIVER_PYTHON_OPTS": "-i"}  # else Python starts no shell where nobody types
    outcome = run("pyspark", "--properties-file", properties, typed=asked, environment=interactive)
    assert "ATTACHED True" in outcome.stdout, outcome.output[-3000:]


@pytest.mark.slow
def test_spark_sql_is_attached(run, tmp_path):
    properties = tmp_path / "sched.conf"
    # In this mode the scheduler logs at the application's end what it would have done.
    properties.write_text(format_properties(conf("local[2]", {**_QUIET, "spark.sched.mode": "shadow"})))
    query = "SELECT sum(id), count(*) FROM range(0, 100, 1, 4)"
    outcome = run("spark-sql", "--properties-file", properties, "-e", query)
    assert "4950\t100" in outcome.stdout, outcome.output[-3000:]
    assert "spark_sched shadow report" in outcome.stderr


# Why a bridge does not fit. Then Spark's own scheduler runs the application; with the prefix, none does.
_UNFIT = {
    "a Spark without a method that the bridge overrides": (
        "its bridge uses org.apache.spark.scheduler.TaskSchedulerImpl.createTaskSetManager of Spark"
    ),
    "a bridge for another line of Spark": "its bridge is compiled for Spark 3.4.9 and this is Spark ",
}


@pytest.mark.parametrize("unfit", _UNFIT)
def test_a_bridge_that_does_not_fit_leaves_the_application_to_spark(run, tmp_path, unfit):
    script = tmp_path / "app.py"
    script.write_text(EACH_OR_REFUSAL)
    properties = conf("local[2]", _QUIET)
    bridge = properties["spark.driver.extraClassPath"]
    if unfit.startswith("a Spark"):
        spark = spark_with_renamed(
            "org/apache/spark/scheduler/TaskSchedulerImpl", "createTaskSetManager", tmp_path / "doctored.jar"
        )
        unfit_path = f"{spark}{os.pathsep}{bridge}"
    else:
        unfit_path = str(bridge_for("3.4.9", bridge, tmp_path / "doctored.jar"))
    properties["spark.driver.extraClassPath"] = unfit_path
    by_master = {**properties, "spark.master": "spark-sched:local[2]"}
    tried = (json.dumps(each) for each in (properties, by_master, properties))
    outcome = run(sys.executable, script, *tried)
    first, refusal, last = last_line(outcome)
    for report in (first, last):
        assert report["sums"] == SUMS
        assert report["attached"] is False
        assert report["plugins"] is None
    assert f"spark_sched cannot attach: {_UNFIT[unfit]}" in refusal
    said = [line for line in outcome.stderr.splitlines() if "spark_sched is not attached" in line]
    assert len(said) == 2
    assert all(_UNFIT[unfit] in line for line in said)


def test_a_program_of_the_jvm_that_fails_before_it_stops_its_context_ends(run, tmp_path):
    generator, there = "org.apache.spark.mllib.util.KMeansDataGenerator", tmp_path / "there"
    there.mkdir()  # it may not write into that, and throws
    class_path = run("spark-sched", "conf", "--class-path").stdout.strip()
    (jar,) = find_spark().jars.glob("spark-mllib_*.jar")
    attached = ("--driver-class-path", class_path, "--conf", f"spark.sched.planner.python={sys.executable}")
    arguments = ("spark-sched:local[2]", there, "100", "2", "3", "1.0")
    outcome = run("spark-submit", *attached, "--class", generator, jar, *arguments)
    assert outcome.status == 1
    assert "FileAlreadyExistsException" in outcome.stderr
    assert "Successfully stopped SparkContext" in outcome.stderr


@pytest.mark.slow
def test_a_ready_properties_file_with_spark_sched_submit(run, program, root):
    outcome = run("spark-sched", "submit", "--properties-file", root / "conf" / "local.conf", program)
    assert_attached(last_line(outcome))


@pytest.mark.slow
def test_plain_python_with_the_properties_in_the_builder_on_each_master(run, tmp_path):
    script = tmp_path / "app.py"
    script.write_text(EACH)
    reports = last_line(run(sys.executable, script, *_MASTERS))
    assert len(reports) == len(_MASTERS)
    for report in reports:
        assert_attached(report, _MASTERS)


_WRONG = [
    pytest.param({"spark.master": "spark-sched:locl[2]"}, "did you mean local", id="a wrong inner master"),
    pytest.param({"spark.master": "spark-sched:local[0]"}, "The master 'local[0]' has a", id="no slot"),
    pytest.param(
        {"spark.sched.reservation.isolatoin": "1"},
        "did you mean spark.sched.reservation.isolation?",
        id="a wrong key",
    ),
    pytest.param(
        {"spark.sched.reservation.gap": "10"}, "must be a time such as", id="a time without its unit"
    ),
    pytest.param({"spark.sched.reservation.isolation": "1.5"}, "must be a number from 0", id="out of range"),
]
# Python lets these pass, since a cluster manager of one's own may have room for them.
_WITHOUT_END = [
    ("local[2]", {"spark.task.cpus": "3"}, "has to be >= the number of cpus per task = 3"),
    ("local-cluster[1,2,1024]", {"spark.task.cpus": "3"}, "has to be >= the number of cpus"),
    ("yarn", {}, "neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set"),
]


@pytest.mark.parametrize(("properties", "sentence"), _WRONG)
def test_spark_sched_submit_refuses(run, program, tmp_path, properties, sentence):
    wrong = tmp_path / "wrong.conf"
    wrong.write_text(format_properties({**conf("local[2]"), **_QUIET, **properties}))
    refused = run("spark-sched", "submit", "--properties-file", wrong, program)
    assert refused.status == 2
    assert refused.stderr.startswith("error: ")
    (key,) = properties
    assert key.rpartition(".")[2] in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_the_jvm_refuses_what_python_did_not_see_and_what_would_wait_without_end(run, tmp_path):
    (started, sentence), *others = [case.values for case in _WRONG]
    tried = [({**conf("local[2]"), **properties}, expected) for properties, expected in others]
    for door in ("spark-sched:yarn", "spark-sched:k8s://https://host:443"):
        tried.append(({**conf("local[2]"), "spark.master": door}, f"spark.plugins to {_PLUGIN}"))
    tried += [(conf(master, properties), expected) for master, properties, expected in _WITHOUT_END]
    script, wrong = tmp_path / "app.py", tmp_path / "wrong.conf"
    script.write_text(_REFUSED)
    wrong.write_text(format_properties({**conf("local[2]"), **_QUIET, **started}))
    applications = json.dumps([properties for properties, _ in tried])
    outcome = run("spark-submit", "--properties-file", wrong, script, applications)
    assert outcome.status != 0
    said = [line for line in outcome.stdout.splitlines() if line.startswith("REFUSED ")]
    assert len(said) == len(tried)
    for line, (properties, expected) in zip(said, tried, strict=True):
        assert expected in line, properties
    assert sentence in outcome.stderr.rpartition("Traceback")[2]
    assert "Executor: Starting executor" not in outcome.output


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


def test_doctor_says_that_its_job_did_not_end(run):
    outcome = run("spark-sched", "doctor", "--json", "--timeout", "1")
    assert outcome.status == 2
    last = json.loads(outcome.stdout)["findings"][-1]
    assert last["found"] == "a job on local[2] did not end within 1 s"
    assert "--timeout" in last["remedy"]


def test_every_ready_properties_file_attaches_and_is_valid(root):
    files = sorted((root / "conf").glob("*.conf"))
    assert {path.stem for path in files} == {"kubernetes", "local", "local-cluster", "standalone"}
    for path in files:
        properties = read_properties(path)
        master = properties.pop("spark.master")
        assert properties["spark.plugins"] == _PLUGIN
        assert conf(master, properties)["spark.master"] == master
