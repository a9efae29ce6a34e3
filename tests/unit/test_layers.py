"""The layer check itself, and that this package passes it."""

from __future__ import annotations

from pathlib import Path

import check_layers
import pytest

_BELOW = {"errors": (), "state": ("errors",), "policies": ("state",)}


def _package(tmp_path: Path, name: str, source: str) -> Path:
    path = tmp_path / "spark_sched" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source)
    return tmp_path / "spark_sched"


def test_every_import_of_this_package_goes_downward(root):
    assert check_layers.violations(root / "spark_sched") == []


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
    (found,) = check_layers.violations(_package(tmp_path, "state/a.py", source), _BELOW)
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
    assert check_layers.violations(_package(tmp_path, "state/a.py", source), _BELOW) == []
    assert check_layers.violations(_package(tmp_path, "state/__init__.py", source), _BELOW) == []


def test_a_new_part_must_be_given_a_place(tmp_path):
    (found,) = check_layers.violations(_package(tmp_path, "novel/a.py", ""), _BELOW)
    assert "'novel' has no place among the layers" in found
