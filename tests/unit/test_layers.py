"""The layer check itself, and that the houses pass it."""

from __future__ import annotations

from pathlib import Path

import check_layers
import pytest
import scala_rooms

_BELOW = {"errors": (), "state": ("errors",), "policies": ("state",)}


def _checkout(tmp_path: Path, name: str, source: str, house: str = "spark_sched") -> Path:
    path = tmp_path / house / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source)
    return tmp_path


def test_every_import_of_the_houses_goes_downward(root):
    assert check_layers.violations(root) == []


def test_no_modules_import_each_other_in_a_circle(root):
    assert check_layers.circles(root) == []


def test_the_houses_stand_one_above_the_other():
    for part in check_layers.BELOW:
        reached = check_layers.reachable(part)
        if part != "papers":
            assert "papers" not in reached
        if not part.startswith(("lab.", "papers")):
            assert [lower for lower in reached if lower.startswith("lab.")] == []


def test_no_layer_is_below_itself():
    for part in check_layers.BELOW:
        for lower in check_layers.BELOW[part]:
            assert part not in check_layers.reachable(lower)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("import spark_sched.policies", id="import"),
        pytest.param("from spark_sched.policies import x", id="from a package"),
        pytest.param("from spark_sched import policies", id="from the root"),
        pytest.param("from ..policies.deep import x", id="relative"),
        pytest.param("def f():\n    from spark_sched.policies.deep import x", id="inside a function"),
        pytest.param(
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import spark_sched.policies", id="types"
        ),
    ],
)
def test_an_import_that_goes_upward_is_found(tmp_path, source):
    (found,) = check_layers.violations(_checkout(tmp_path, "state/a.py", source), _BELOW)
    assert "state imports policies, which is not below it" in found


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("from spark_sched.errors import x", id="below"),
        pytest.param("from . import b", id="a sibling"),
        pytest.param("from ..errors import x", id="below, relative"),
        pytest.param("from spark_sched import __version__", id="the version"),
        pytest.param("import numpy\nfrom os import path", id="other packages"),
    ],
)
def test_imports_that_stay_or_go_downward_pass(tmp_path, source):
    assert check_layers.violations(_checkout(tmp_path, "state/a.py", source), _BELOW) == []
    assert check_layers.violations(_checkout(tmp_path, "state/__init__.py", source), _BELOW) == []


def test_a_new_part_must_be_given_a_place(tmp_path):
    (found,) = check_layers.violations(_checkout(tmp_path, "novel/a.py", ""), _BELOW)
    assert "'novel' has no place among the layers" in found


@pytest.mark.parametrize(
    ("house", "source", "upward"),
    [
        pytest.param("spark_sched", "import spark_sched_lab.engine.run", True, id="the lab beside a driver"),
        pytest.param("spark_sched", "def f():\n    from benchmarks.papers import x", True, id="the papers"),
        pytest.param("spark_sched_lab", "from benchmarks.papers import x", True, id="the papers in the lab"),
        pytest.param(
            "spark_sched_lab", "from spark_sched.policies import x", False, id="policies in the lab"
        ),
        pytest.param(
            "benchmarks/papers", "from spark_sched_lab.runs import x", False, id="the lab in a paper"
        ),
    ],
)
def test_houses_import_from_the_houses_below_only(tmp_path, house, source, upward):
    folder = "slearn" if house.endswith("papers") else "state" if house == "spark_sched" else "runs"
    found = check_layers.violations(_checkout(tmp_path, f"{folder}/a.py", source, house))
    assert ["which is not below it" in each for each in found] == [True] * upward


@pytest.mark.parametrize(
    ("source", "circle"),
    [
        pytest.param("from spark_sched.state.a import x", True, id="when imported"),
        pytest.param("def f():\n    from spark_sched.state.a import x", False, id="when called"),
        pytest.param(
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import spark_sched.state.a",
            False,
            id="types",
        ),
    ],
)
def test_modules_that_import_each_other_are_named(tmp_path, source, circle):
    _checkout(tmp_path, "state/a.py", "from spark_sched.state import b")
    _checkout(tmp_path, "state/b.py", source)
    found = check_layers.circles(tmp_path)
    assert len(found) == circle
    assert all("spark_sched.state.a" in each and "spark_sched.state.b" in each for each in found)


_ROOMS = {"schedcore": (), "schedcore.low": ("schedcore",), "schedcore.high": ("schedcore.low",)}
_CORE = "jvm-bridge/core/src/main/scala/schedcore"


def test_every_import_between_rooms_of_the_bridge_goes_downward(root):
    assert [*scala_rooms.violations(root)] == []


@pytest.mark.parametrize(
    ("room", "source", "fault"),
    [
        pytest.param("low", "import schedcore.high.X", "schedcore.low imports schedcore.high", id="upward"),
        pytest.param("low", "object A { schedcore.high.X }", "schedcore.low imports", id="without an import"),
        pytest.param("low", "import org.apache.spark.SparkConf", "schedcore uses Spark", id="Spark"),
        pytest.param("novel", "", "schedcore.novel has no place among the rooms", id="no place"),
        pytest.param("high", "import schedcore.low.X", None, id="downward"),
        pytest.param("low", "// as schedcore.high.X does", None, id="in a comment"),
    ],
)
def test_uses_of_rooms_that_are_not_below_are_found(tmp_path, room, source, fault):
    _checkout(tmp_path, f"{room}/A.scala", f"package schedcore\npackage {room}\n\n{source}\n", _CORE)
    found = [*scala_rooms.violations(tmp_path, _ROOMS)]
    assert [fault in each for each in found] == [True] * (fault is not None)


def test_a_package_that_is_not_its_folder_is_found(tmp_path):
    _checkout(tmp_path, "low/A.scala", "package schedcore\npackage high\n", _CORE)
    (found,) = scala_rooms.violations(tmp_path, _ROOMS)
    assert "its package is schedcore.high, which is not its folder" in found
