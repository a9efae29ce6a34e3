"""The check of sizes itself, and that this package passes it."""

from __future__ import annotations

from pathlib import Path

import check_sizes
import pytest


def _found(tmp_path: Path, source: str, **larger: str) -> list[str]:
    (tmp_path / "spark_sched").mkdir()
    (tmp_path / "spark_sched" / "a.py").write_text(source)
    return check_sizes.violations(tmp_path / "spark_sched", {f"a.py:{k}": why for k, why in larger.items()})


def _fields(count: int) -> str:
    return "class A:\n" + "".join(f"    f{n}: int\n" for n in range(count))


def test_everything_here_is_within_its_limit(root):
    assert check_sizes.violations(root / "spark_sched", check_sizes.LARGER) == []
    assert check_sizes.violations(root / "jvm-bridge", {}) == []
    assert all(check_sizes.LARGER.values())


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        pytest.param("x = 1\n" * 451, "451 lines", id="file"),
        pytest.param("def f():\n" + "    pass\n" * 70, "f has 71 lines", id="function"),
        pytest.param("async def f():\n" + "    pass\n" * 70, "f has 71 lines", id="coroutine"),
        pytest.param("class B:\n    def f(self):\n" + "        pass\n" * 70, "f has 71 lines", id="method"),
        pytest.param(_fields(16), "A has 16 attributes", id="fields"),
        pytest.param(
            _fields(14) + "    def f(self):\n        self.g, self.h = self.i = 1, 2\n",
            "A has 17 attributes",
            id="fields and what a method sets",
        ),
    ],
)
def test_what_is_too_large_is_named(tmp_path, source, sentence):
    (found,) = _found(tmp_path, source)
    assert found.startswith(f"spark_sched/a.py: {sentence}")


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("x = 1\n" * 450, id="file"),
        pytest.param("def f():\n" + "    pass\n" * 69, id="function"),
        pytest.param(_fields(15) + "    g: ClassVar[int] = 1\n", id="class variables are no attributes"),
        pytest.param(
            _fields(15) + "    def f(self):\n        self.f0 = self.g.h = 1\n", id="set by a method as well"
        ),
    ],
)
def test_what_is_within_the_limits_passes(tmp_path, source):
    assert _found(tmp_path, source) == []


def test_scala_files_have_the_same_limit(tmp_path):
    (tmp_path / "a.scala").write_text("class A\n" * 450)
    assert check_sizes.violations(tmp_path, {}) == []
    (tmp_path / "a.scala").write_text("class A\n" * 451)
    (found,) = check_sizes.violations(tmp_path, {})
    assert "a.scala: 451 lines" in found


def test_an_exception_holds_for_one_class_and_only_while_it_is_needed(tmp_path):
    assert _found(tmp_path, _fields(16), A="a reason") == []
    (tmp_path / "more").mkdir()
    (found,) = _found(tmp_path / "more", _fields(15), A="a reason")
    assert found == "a.py:A needs no exception in check_sizes.py"
