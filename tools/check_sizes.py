"""Files, functions and classes stay small enough to read in one sitting, checked on the syntax tree.

    python tools/check_sizes.py

A Python class's attributes are its annotated fields and what its methods assign to ``self``; a Scala class's
are described in ``scala_classes``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import scala_classes

HOUSES = ("spark_sched", "spark_sched_lab", "benchmarks/papers")
MOST_LINES = 500
MOST_FUNCTION_LINES = 70
MOST_ATTRIBUTES = 15

#: Classes that may have more attributes, each with the reason.
LARGER: Mapping[str, str] = {
    "jvm-bridge/core/src/main/scala/schedcore/ledger/LedgerHoldings.scala:LedgerHoldings": (
        "the books, their indexes, and the answers that stand until one of them changes"
    ),
    "jvm-bridge/core/src/main/scala/schedcore/ledger/LedgerState.scala:LedgerJob": (
        "the record of a job: its fields are what its decisions depend on"
    ),
    "spark_sched_lab/traces/jobs.py:JobRecord": "a row of the jobs table: its fields are the columns",
    "spark_sched_lab/traces/jobs.py:StageRecord": "a row of the stages table: its fields are the columns",
    "spark_sched_lab/engine/workload.py:JobSpec": "users write it by hand, and leave out most of its fields",
    "spark_sched_lab/engine/workload.py:StageSpec": (
        "users write it by hand, and leave out most of its fields"
    ),
    "spark_sched/view/status.py:JobStatus": "a job of the status document: its fields are the document's",
    "spark_sched/policies/three_sigma/problem.py:Problem": (
        "its arrays go to compiled code, which takes no objects"
    ),
}


def attributes(kind: ast.ClassDef) -> set[str]:
    """The names of a class's attributes; class variables are none.

    >>> sorted(attributes(ast.parse("class A:\\n a: int\\n def f(self): self.b, self.c[0] = 1, 2").body[0]))
    ['a', 'b']
    """
    found = set()
    for part in kind.body:
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
            if "ClassVar" not in ast.unparse(part.annotation):
                found.add(part.target.id)
        elif isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(part):
                if (
                    isinstance(node, ast.Attribute)
                    and isinstance(node.ctx, ast.Store)
                    and isinstance(node.value, ast.Name)
                    and node.value.id == "self"
                ):
                    found.add(node.attr)
    return found


def _too_long(text: str) -> Iterator[str]:
    lines = text.count("\n")
    if lines > MOST_LINES:
        yield f"{lines} lines, and {MOST_LINES} are the most: two ideas are two files"


def _long_functions(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > MOST_FUNCTION_LINES:
                yield f"{node.name} has {length} lines, and {MOST_FUNCTION_LINES} are the most"


def _large_classes(tree: ast.Module) -> dict[str, int]:
    """How many attributes those have that have too many, by name."""
    counts = {node.name: len(attributes(node)) for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    return _too_many(counts)


def _too_many(counts: Mapping[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count > MOST_ATTRIBUTES}


def larger_in(house: str) -> dict[str, str]:
    """The exceptions of one house, by their paths in it."""
    return {
        name.removeprefix(f"{house}/"): why for name, why in LARGER.items() if name.startswith(f"{house}/")
    }


def violations(folder: Path, larger: Mapping[str, str]) -> list[str]:
    """One sentence for each file, function and class that is too large, and for each needless exception.

    Of Scala the length of methods is not checked.
    """
    found = []
    unneeded = {*larger}
    for path in sorted([*folder.rglob("*.py"), *folder.rglob("*.scala")]):
        where = path.relative_to(folder).as_posix()
        text = path.read_text(encoding="utf-8")
        sentences = [*_too_long(text)]
        if path.suffix == ".py":
            tree = ast.parse(text)
            sentences += _long_functions(tree)
            large = _large_classes(tree)
        else:
            large = _too_many(scala_classes.attributes(text))
        unneeded -= {f"{where}:{name}" for name in large}
        sentences += [
            f"{name} has {count} attributes, and {MOST_ATTRIBUTES} are the most"
            for name, count in large.items()
            if f"{where}:{name}" not in larger
        ]
        found += [f"{folder.name}/{where}: {what}" for what in sentences]
    return found + [f"{name} needs no exception in {Path(__file__).name}" for name in sorted(unneeded)]


if __name__ == "__main__":
    _root = Path(__file__).parents[1]
    _found = [each for house in HOUSES for each in violations(_root / house, larger_in(house))]
    _found += violations(_root / "jvm-bridge", larger_in("jvm-bridge"))
    print("\n".join(_found) or "sizes: every file, function and class is within its limit")
    raise SystemExit(1 if _found else 0)
