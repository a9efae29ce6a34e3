"""SparkBench's own configuration files."""

import json

import pytest
from click.testing import CliRunner

from spark_sched.cli.app import app
from spark_sched.errors import BadInputError

pytest.importorskip("pyhocon")

CONFIG = """
spark-bench = {
  spark-submit-parallel = false
  spark-submit-config = [{
    spark-args = { master = "yarn" }
    conf = { "spark.shuffle.service.enabled" = "true" }
    suites-parallel = false
    workload-suites = [
      {
        descr = "Sleeps" // a comment
        parallel = true
        repeat = 2
        benchmark-output = "console"
        workloads = [
          { name = "sleep", sleepMS = [100, 200], colour = "red" },
          { name = ["sleep", "custom"], distribution = "uniform", max = 300, class = "com.example.Mine" }
        ]
      },
      { descr = "Nothing known", workloads = [{ name = "hello" }] }
    ]
  }]
}
"""

ONE = "spark-bench.spark-submit-config = [{{ workload-suites = {} }}]"


def read(path, text):
    from spark_sched_lab.runs.bench.hocon import read_hocon

    path.write_text(text)
    return read_hocon(path)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "suite.conf"


def test_known_workloads_become_suites_and_the_rest_is_named(path):
    found, left_out = read(path, CONFIG)
    suite, again = found.suites
    # SparkBench runs a repetition in parallel, and the next one after it.
    assert (suite.description, suite.mode, suite.repeat) == ("Sleeps (1 of 2)", "parallel", 1)
    assert (again.description, again.mode, again.jobs) == ("Sleeps (2 of 2)", "parallel", suite.jobs)
    assert [(job.label, job.parameters["sleepms"], job.parameters["max"]) for job in suite.jobs] == [
        ("sleep sleepms=100", 100, None),
        ("sleep sleepms=200", 200, None),
        ("sleep", None, 300.0),
    ]
    assert left_out == [
        "spark-args: the application is this machine's",
        "conf: the application is this machine's",
        "benchmark-output of 'Sleeps'",
        "parameter 'colour' of 'sleep' in 'Sleeps'",
        "parameter 'class' of 'sleep' in 'Sleeps'",
        "workload 'custom' of 'Sleeps'",
        "workload 'hello' of 'Nothing known'",
    ]


def test_a_sleep_is_a_pause_of_the_driver_unless_it_names_tasks(path):
    text = """[{ descr = "s", parallel = true, workloads = [
      { name = "sleep", sleepMS = 5000 }, { name = "sleep", sleepms = 20, tasks = 3 } ] }]"""
    found, left_out = read(path, ONE.format(text))
    pause, tasks = found.suites[0].jobs
    assert (pause.label, pause.program.name, pause.parameters["sleepms"]) == ("sleep", "think", 5000)
    assert (tasks.label, tasks.program.name, tasks.parameters["tasks"]) == ("sleep", "sleep", 3)
    assert left_out == []


def test_forty_users_who_think_take_the_time_of_one(path):
    workloads = ", ".join(['{ name = "sleep", sleepms = 5000 }'] * 40)
    path.write_text(ONE.format(f'[{{ descr = "s", parallel = true, workloads = [{workloads}] }}]'))
    done = CliRunner().invoke(app, ["bench", str(path), "--simulate", "--json"], catch_exceptions=False)
    (suite,) = json.loads(done.stdout)["suites"]
    assert 5.0 < suite["makespan_s"] < 5.1  # as tasks on the slots of a machine: three rounds or more


def test_suites_in_parallel_run_side_by_side_and_each_ones_repetitions_in_turn(path):
    from spark_sched_lab.runs.bench.suite import side_by_side

    text = """spark-bench { spark-submit-parallell = true, spark-submit-config = [
      { suites-parallel = true, workload-suites = [
        { descr = "a", parallel = true, repeat = 2,
          workloads = [{ name = "sleep", sleepms = 100, tasks = 1 }] }
        { descr = "b", repeat = 2, workloads = [{ name = "sleep", sleepms = 300, tasks = 1 }] } ] },
      { workload-suites = [
        { descr = "c", workloads = [{ name = "sleep", sleepms = 100, tasks = 1 }] } ] } ] }"""
    found, left_out = read(path, text)
    assert [suite.description for suite in found.suites] == ["a (1 of 2)", "a (2 of 2)", "b", "c"]
    assert side_by_side(found.suites) == [[[0, 1], [2]], [[3]]]
    assert left_out == ["spark-submit-parallell of spark-bench: unknown"]
    refused = CliRunner().invoke(app, ["bench", str(path), "--simulate"])
    assert refused.exit_code == 2
    assert "'a (1 of 2)' has parallel workloads and takes turns" in refused.stderr
    path.write_text(text.replace("parallel = true, repeat = 2", "repeat = 2"))
    done = CliRunner().invoke(app, ["bench", str(path), "--simulate", "--json"], catch_exceptions=False)
    a, b, c = json.loads(done.stdout)["suites"]
    assert (a["makespan_s"], b["makespan_s"]) == (pytest.approx(0.2, abs=0.05), pytest.approx(0.6, abs=0.05))
    assert [round(job["began_s"], 1) for job in (*a["jobs"], *b["jobs"], *c["jobs"])] == [0, 0.1, 0, 0.3, 0]


