"""Imports between the packages ("rooms") of the bridge's core go downward only, checked on the source's text.

``schedcore`` is plain Scala: it uses nothing of Spark. The root of ``schedcore`` has what all its rooms use.
The root of ``sparksched`` has the scheduler itself and the classes that Spark, users and Python call by name;
it may use every room, and every room may use it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import scala_classes

_SPARK = "org.apache.spark"
_SPARKSCHED = f"{_SPARK}.scheduler.sparksched"
_ROOTS = ("schedcore", _SPARKSCHED)
_CORE = Path("jvm-bridge", "core", "src", "main", "scala")

#: Each room and the rooms directly below it; it may import those and everything below them.
BELOW: Mapping[str, tuple[str, ...]] = {
    "schedcore": (),
    "schedcore.ledger": ("schedcore",),
    "schedcore.settings": ("schedcore.ledger",),
    "schedcore.marks": ("schedcore.settings",),
    "schedcore.events": ("schedcore.marks",),
    "schedcore.plan": ("schedcore.settings",),
    "schedcore.enforce": ("schedcore.plan",),
    "schedcore.status": ("schedcore.events", "schedcore.plan"),
    "schedcore.operators": ("schedcore.events", "schedcore.plan"),
    "sparksched.sql": ("schedcore.enforce", "schedcore.operators", "schedcore.status"),
    "sparksched.planner": ("schedcore.enforce", "schedcore.operators", "schedcore.status"),
    "sparksched.backend": ("schedcore.enforce", "schedcore.operators", "schedcore.status"),
    "sparksched.jobs": ("sparksched.planner", "sparksched.sql"),
    "sparksched.offers": ("sparksched.backend", "sparksched.jobs"),
    "sparksched.operators": ("sparksched.offers",),
}
_NAMES = re.compile(rf"(?<![\w.])(?:{'|'.join(map(re.escape, _ROOTS))})\.([a-z]\w*)")
_PACKAGE = re.compile(r"^package (?!object)([\w.]+)$", re.MULTILINE)


def reachable(room: str, below: Mapping[str, tuple[str, ...]]) -> set[str]:
    """Everything that ``room`` may import, itself included."""
    return {room}.union(*(reachable(lower, below) for lower in below[room]))


def violations(root: Path, below: Mapping[str, tuple[str, ...]] = BELOW) -> Iterator[str]:
    """One sentence per use that goes upward or sideways, or file whose package is not its folder."""
    core = root / _CORE
    for base in _ROOTS:
        short = base.rpartition(".")[2]
        for path in sorted(core.joinpath(*base.split(".")).rglob("*.scala")):
            where = path.relative_to(root)
            code = scala_classes.bare(path.read_text(encoding="utf-8"))
            package = ".".join(_PACKAGE.findall(code))
            if package != ".".join(path.parent.relative_to(core).parts):
                yield f"{where}: its package is {package}, which is not its folder"
                continue
            room = short + package.removeprefix(base)
            if room == "sparksched":
                continue
            if room not in below:
                yield f"{where}: {room} has no place among the rooms: give it one in {Path(__file__).name}"
                continue
            allowed = reachable(room, below)
            for number, line in enumerate(code.splitlines(), 1):
                used = {f"{m[0].rpartition('.')[0].rpartition('.')[2]}.{m[1]}" for m in _NAMES.finditer(line)}
                if line.startswith("package "):
                    continue
                if short == "schedcore" and f"{_SPARK}." in line:
                    yield f"{where}:{number}: schedcore uses Spark"
                for other in sorted(used & below.keys() - allowed):
                    yield f"{where}:{number}: {room} imports {other}, which is not below it"
