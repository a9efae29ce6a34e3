"""Files, functions and classes stay small enough to read in one sitting, checked on the syntax tree.

    python tools/check_sizes.py [PACKAGE-DIRECTORY]

A class's attributes are its annotated fields and what its methods assign to ``self``.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

MOST_LINES = 450
MOST_FUNCTION_LINES = 70
MOST_ATTRIBUTES = 15

#: Classes that may have more attributes, each with the reason.
LARGER: Mapping[str, str] = {
    "traces/jobs.py:JobRecord": "a row of the jobs table: its fields are the columns",
    "traces/jobs.py:StageRecord": "a row of the stages table: its fields are the columns",
    "policies/three_sigma/problem.py:Problem": "its arrays go to compiled code, which takes no objects",
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


def _in_file(text: str, larger: Mapping[str, str], where: str) -> Iterator[str]:
    """Sentences about one file; ``where`` is its path as ``larger`` has it."""
    lines = text.count("\n")
    if lines > MOST_LINES:
        yield f"{lines} lines, and {MOST_LINES} are the most: two ideas are two files"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > MOST_FUNCTION_LINES:
                yield f"{node.name} has {length} lines, and {MOST_FUNCTION_LINES} are the most"
        elif isinstance(node, ast.ClassDef):
            many = len(attributes(node))
            if many > MOST_ATTRIBUTES and f"{where}:{node.name}" not in larger:
                yield f"{node.name} has {many} attributes, and {MOST_ATTRIBUTES} are the most"


def violations(package: Path, larger: Mapping[str, str] = LARGER) -> list[str]:
    """One sentence for each file, function and class that is too large, and for each needless exception."""
    found = []
    needed = set()
    for path in sorted(package.rglob("*.py")):
        where = path.relative_to(package).as_posix()
        text = path.read_text(encoding="utf-8")
        found += [f"{package.name}/{where}: {what}" for what in _in_file(text, larger, where)]
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef) and len(attributes(node)) > MOST_ATTRIBUTES:
                needed.add(f"{where}:{node.name}")
    found += [f"{name} needs no exception in {Path(__file__).name}" for name in sorted({*larger} - needed)]
    return found


if __name__ == "__main__":
    _found = violations(Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).parents[1] / "spark_sched")
    print("\n".join(_found) or "sizes: every file, function and class is within its limit")
    raise SystemExit(1 if _found else 0)