@pytest.mark.parametrize(
    "include", ['include url("http://localhost:1/x")', 'include required(url("file:///x"))']
)
def test_a_url_is_not_fetched(path, include):
    with pytest.raises(BadInputError, match="suite.conf includes a URL, which is not fetched"):
        read(path, include)


def test_substitutions_and_the_older_name_of_suites_are_read(path):
    text = """
    pause = 70
    spark-bench.spark-submit-config = [{
      suites = [{ workloads = [{ name = "sleep", sleepms = ${pause} }] }]
    }]
    """
    found, left_out = read(path, text)
    assert found.suites[0].jobs[0].parameters["sleepms"] == 70
    assert left_out == []


def test_sparkbenchs_other_sleep_and_its_default_save_mode_are_read(path):
    rows = '{ name = "timedsleep", partitions = 3, sleepMS = 20 }, { name = "TimedSleep" }'
    rows += ', { name = "data-generation-kmeans", rows = 1, cols = 1, output = "x", save-mode = "error" }'
    found, left_out = read(path, ONE.format(f"[{{ workloads = [{rows}] }}]"))
    timed, default, data = found.suites[0].jobs
    # Each task sleeps for each of its 100 elements, and a shuffle with as many tasks follows.
    assert timed.program.stages(timed.parameters, 0) == [[2_000] * 3, [1] * 3]
    assert (default.parameters["partitions"], default.parameters["sleepms"]) == (48, 12_000)
    assert data.parameters["save-mode"] == "error"
    assert left_out == []


@pytest.mark.parametrize(
    ("written", "mode"),
    [
        ("no", "sequence"),
        ("off", "sequence"),
        ('"false"', "sequence"),
        ("on", "parallel"),
        ("Yes", "parallel"),
    ],
)
def test_flags_are_read_as_hocon_writes_them(path, written, mode):
    found, _ = read(path, CONFIG.replace("parallel = true", f"parallel = {written}"))
    assert found.suites[0].mode == mode


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        pytest.param(ONE.format("5"), "workload-suites of 'spark-submit-config' has 5 but", id="no suite"),
        pytest.param(ONE.format('["x"]'), "workload-suites of .* has 'x' but", id="a text for a suite"),
        pytest.param(
            'spark-bench.spark-submit-config = ["x"]', "has 'x' but", id="a text for an application"
        ),
        pytest.param(ONE.format("[null]"), "workload-suites of .* has None but", id="a suite of nothing"),
        pytest.param(ONE.format("[{ workloads = [null] }]"), "workloads of .* has None", id="no workload"),
        pytest.param(ONE.format("[{ workloads = [5] }]"), "workloads of 'a suite' has 5", id="a number"),
        pytest.param(
            ONE.format("[{ workloads = sparkpi }]"), "has 'sparkpi' but", id="a text for a workload"
        ),
        pytest.param(ONE.format("[{ workloads = [{ slices = 5 }] }]"), "has no name", id="no name"),
        pytest.param(CONFIG.replace("colour", "sleepms"), "sets sleepms twice", id="a parameter twice"),
        pytest.param(CONFIG.replace("= true", "= 7", 1), "is 7 but must be true or false", id="no flag"),
        pytest.param("[1, 2]", "has no spark-bench.spark-submit-config", id="a list"),
        pytest.param('include required("no.conf")', "is not a HOCON file", id="a missing file"),
        pytest.param(
            "a = 1\nspark-bench = [",
            r"is not a HOCON file \(line 2, column 16: 'spark-bench = \['\): fix that line",
            id="no HOCON",
        ),
        pytest.param("other = 1", "has no spark-bench.spark-submit-config", id="another file"),
        pytest.param(CONFIG.replace("sleep", "nap"), "has no workload that this", id="nothing known"),
        pytest.param(CONFIG.replace("repeat = 2", "repeat = 0"), r"repeat is 0 but must be", id="no runs"),
        pytest.param(CONFIG.replace("max = 300", "max = -1"), r"max is -1.0 but must be", id="a wrong value"),
    ],
)
def test_a_bad_file_is_refused_by_name(path, text, sentence):
    with pytest.raises(BadInputError, match=sentence) as refused:
        read(path, text)
    assert str(path) in str(refused.value)


def test_the_command_runs_such_a_file_and_names_what_it_leaves_out(path):
    path.write_text(CONFIG)
    done = CliRunner().invoke(app, ["bench", str(path), "--simulate"], catch_exceptions=False)
    assert done.exit_code == 0
    assert "left out: workload 'custom' of 'Sleeps'" in done.stderr
    assert "Sleeps (2 of 2): 3 jobs" in done.stdout
