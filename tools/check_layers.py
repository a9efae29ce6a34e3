"""Imports go downward only: what each part of ``spark_sched`` may import, checked on the syntax tree.

    python tools/check_layers.py [PACKAGE-DIRECTORY]

Lazy imports inside functions count as well: a layer that needs a higher one at run time is as wrong.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

PACKAGE = "spark_sched"

# Each part and the parts directly below it; it may import those and everything below them.
BELOW: Mapping[str, tuple[str, ...]] = {
    "arrays": (),
    "compiled": (),
    "plain_text": (),
    "errors": ("plain_text",),
    "units": (),
    "files": ("errors",),
    "generated": ("files",),
    "isolated": (),
    "terminal": ("plain_text",),
    "config": ("arrays", "compiled", "errors", "generated", "units"),
    "protocol": ("config",),
    "state": ("protocol",),
    "predict": ("state",),
    "policies": ("isolated", "predict"),
    "history": ("predict",),
    "planner": ("history", "policies"),
    "attach": ("config",),
    "view": ("errors",),
    "api": ("attach", "view"),
    "cli": ("api", "planner", "terminal", "view"),
    "__main__": ("cli",),
}
# What the package itself exports lazily, and where that is.
EXPORTS = {"admission": "api", "conf": "attach", "explain": "api", "job": "api", "status": "api"}


def reachable(part: str, below: Mapping[str, tuple[str, ...]] = BELOW) -> set[str]:
    """Everything that ``part`` may import, itself included."""
    found = {part}
    for lower in below[part]:
        found |= reachable(lower, below)
    return found


def imported_parts(tree: ast.Module, module: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """Line and part of every import of our package; ``module`` is the dotted name of the importing one.

    >>> list(imported_parts(ast.parse("from spark_sched.state import x"), ("spark_sched", "cli")))
    [(1, 'state')]
    """
    for node in ast.walk(tree):
        names: list[tuple[str, ...]] = []
        if isinstance(node, ast.Import):
            names = [tuple(alias.name.split(".")) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = module[: len(module) - node.level] if node.level else ()
            base += tuple((node.module or "").split(".")) if node.module else ()
            names = [(*base, alias.name) for alias in node.names]
        for name in names:
            if name[0] == PACKAGE and len(name) > 1 and not name[1].startswith("__version"):
                yield node.lineno, EXPORTS.get(name[1], name[1])


def violations(package: Path, below: Mapping[str, tuple[str, ...]] = BELOW) -> list[str]:
    """One sentence per import that goes upward or sideways, or part that has no place yet."""
    found = []
    for path in sorted(package.rglob("*.py")):
        inside = path.relative_to(package).with_suffix("").parts
        part = inside[0]
        if part == "__init__":
            continue  # exports lazily what BELOW would otherwise have to allow everywhere
        where = path.relative_to(package.parent)
        if part not in below:
            found.append(
                f"{where}: {part!r} has no place among the layers: give it one in {Path(__file__).name}"
            )
            continue
        # A package's own __init__ is the package as far as relative imports are concerned.
        module = (PACKAGE, *inside) if inside[-1] != "__init__" else (PACKAGE, *inside[:-1], "")
        allowed = reachable(part, below)
        for line, target in imported_parts(ast.parse(path.read_text(encoding="utf-8")), module):
            if target not in allowed:
                found.append(f"{where}:{line}: {part} imports {target}, which is not below it")
    return found


if __name__ == "__main__":
    _found = violations(Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).parents[1] / PACKAGE)
    print("\n".join(_found) or "layers: every import goes downward")
    raise SystemExit(1 if _found else 0)
