"""The properties that attach."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from spark_sched.bridge import attach
from spark_sched.errors import BadInputError

_JAR = Path("/somewhere/bridge.jar")


@pytest.fixture(autouse=True)
def _built(monkeypatch):
    monkeypatch.setattr(attach, "build", lambda spark_home: _JAR)


def test_master_class_path_python_and_package_are_all_it_takes():
    assert attach.conf("local[4]") == {
        "spark.master": "spark-sched:local[4]",
        "spark.driver.extraClassPath": str(_JAR),
        "spark.sched.planner.python": sys.executable,
        "spark.sched.planner.package": str(Path(attach.__file__).parents[1]),
    }


def test_an_own_class_path_is_kept_after_the_bridge():
    properties = attach.conf("local[4]", {"spark.driver.extraClassPath": "/mine.jar"})
    assert properties["spark.driver.extraClassPath"] == f"{_JAR}{os.pathsep}/mine.jar"


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
    assert attach.conf("local", {"spark.master": "spark-sched:local"})["spark.master"] == "spark-sched:local"
    with pytest.raises(
        BadInputError, match=r"spark.master is 'yarn' but the master is 'local': give only one of them"
    ):
        attach.conf("local", {"spark.master": "yarn"})
