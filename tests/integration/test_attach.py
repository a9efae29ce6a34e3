"""Attaching by configuration only: each way a user may, and each inner master that runs on one machine."""

from __future__ import annotations

import json
import sys
from operator import add

import pytest

import spark_sched
from spark_sched.bridge import conf
from spark_sched.config import format_properties, read_properties

pytestmark = pytest.mark.integration

# Two stages under a mark, then what the JVM says about itself, as the last line of standard output.
_PROGRAM = """
import json, os, sys
from operator import add
import spark_sched
from pyspark.sql import SparkSession

def attach(builder):
    spark = builder.getOrCreate()
    context = spark.sparkContext
    with spark_sched.job(spark, "attach", priority=5):
        pairs = context.range(1000, numSlices=8).map(lambda n: (n % 3, n))
        sums = sorted(pairs.reduceByKey(add, 4).collect())
    where = context.range(4, numSlices=4).map(lambda _: os.environ["SPARK_LOCAL_IP"])
    entry = context._jvm.org.apache.spark.scheduler.sparksched.SparkSched
    found = {
        "sums": sums,
        "hosts": sorted(set(where.collect())),
        "attached": entry.attached(context._jsc.sc()),
        "counters": json.loads(entry.counters(context._jsc.sc())),
        "argument": sys.argv[1:],
    }
    spark.stop()
    return found

"""
_ONCE = _PROGRAM + "print(json.dumps(attach(SparkSession.builder)))"
_EACH = (
    _PROGRAM
    + """
builders = (SparkSession.builder.config(map=spark_sched.conf(master)) for master in sys.argv[1:])
print(json.dumps([attach(builder) for builder in builders]))
"""
)
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
_SUMS = [[0, 166833], [1, 166167], [2, 166500]]
_MASTERS = ["local[2]", "local[*]", "local[2,0]", "local-cluster[2,1,1024]"]
_QUIET = {"spark.ui.enabled": "false"}
in_the_session = pytest.mark.xdist_group("session")
on_the_standalone_cluster = pytest.mark.xdist_group("standalone")


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "app.py"
    path.write_text(_ONCE)
    return path


def last_line(outcome):
    assert outcome.status == 0, outcome.output[-3000:]
    return json.loads(outcome.stdout.strip().splitlines()[-1])


def assert_attached(report, argument=()):
    assert report["sums"] == _SUMS
    assert report["attached"] is True
    assert report["argument"] == list(argument)
    counters = report["counters"]
    assert counters["holds_total"] > 0
    assert counters["slots_held_now"] == 0
    assert counters["invariant_violations"] == 0


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


def test_a_ready_properties_file_with_spark_sched_submit(run, program, root):
    outcome = run("spark-sched", "submit", "--properties-file", root / "conf" / "local.conf", program)
    assert_attached(last_line(outcome))


def test_plain_python_with_the_properties_in_the_builder_on_each_master(run, tmp_path):
    script = tmp_path / "app.py"
    script.write_text(_EACH)
    reports = last_line(run(sys.executable, script, *_MASTERS))
    assert len(reports) == len(_MASTERS)
    for report in reports:
        assert_attached(report, _MASTERS)


@on_the_standalone_cluster
def test_a_standalone_cluster_of_several_hosts(run, program, tmp_path, standalone):
    driver = {name: value for name, value in standalone.spark_conf().items() if name != "spark.master"}
    # Nothing runs before both executors are there.
    both = {"spark.cores.max": "4", "spark.scheduler.minRegisteredResourcesRatio": "1"}
    properties = tmp_path / "sched.conf"
    properties.write_text(
        format_properties(
            conf(
                standalone.master_url,
                {**driver, **_QUIET, **both, "spark.executor.memory": "512m", "spark.executor.cores": "2"},
            )
        )
    )
    report = last_line(run("spark-submit", "--properties-file", properties, program))
    assert_attached(report)
    assert report["hosts"] == sorted(worker.host for worker in standalone.workers)


@on_the_standalone_cluster
def test_the_ready_properties_file_of_a_standalone_cluster(run, program, root, standalone):
    outcome = run(
        *("spark-sched", "submit", "--properties-file", root / "conf" / "standalone.conf"),
        *("--master", standalone.master_url, "--conf", "spark.executor.memory=512m", program),
    )
    assert_attached(last_line(outcome))


@in_the_session
def test_plain_python_with_the_properties_in_the_defaults(spark_context):
    """The session of pytest-spark is attached by a file of defaults and nothing else."""
    with spark_sched.job(spark_context, "attach", priority=5):
        pairs = spark_context.range(1000, numSlices=8).map(lambda n: (n % 3, n))
        sums = sorted(pairs.reduceByKey(add, 4).collect())
    entry = spark_context._jvm.org.apache.spark.scheduler.sparksched.SparkSched
    report = {
        "sums": [list(pair) for pair in sums],
        "attached": entry.attached(spark_context._jsc.sc()),
        "counters": json.loads(entry.counters(spark_context._jsc.sc())),
        "argument": [],
    }
    assert_attached(report)


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


def test_every_ready_properties_file_attaches_and_is_valid(root):
    files = sorted((root / "conf").glob("*.conf"))
    assert {path.stem for path in files} == {"local", "local-cluster", "standalone"}
    for path in files:
        properties = read_properties(path)
        wrapped = properties.pop("spark.master")
        assert wrapped.startswith("spark-sched:")
        assert conf(wrapped, properties)["spark.master"] == wrapped


@pytest.mark.parametrize("pipelined", [False, True])
def test_a_stage_that_feeds_another_while_it_runs_is_told_from_others(spark_context, pipelined):
    if spark_context.version < "4.3":
        pytest.skip("pipelined stages came with Spark 4.3")
    jvm = spark_context._jvm
    scheduler = jvm.org.apache.spark.scheduler
    tasks = spark_context._gateway.new_array(scheduler.Task, 0)
    nothing = jvm.scala.Option.empty()
    stage = scheduler.TaskSet(tasks, 1, 0, 1, jvm.java.util.Properties(), 0, nothing, pipelined)
    assert scheduler.sparksched.SparkLine.isPipelined(stage) is pipelined
