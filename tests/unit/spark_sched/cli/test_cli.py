"""The command line: what it prints, where, and with which exit status."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from spark_sched import __version__
from spark_sched.cli.app import app
from spark_sched.config import parse_properties


@pytest.fixture
def spark_sched(monkeypatch, tmp_path):
    jar = tmp_path / "bridge.jar"
    monkeypatch.setattr("spark_sched.attach.properties.build", lambda spark_home=None: jar)
    monkeypatch.setattr("spark_sched.cli.conf.build", lambda spark_home=None: jar)

    def call(*arguments: str):
        return CliRunner().invoke(app, arguments, prog_name="spark-sched", catch_exceptions=False)

    return call


def test_help_names_every_command_and_imports_none_of_them():
    program = (
        "import sys\nfrom spark_sched.cli import main\nsys.argv[1:] = ['--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = {'pyspark', 'numpy', 'rich', 'py4j', 'matplotlib'} & set(sys.modules)\n"
        "print('HEAVY', sorted(heavy))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "HEAVY []" in done.stdout
    for name in ("conf", "submit", "doctor", "demo"):
        assert f"  {name} " in done.stdout
    sections = ("Attach:", "Watch a live application:", "Steer it:", "Analyse what ran:", "Research:")
    assert [line for line in done.stdout.splitlines() if line in sections] == list(sections)


@pytest.mark.parametrize(
    ("typed", "expected"), [("re", ["resume", "recommend", "reproduce"]), ("top --so", ["--sort"])]
)
def test_the_shell_completes_commands_and_options(spark_sched, monkeypatch, typed, expected):
    monkeypatch.setenv("_SPARK_SCHED_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", f"spark-sched {typed}")
    monkeypatch.setenv("COMP_CWORD", str(len(typed.split())))
    assert spark_sched().stdout.split() == [f"plain,{each}" for each in expected]


@pytest.mark.parametrize("name", ["conf", "submit", "doctor", "demo"])
def test_every_command_has_help_with_examples(spark_sched, name):
    result = spark_sched(name, "--help")
    assert result.exit_code == 0
    assert f"spark-sched {name}" in result.stdout.split("Examples:")[1]


def test_the_version_is_the_packages(spark_sched):
    assert spark_sched("--version").stdout.strip().endswith(__version__)


def test_conf_prints_properties_that_java_reads(spark_sched):
    result = spark_sched("conf", "--master", "local[2]", "--set", "spark.app.name=a = b\\c")
    assert result.exit_code == 0
    properties = parse_properties(result.stdout)
    assert properties["spark.master"] == "local[2]"
    assert properties["spark.plugins"] == "org.apache.spark.scheduler.sparksched.SchedPlugin"
    assert properties["spark.app.name"] == "a = b\\c"
    assert properties["spark.sched.planner.python"] == sys.executable


def test_conf_json_is_one_document(spark_sched):
    document = json.loads(spark_sched("conf", "--json").stdout)
    assert document["spark.master"] == "local[*]"


def test_conf_by_the_door_master_wraps_it(spark_sched):
    properties = parse_properties(spark_sched("conf", "--door", "master").stdout)
    assert properties["spark.master"] == "spark-sched:local[*]"
    assert "spark.plugins" not in properties


def test_conf_says_for_which_spark(spark_sched, tmp_path, monkeypatch):
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.13-4.0.1.jar").write_bytes(b"")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert f"# Compiled for Spark 4.0.1 at {tmp_path} (SPARK_HOME)." in spark_sched("conf").stdout


def test_conf_for_kubernetes_says_that_a_pod_has_other_paths(spark_sched):
    sentence = (
        "# Class path and Python are paths of this machine: a driver in a pod needs those of its image."
    )
    assert sentence in spark_sched("conf", "--master", "k8s://https://host:443").stdout.splitlines()
    assert sentence not in spark_sched("conf", "--master", "spark://host:7077").stdout


def test_conf_out_writes_the_file_and_nothing_else(spark_sched, tmp_path):
    target = tmp_path / "sched.conf"
    assert spark_sched("conf", "--out", str(target)).stdout == ""
    assert parse_properties(target.read_text())["spark.master"] == "local[*]"
    assert os.listdir(tmp_path) == ["sched.conf"]


def test_conf_class_path_prints_the_jar(spark_sched, tmp_path):
    assert spark_sched("conf", "--class-path").stdout == f"{tmp_path / 'bridge.jar'}\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        pytest.param(["conf", "--master", "locl[2]"], "did you mean 'local[2]'?", id="a wrong master"),
        pytest.param(["conf", "--set", "a"], "--set is 'a' but must be written as KEY=VALUE", id="no value"),
        pytest.param(
            ["conf", "--set", "spark.sched.sed=1"], "did you mean 'spark.sched.seed'?", id="a wrong key"
        ),
        pytest.param(["conf", "--set", "spark.sched.seed=x"], "must be a whole number", id="a wrong value"),
        pytest.param(
            ["conf", "--set", "spark.sched.planner.policy=fifoo"], "did you mean 'fifo'?", id="a wrong policy"
        ),
        pytest.param(["conf", "--out", "/nowhere/x.conf"], "cannot be written", id="no such folder"),
        pytest.param(["conf", "--master", "yarn", "--door", "master"], "the door 'plugin'", id="yarn's door"),
        pytest.param(["submit", "--door", "x", "spark-internal"], "must be one of plugin, master", id="door"),
        pytest.param(["conf", "--mastr", "x"], "No such option", id="a wrong option"),
        pytest.param(["--nonsense"], "No such option", id="a wrong option before the command"),
        pytest.param(["trace", "generate"], "needs a command: give one of e2e, ", id="a group alone"),
        pytest.param(["predict", "learn", "--history", "postgresql://h:p/d", "x"], "URL cannot", id="port"),
        pytest.param(
            ["mode", "localhost:1", "fast"], "is not one of 'on', 'shadow', 'off'", id="a wrong mode"
        ),
        pytest.param(["cnf"], "unknown command 'cnf' (did you mean 'conf'?)", id="a wrong command"),
        pytest.param(["submit"], "no application was given", id="nothing to submit"),
        pytest.param(
            ["submit", "--master", "yran", "spark-internal"], "did you mean 'yarn'?", id="submit: master"
        ),
        pytest.param(
            ["submit", "--conf", "spark.sched.x=1", "spark-internal"], "unknown setting", id="submit: key"
        ),
        pytest.param(["submit", "none.py"], "'none.py', which is not a file", id="submit: no such program"),
        pytest.param(["submit", "file:/none.jar"], "is not a file", id="submit: no such jar"),
        pytest.param(["submit", "--name", "n"], "no application was given", id="submit: options only"),
        pytest.param(["submit", "--conf"], "--conf has no value", id="submit: no value"),
        pytest.param(
            ["submit", "--properties-file", "none", "spark-internal"], "cannot be read", id="submit: no file"
        ),
        pytest.param(["submit", "--deploy-mode", "cluster", "a.py"], "use client", id="submit: cluster mode"),
        pytest.param(
            ["submit", "--conf", "spark.submit.deployMode=cluster", "spark-internal"],
            "spark.submit.deployMode is 'cluster', but the bridge is on this machine: use client",
            id="submit: cluster mode by property",
        ),
        pytest.param(["submit", "--kill", "driver-1"], "use spark-submit --kill", id="submit: no run"),
        pytest.param(["doctor", "--properties-file", "none"], "cannot be read", id="doctor: no file"),
    ],
)
def test_bad_input_is_one_sentence_on_standard_error_and_status_2(spark_sched, arguments, sentence):
    result = spark_sched(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert sentence in result.stderr


def test_policies_are_listed_for_use_and_on_request_for_comparison(spark_sched):
    from spark_sched.policies.registry import available, for_use

    plain = json.loads(spark_sched("policies", "--json").stdout)
    assert set(plain) == set(for_use())
    assert plain["reservation"]["marks"] == ["isolation", "priority"]
    every = json.loads(spark_sched("policies", "--all", "--json").stdout)
    assert set(every) == set(available())
    assert {name for name, each in every.items() if each["for"] == "comparison"} == {*available()} - {
        *for_use()
    }
    text = spark_sched("policies").stdout
    assert "  reservation " in text
    assert "3sigma-no-oe" not in text
    assert "3sigma-no-oe" in spark_sched("policies", "--all").stdout


def test_an_unknown_policy_is_refused_with_those_for_use_first(spark_sched):
    done = spark_sched("conf", "--set", "spark.sched.planner.policy=reservaton")
    assert done.exit_code == 2
    message = done.stderr
    assert "did you mean 'reservation'?" in message
    assert message.index("uwfq") < message.index("for comparison") < message.index("3sigma-gs")


def test_a_policy_that_cannot_be_loaded_hides_no_other(spark_sched, monkeypatch):
    from importlib.metadata import EntryPoint, EntryPoints

    from spark_sched.policies import registry

    broken = EntryPoint("broken", "no_such_module:Policy", registry.GROUP)
    monkeypatch.setattr(
        registry, "_registered", lambda name=None: EntryPoints([broken] if name in (None, "broken") else [])
    )
    listed = json.loads(spark_sched("policies", "--json").stdout)
    assert "cannot be loaded" in listed["broken"]["summary"]
    assert listed["reservation"]["marks"] == ["isolation", "priority"]
