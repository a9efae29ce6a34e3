"""What `spark-sched submit` makes of spark-submit's arguments."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from spark_sched.attach.properties import PLUGIN
from spark_sched.attach.spark import SparkInstall
from spark_sched.cli import submit
from spark_sched.config import parse_properties
from spark_sched.errors import BadInputError

_REPORT = """#!{python}
import os, sys
properties = sys.argv[sys.argv.index("--properties-file") + 1]
with open({log!r}, "w") as log:
    print(properties, oct(os.stat(properties).st_mode & 0o777), os.environ.get("PYSPARK_PYTHON"), file=log)
    print("\\0".join(sys.argv[1:]), file=log)
    print(open(properties).read(), file=log)
{then}
"""


@pytest.fixture
def spark(tmp_path, monkeypatch):
    """A Spark home whose spark-submit writes down how it was called."""
    home = tmp_path / "spark"
    (home / "bin").mkdir(parents=True)
    (home / "conf").mkdir()
    monkeypatch.setattr("spark_sched.attach.properties.build", lambda spark_home=None: Path("/bridge.jar"))
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    return SparkInstall(home, "4.3.0", "4.3", "2.13")


def _install(spark, then: str = "") -> Path:
    log = spark.home / "log"
    script = spark.home / "bin" / "spark-submit"
    script.write_text(_REPORT.format(python=sys.executable, log=str(log), then=then))
    script.chmod(0o755)
    return log


def _properties(spark, *arguments: str) -> dict[str, str]:
    return submit.merged_properties(submit.split_arguments(arguments), spark)


def test_the_applications_own_arguments_are_left_alone():
    split = submit.split_arguments(["--name", "n", "-v", "app.py", "--master", "x", "--conf", "nonsense"])
    assert split.rest == ["--name", "n", "-v", "app.py", "--master", "x", "--conf", "nonsense"]
    assert split.master is None


@pytest.mark.parametrize("name", ["with%20space.py", "with space.py", "of.R"])
def test_a_program_that_is_there_is_taken_by_its_path_and_by_its_address(tmp_path, name):
    program = tmp_path / name
    program.write_text("")
    submit.check_application(str(program))
    submit.check_application(program.as_uri())


@pytest.mark.parametrize(
    "elsewhere", ["spark-internal", "hdfs://h/app.py", "local:/app.jar", "pyspark-shell"]
)
def test_what_is_not_a_file_of_this_machine_is_left_to_spark_submit(elsewhere):
    submit.check_application(elsewhere)


@pytest.mark.parametrize("written", [["--master", "local[2]"], ["--master=local[2]"]], ids=" ".join)
def test_the_master_is_taken_and_attached_by_either_door(spark, written):
    properties = _properties(spark, *written, "app.py")
    assert properties["spark.master"] == "local[2]"
    assert properties["spark.plugins"] == PLUGIN
    by_master = _properties(spark, "--door", "master", *written, "app.py")
    assert by_master["spark.master"] == "spark-sched:local[2]"
    assert "spark.plugins" not in by_master


def test_without_a_master_all_cores_of_this_machine_are_used(spark):
    assert _properties(spark, "app.py")["spark.master"] == "local[*]"


def test_options_win_over_the_file_and_the_file_over_the_defaults(spark, tmp_path):
    (spark.home / "conf" / "spark-defaults.conf").write_text("spark.a 1\nspark.b 1\nspark.c 1\n")
    given = tmp_path / "mine.conf"
    given.write_text("spark.b 2\nspark.c 2\nspark.master local[3]\n")
    file_option = ["--properties-file", str(given)]
    properties = _properties(spark, *file_option, "--load-spark-defaults", "-c", "spark.c=3", "app.py")
    assert [properties[f"spark.{name}"] for name in "abc"] == ["1", "2", "3"]
    assert properties["spark.master"] == "local[3]"
    # As with spark-submit, a file of one's own replaces the defaults unless both are asked for.
    assert "spark.a" not in _properties(spark, *file_option, "app.py")
    assert _properties(spark, "app.py")["spark.a"] == "1"


def test_own_class_paths_are_kept_after_the_bridge(spark):
    for own in (["--driver-class-path", "/x.jar"], ["--conf", "spark.driver.extraClassPath=/x.jar"]):
        properties = _properties(spark, *own, "app.py")
        assert properties["spark.driver.extraClassPath"] == f"/bridge.jar{os.pathsep}/x.jar"


def test_own_plugins_are_kept_before_ours(spark):
    properties = _properties(spark, "--conf", "spark.plugins=a.B", "app.py")
    assert properties["spark.plugins"] == f"a.B,{PLUGIN}"


def test_spark_submit_gets_a_private_file_that_is_gone_afterwards(spark):
    log = _install(spark, "sys.exit(7)")
    status = submit.run_spark_submit(_properties(spark, "app.py"), ["app.py", "a b"], spark)
    assert status == 7
    head, call, *content = log.read_text().split("\n")
    path, mode, python = head.split()
    assert not Path(path).exists()
    assert mode == "0o600"
    assert python == sys.executable
    assert call.split("\0") == ["--properties-file", path, "app.py", "a b"]
    assert parse_properties("\n".join(content))["spark.master"] == "local[*]"


def test_executors_elsewhere_keep_their_own_python(spark):
    log = _install(spark)
    submit.run_spark_submit(_properties(spark, "--master", "spark://h:7077", "app.py"), ["app.py"], spark)
    assert log.read_text().split("\n")[0].endswith(" None")


def test_a_run_that_a_signal_ended_says_so_in_its_status(spark):
    log = _install(spark, "os.kill(os.getpid(), 9)")
    properties = _properties(spark, "app.py")
    assert submit.run_spark_submit(properties, ["app.py"], spark) == 128 + signal.SIGKILL
    assert not Path(log.read_text().split()[0]).exists()


def test_a_signal_to_the_command_reaches_spark_submit(spark, tmp_path, monkeypatch):
    listens = tmp_path / "listens"

    class Child(subprocess.Popen):
        """The command that started it waits for its end once it has installed its handlers."""

        def wait(self, timeout=None):
            listens.touch()
            return super().wait(timeout)

    monkeypatch.setattr(subprocess, "Popen", Child)
    gate = f"import signal, time\nwhile not os.path.exists({str(listens)!r}): time.sleep(0.01)\n"
    log = _install(spark, f"{gate}os.kill(os.getppid(), signal.SIGTERM); time.sleep(600)")
    properties = _properties(spark, "app.py")
    assert submit.run_spark_submit(properties, ["app.py"], spark) == 128 + signal.SIGTERM
    assert not Path(log.read_text().split()[0]).exists()


@pytest.mark.parametrize("through", ["option", "file", "defaults"])
@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        (
            "planner.policy",
            "resrvation",
            r"planner.policy is 'resrvation' but must be one of .*'reservation'",
        ),
        ("planner.solver", "price", r"planner.solver is 'price' \(did you mean 'prices'\?\)"),
        ("policy.3sigma.firstStep", "5h", "3sigma.window is 14400000 ms but must be at least 18000000 ms"),
        ("policy.slearn.firstQueue", "0s", "slearn.firstQueue is '0s' but must be a time .* at least 1ms"),
        ("history.path", "mysql://h/d", "the history's URL begins with mysql://"),
    ],
)
def test_what_the_planner_would_refuse_is_refused_here(spark, tmp_path, name, value, words, through):
    line = f"spark.sched.{name} {value}\n"
    given = tmp_path / "mine.conf"
    given.write_text(line if through == "file" else "")
    options = {"option": ["--conf", f"spark.sched.{name}={value}"], "file": ["--properties-file", str(given)]}
    if through == "defaults":
        (spark.home / "conf" / "spark-defaults.conf").write_text(line)
    with pytest.raises(BadInputError, match=words):
        _properties(spark, *options.get(through, []), "app.py")
