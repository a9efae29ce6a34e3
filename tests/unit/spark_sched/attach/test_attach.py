"""The properties that attach."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from spark_sched.attach import find_spark
from spark_sched.attach import properties as attach
from spark_sched.attach.spark import pyspark_version
from spark_sched.errors import BadInputError

_JAR = Path("/somewhere/bridge.jar")
_PLUGIN = "org.apache.spark.scheduler.sparksched.SchedPlugin"


@pytest.fixture(autouse=True)
def conf_dir(monkeypatch, tmp_path):
    """An empty SPARK_CONF_DIR, and a bridge that is there."""
    monkeypatch.setattr(attach, "build", lambda spark_home: _JAR)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    return tmp_path


def _spark_home(folder: Path, version: str) -> Path:
    (folder / "jars").mkdir(parents=True)
    (folder / "jars" / f"spark-core_2.13-{version}.jar").write_bytes(b"")
    return folder


def test_plugin_class_path_python_and_package_are_all_it_takes():
    assert attach.conf("local[4]") == {
        "spark.master": "local[4]",
        "spark.plugins": _PLUGIN,
        "spark.driver.extraClassPath": str(_JAR),
        "spark.sched.planner.python": sys.executable,
        "spark.sched.planner.package": str(Path(attach.__file__).parents[1]),
    }


def test_the_door_master_wraps_the_master_and_needs_no_plugin():
    properties = attach.conf("local[4]", door="master")
    assert properties["spark.master"] == "spark-sched:local[4]"
    assert "spark.plugins" not in properties


def test_a_wrong_door_is_refused():
    with pytest.raises(BadInputError, match="door is 'plug' but must be one of 'plugin' or 'master'"):
        attach.conf("local[4]", door="plug")


@pytest.mark.parametrize("master", ["yarn", "k8s://https://host:443"])
def test_the_door_master_is_refused_where_spark_submit_prepares_the_master(master):
    assert attach.conf(master)["spark.master"] == master
    with pytest.raises(BadInputError, match="door is 'master' but the master is .* use the door 'plugin'"):
        attach.conf(master, door="master")


@pytest.mark.parametrize(
    ("own", "door", "result"),
    [
        ("a.B", "plugin", f"a.B,{_PLUGIN}"),
        (" a.B , c.D ", "plugin", f"a.B,c.D,{_PLUGIN}"),
        (f"{_PLUGIN},a.B", "plugin", f"a.B,{_PLUGIN}"),
        ("", "plugin", _PLUGIN),
        (f"a.B,{_PLUGIN}", "master", "a.B"),
    ],
)
def test_own_plugins_are_kept_and_started_before_ours(own, door, result):
    assert attach.conf("local[4]", {"spark.plugins": own}, door=door)["spark.plugins"] == result


def test_an_own_class_path_is_kept_after_the_bridge():
    properties = attach.conf("local[4]", {"spark.driver.extraClassPath": "/mine.jar"})
    assert properties["spark.driver.extraClassPath"] == f"{_JAR}{os.pathsep}/mine.jar"


def test_plugins_and_class_path_of_the_defaults_are_not_replaced(conf_dir):
    defaults = "spark.plugins a.B\nspark.driver.extraClassPath /mine.jar\nspark.app.name x\n"
    (conf_dir / "spark-defaults.conf").write_text(defaults)
    properties = attach.conf("local[4]")
    assert properties["spark.plugins"] == f"a.B,{_PLUGIN}"
    assert properties["spark.driver.extraClassPath"] == f"{_JAR}{os.pathsep}/mine.jar"
    assert "spark.app.name" not in properties
    assert attach.conf("local", {"spark.plugins": "c.D"})["spark.plugins"] == f"c.D,{_PLUGIN}"


def test_defaults_that_attach_already_are_not_doubled(conf_dir):
    lines = (f"{name} {value}\n" for name, value in attach.conf("local[4]").items())
    (conf_dir / "spark-defaults.conf").write_text("".join(lines))
    properties = attach.conf("local[4]")
    assert properties["spark.plugins"] == _PLUGIN
    assert properties["spark.driver.extraClassPath"] == str(_JAR)


def test_own_values_win_and_are_written_as_spark_reads_them():
    properties = attach.conf(
        "yarn",
        {"spark.sched.planner.python": "/py", "spark.sched.copies.enabled": False, "spark.sched.seed": 3},
    )
    assert properties["spark.sched.planner.python"] == "/py"
    assert properties["spark.sched.copies.enabled"] == "false"
    assert properties["spark.sched.seed"] == "3"


def test_a_wrong_override_is_refused_before_anything_is_built(monkeypatch):
    monkeypatch.setattr(attach, "build", lambda spark_home: pytest.fail("built"))
    with pytest.raises(BadInputError, match="spark.sched.seed is '-1'"):
        attach.conf("local", {"spark.sched.seed": -1})


def test_two_masters_are_refused_and_one_said_twice_is_fine():
    assert attach.conf("local", {"spark.master": "spark-sched:local"})["spark.master"] == "local"
    with pytest.raises(
        BadInputError, match=r"spark.master is 'yarn' but the master is 'local': give only one of them"
    ):
        attach.conf("local", {"spark.master": "yarn"})


def test_a_spark_home_of_another_version_than_pyspark_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("SPARK_HOME", str(_spark_home(tmp_path / "old", "4.0.1")))
    with pytest.raises(
        BadInputError, match=r"SPARK_HOME is '.*old', which is Spark 4.0.1, but pyspark of this"
    ):
        attach.conf("local")
    same = find_spark(_spark_home(tmp_path / "same", pyspark_version()))
    monkeypatch.setenv("SPARK_HOME", str(same.home))
    assert attach.conf("local")["spark.plugins"] == _PLUGIN


def test_the_version_of_pyspark_is_read_without_importing_it(monkeypatch):
    import pyspark

    monkeypatch.delitem(sys.modules, "pyspark")
    assert pyspark_version() == pyspark.__version__
    assert "pyspark" not in sys.modules
