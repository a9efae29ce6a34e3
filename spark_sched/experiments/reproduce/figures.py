"""The parts of a reproduction: runs, figures, papers, and the JSON document of their results."""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = [
    "Chart",
    "Figure",
    "FigureSpec",
    "Paper",
    "Results",
    "RunSpec",
    "Scale",
    "Value",
    "document",
    "run_of",
]

#: JSON results by the run that returned them.
Results = Mapping["RunSpec", Any]


@dataclass(frozen=True)
class Scale:
    """The size of a reproduction: its ``seeds``, and shorter horizons if ``quick``."""

    quick: bool
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class RunSpec:
    """One piece of work that can be done in another process and whose result is kept.

    Attributes:
        function: ``module:name`` of a function of JSON values that returns a JSON value.
        arguments: its keyword arguments as JSON text, keys sorted, so that equal runs are equal and shared.
        weight: its cost relative to others, for the remaining time.
    """

    function: str
    arguments: str
    weight: float = field(default=1.0, compare=False)

    def __call__(self) -> Any:
        module, name = self.function.split(":")
        return getattr(importlib.import_module(module), name)(**json.loads(self.arguments))

    @property
    def key(self) -> str:
        """A name for its file."""
        return hashlib.sha256(f"{self.function}({self.arguments})".encode()).hexdigest()[:24]


def run_of(function: Callable[..., Any], weight: float = 1.0, **arguments: Any) -> RunSpec:
    """A run of a function of some module's top level."""
    name = f"{function.__module__}:{function.__qualname__}"
    return RunSpec(name, json.dumps(arguments, sort_keys=True), weight)


@dataclass(frozen=True)
class Value:
    """One number beside the paper's.

    Attributes:
        name: what it is, unique in its figure, such as ``jct_reduction_alpha_1_6``.
        unit: such as ``%`` or ``s``; empty for a ratio or a probability.
        paper: the paper's number or bound; None if its text gives none.
        ours: this project's; None if nothing could be measured.
        ci95: its 95 % confidence interval; None if it has no spread or too few runs.
        runs: independent runs (seeds) behind it; for a formula's value 1.
        text: the paper's statement if it is not a plain number, such as ``over 50 %``. Tables print it
            instead of ``paper``, which is then the number in it.
    """

    name: str
    unit: str
    paper: float | None
    ours: float | None
    ci95: tuple[float, float] | None = None
    runs: int = 1
    text: str = ""


@dataclass(frozen=True)
class Chart:
    """One plot: lines over numbers, or groups of bars over names.

    ``series`` maps a name to its points ``(x, y)``; ``kind`` is ``lines`` or ``bars``. ``marks`` are
    horizontal lines: the paper's values.
    """

    title: str
    x_label: str
    y_label: str
    series: Mapping[str, Sequence[tuple[float | str, float]]]
    kind: str = "lines"
    marks: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Figure:
    """A figure of this project: ``rows`` are a table (column name to cell), ``notes`` explain differences."""

    id: str
    title: str
    rows: Sequence[Mapping[str, Any]]
    values: Sequence[Value]
    notes: str
    charts: Sequence[Chart] = ()


@dataclass(frozen=True)
class FigureSpec:
    """How to make a figure: the runs it needs at a scale, and the figure from their results."""

    id: str
    title: str
    runs: Callable[[Scale], Sequence[RunSpec]]
    build: Callable[[Scale, Results], Figure]


@dataclass(frozen=True)
class Paper:
    """A paper's figures in its own order; ``runs``: seeds of a full reproduction, a quick one has one."""

    name: str
    title: str
    figures: Sequence[FigureSpec]
    runs: int = 3

    def scale(self, quick: bool, runs: int | None = None, first_seed: int = 1) -> Scale:
        """``runs`` seeds, None for the paper's own number, from ``first_seed`` on."""
        if runs is None:
            runs = 1 if quick else self.runs
        return Scale(quick, tuple(range(first_seed, first_seed + runs)))


def document(paper: str, figures: Sequence[Figure]) -> dict[str, Any]:
    """The JSON document. Its names and nesting are stable, because scripts depend on them."""
    return {
        "paper": paper,
        "figures": [
            {
                "id": figure.id,
                "title": figure.title,
                "rows": [dict(row) for row in figure.rows],
                "values": [
                    {
                        "name": value.name,
                        "unit": value.unit,
                        "paper": value.paper,
                        "ours": value.ours,
                        "ci95": None if value.ci95 is None else list(value.ci95),
                        "runs": value.runs,
                        **({"paper_text": value.text} if value.text else {}),
                    }
                    for value in figure.values
                ],
                "notes": figure.notes,
            }
            for figure in figures
        ],
    }
