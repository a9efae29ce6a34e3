"""Imports go downward only: what each part of each house may import, checked on the syntax tree.

    python tools/check_layers.py [CHECKOUT]

Lazy imports inside functions count as well: a layer that needs a higher one at run time is as wrong. Modules
must not import each other in a circle either; of this check only what runs at import counts. The packages of
the bridge's Scala have layers of their own (``scala_rooms``).
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import scala_rooms

#: The houses, each with the beginning of its parts' names below. The papers are one part.
HOUSES: Mapping[str, str] = {"spark_sched": "", "spark_sched_lab": "lab.", "benchmarks.papers": "papers"}

#: Folders that are one layer: the engine of the simulator calls the rules and places the tasks, and both read
#: the engine's records of jobs and stages.
ONE_LAYER: Mapping[str, str] = dict.fromkeys(("lab.cluster", "lab.enforce", "lab.engine"), "lab.simulator")

# Each part and the parts directly below it; it may import those and everything below them. No part of
# spark_sched has one of the lab below it, and no part of either has the papers.
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
    "lab.reports": ("files", "plain_text"),
    "lab.traces": ("protocol",),
    "lab.simulator": ("lab.traces", "policies"),
    "lab.evictions": ("lab.simulator",),
    "lab.energy": ("policies",),
    "lab.usage": ("lab.traces", "policies"),
    "lab.whatif": ("lab.simulator", "lab.usage"),
    "lab.sizing": ("lab.evictions", "lab.usage"),
    "lab.accuracy": ("history", "lab.traces", "policies"),
    "lab.runs": ("api", "lab.reports", "lab.whatif", "planner", "terminal"),
    "lab.cli": ("cli", "lab.accuracy", "lab.energy", "lab.runs", "lab.sizing"),
    "papers": ("lab.accuracy", "lab.energy", "lab.evictions", "lab.runs"),
}
# What the package itself exports lazily, and where that is.
EXPORTS = {"admission": "api", "conf": "attach", "explain": "api", "job": "api", "status": "api"}


def reachable(part: str, below: Mapping[str, tuple[str, ...]] = BELOW) -> set[str]:
    """Everything that ``part`` may import, itself included."""
    found = {part}
    for lower in below[part]:
        found |= reachable(lower, below)
    return found


def part_of(module: tuple[str, ...]) -> str | None:
    """The part that a module belongs to; None if it is in no house, or is a house's own ``__init__``.

    >>> part_of(("spark_sched", "state", "cluster")), part_of(("spark_sched_lab", "engine", "agenda"))
    ('state', 'lab.simulator')
    >>> part_of(("benchmarks", "papers", "slearn")), part_of(("numpy", "linalg"))
    ('papers', None)
    """
    for house, prefix in HOUSES.items():
        parts = tuple(house.split("."))
        if module[: len(parts)] != parts:
            continue
        if prefix and not prefix.endswith("."):
            return prefix
        inside = module[len(parts) : len(parts) + 1]
        if not inside or inside[0].startswith("__version") or inside[0] in ("", "__init__"):
            return None
        part = prefix + inside[0]
        return ONE_LAYER.get(part, part) if prefix else EXPORTS.get(part, part)
    return None


def imports(nodes: Iterable[ast.AST], module: tuple[str, ...]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Line and dotted name of everything that the nodes import; ``module`` is the importing one.

    >>> list(imports(ast.walk(ast.parse("from ..state import x")), ("spark_sched", "cli", "a")))
    [(1, ('spark_sched', 'state', 'x'))]
    """
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, tuple(alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            base = module[: len(module) - node.level] if node.level else ()
            base += tuple((node.module or "").split(".")) if node.module else ()
            for alias in node.names:
                yield node.lineno, (*base, alias.name)


def at_import(outer: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run when a module is imported, without functions and what is for type checkers."""
    for node in ast.iter_child_nodes(outer):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node
        yield from at_import(node)


def modules(root: Path, house: str) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """The files of a house, with their modules' names. A package's own ends in an empty name: for relative
    imports it is inside itself."""
    for path in sorted((root / house.replace(".", "/")).rglob("*.py")):
        name = path.relative_to(root).with_suffix("").parts
        yield path, name if name[-1] != "__init__" else (*name[:-1], "")


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def violations(root: Path, below: Mapping[str, tuple[str, ...]] = BELOW) -> list[str]:
    """One sentence per import that goes upward or sideways, or part that has no place yet."""
    found = []
    for house in HOUSES:
        for path, module in modules(root, house):
            part = part_of(module)
            if part is None:
                continue  # a house's own __init__ exports lazily what BELOW would have to allow everywhere
            where = path.relative_to(root)
            if part not in below:
                found.append(
                    f"{where}: {part!r} has no place among the layers: give it one in {Path(__file__).name}"
                )
                continue
            allowed = reachable(part, below)
            for line, name in imports(ast.walk(tree(path)), module):
                target = part_of(name)
                if target is not None and target not in allowed:
                    found.append(f"{where}:{line}: {part} imports {target}, which is not below it")
    return found


def circles(root: Path) -> list[str]:
    """One sentence for each set of modules that import each other in a circle while they are imported."""
    trees = {
        ".".join(module).removesuffix("."): (module, tree(path))
        for house in HOUSES
        for path, module in modules(root, house)
    }
    above: dict[str, set[str]] = {}
    for name, (module, found) in trees.items():
        targets = {".".join(target) for _, target in imports(at_import(found), module)}
        # An imported name is a module, or one of the module that it is imported from.
        above[name] = {target if target in trees else target.rpartition(".")[0] for target in targets}
        above[name] &= {*trees} - {name}
    order = TopologicalSorter(above)
    try:
        order.prepare()
    except CycleError as error:
        return [f"modules import each other in a circle: {' -> '.join(error.args[1])}"]
    return []


if __name__ == "__main__":
    _root = Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).parents[1]
    _found = violations(_root) + circles(_root) + [*scala_rooms.violations(_root)]
    print("\n".join(_found) or "layers: every import goes downward")
    raise SystemExit(1 if _found else 0)
