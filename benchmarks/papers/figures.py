"""The parts of a reproduction: figures, papers, and the JSON document of their results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeAlias

from benchmarks.papers.runs import Results, RunSpec, Scale

#: Points ``(x, y)`` of a chart by the name of their line or of their group of bars.
Lines: TypeAlias = dict[str, list[tuple[float | str, float]]]


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
    """A figure of this project: ``rows`` are a table (column name to cell), ``notes`` explain differences.

    Its `FigureSpec` adds ``id`` and ``title``.
    """

    rows: Sequence[Mapping[str, Any]]
    values: Sequence[Value]
    notes: str
    charts: Sequence[Chart] = ()
    id: str = ""
    title: str = ""


@dataclass(frozen=True)
class FigureSpec:
    """How to make a figure: the runs it needs at a scale, and the figure from their results."""

    id: str
    title: str
    runs: Callable[[Scale], Sequence[RunSpec]]
    make: Callable[[Scale, Results], Figure]

    def build(self, scale: Scale, results: Results) -> Figure:
        return replace(self.make(scale, results), id=self.id, title=self.title)


def figure(
    identity: str, title: str, runs: Callable[[Scale], Sequence[RunSpec]] = lambda scale: ()
) -> Callable[[Callable[[Scale, Results], Figure]], FigureSpec]:
    """Decorates the function that makes a figure from the results of ``runs``."""
    return lambda make: FigureSpec(identity, title, runs, make)


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
                "values": [_value(value) for value in figure.values],
                "notes": figure.notes,
            }
            for figure in figures
        ],
    }


def _value(value: Value) -> dict[str, Any]:
    row = asdict(value) | {"ci95": None if value.ci95 is None else list(value.ci95)}
    text = row.pop("text")
    return row | {"paper_text": text} if text else row
