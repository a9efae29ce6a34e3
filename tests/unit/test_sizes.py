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
    for house in check_sizes.HOUSES:
        assert check_sizes.violations(root / house, check_sizes.larger_in(house)) == []
    assert check_sizes.violations(root / "jvm-bridge", check_sizes.larger_in("jvm-bridge")) == []
    assert all(check_sizes.LARGER.values())


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        pytest.param(
            "x = 1\n" * (check_sizes.MOST_LINES + 1), f"{check_sizes.MOST_LINES + 1} lines", id="file"
        ),
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
        pytest.param("x = 1\n" * check_sizes.MOST_LINES, id="file"),
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
    (tmp_path / "a.scala").write_text("class A\n" * check_sizes.MOST_LINES)
    assert check_sizes.violations(tmp_path, {}) == []
    (tmp_path / "a.scala").write_text("class A\n" * (check_sizes.MOST_LINES + 1))
    (found,) = check_sizes.violations(tmp_path, {})
    assert f"a.scala: {check_sizes.MOST_LINES + 1} lines" in found


def _parameters(count: int, keyword: str = "") -> str:
    """A constructor's list, each parameter on a line of its own."""
    return ",\n".join(f"    {keyword}p{n}: Map[Int, Seq[(Int, Int)]] = Map(1 -> Nil)" for n in range(count))


def _vals(count: int) -> str:
    return "".join(f"  private val v{n} = f(() => {n})\n" for n in range(count))


@pytest.mark.parametrize(
    ("source", "count"),
    [
        pytest.param(f"final case class A(\n{_parameters(16)})\n", 16, id="fields of a case class"),
        pytest.param(f"class A private[b] (\n{_parameters(16, 'val ')})\n", 16, id="vals of a constructor"),
        pytest.param(f"class A[B, C](\n{_parameters(16, 'private var ')})(d: Int)\n", 16, id="vars of one"),
        pytest.param(
            f"class A(n: Int)\n    extends B(n, {{ 1 }})\n    with C {{\n{_vals(16)}}}\n", 16, id="body"
        ),
        pytest.param(f"trait A {{\n{_vals(16)}}}\n", 16, id="trait"),
        pytest.param(f"case class A(\n{_parameters(9)}) {{\n{_vals(7)}}}\n", 16, id="fields and body"),
        pytest.param(
            f"class A {{\n{_vals(14)}  var (a, b) = (1, 2)\n  @volatile var c = 1\n}}\n", 17, id="a pattern"
        ),
        pytest.param(f"class A {{\n{_vals(15)}  lazy val a: Int = 1\n}}\n", 16, id="lazy"),
        pytest.param(f'class A {{\n  // " {{\n  /* /* {{ */ */\n{_vals(16)}}}\n', 16, id="comments"),
        pytest.param(
            f"""class A {{\n  val a = s"{{ ${{f("}}")}} \\" {{"\n  val b = '"'\n{_vals(14)}}}\n""",
            16,
            id="strings",
        ),
        pytest.param(f"object A {{\n  class B {{\n{_vals(16)}  }}\n}}\n", 16, id="a class within an object"),
    ],
)
def test_a_scala_class_that_is_too_large_is_named(tmp_path, source, count):
    (tmp_path / "a.scala").write_text(source)
    (found,) = check_sizes.violations(tmp_path, {})
    assert f" has {count} attributes" in found


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(f"case class A(\n{_parameters(15)})\n", id="fields"),
        pytest.param(f"class A(\n{_parameters(20)}) {{\n{_vals(15)}}}\n", id="parameters without val"),
        pytest.param(f"class A(val a: Int)\nobject A {{\n{_vals(20)}}}\n", id="constants of an object"),
        pytest.param(f"class A {{\n{_vals(15)}  def f = {{\n{_vals(5)}  }}\n}}\n", id="values in a method"),
        pytest.param(f"class A {{\n{_vals(15)}  // val a = 1\n}}\n", id="comment"),
        pytest.param(f"class A {{\n{_vals(9)}}}\nclass B {{\n{_vals(9)}}}\n", id="two classes"),
        pytest.param(
            f"case class A(\n{_parameters(9)})(\n{_parameters(9)})\n", id="fields are of the first list"
        ),
    ],
)
def test_a_scala_class_within_the_limit_passes(tmp_path, source):
    (tmp_path / "a.scala").write_text(source)
    assert check_sizes.violations(tmp_path, {}) == []


def test_an_exception_holds_for_one_class_and_only_while_it_is_needed(tmp_path):
    assert _found(tmp_path, _fields(16), A="a reason") == []
    (tmp_path / "more").mkdir()
    (found,) = _found(tmp_path / "more", _fields(15), A="a reason")
    assert found == "a.py:A needs no exception in check_sizes.py"
