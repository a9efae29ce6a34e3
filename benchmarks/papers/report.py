"""Tables for the terminal and a self-contained HTML page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.papers.figures import Chart, Figure, Paper
from benchmarks.papers.runs import Scale
from spark_sched_lab.reports.pages import render_page
from spark_sched_lab.reports.plots import bars_svg, curves_svg

if TYPE_CHECKING:
    from rich.console import Console

_TEMPLATE = Path(__file__).parent / "templates" / "reproduce.html.j2"
#: A value within this share of the paper's counts as reproduced in the headline.
_NEAR = 0.2


def number(value: object) -> str:
    """A cell: numbers with four significant digits, an empty text for None."""
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def scale_line(scale: Scale) -> str:
    """The size of the reproduction as a sentence."""
    seeds = ", ".join(map(str, scale.seeds))
    size = "Quick: fewer seeds and shorter horizons than the full figures. " if scale.quick else ""
    return f"{size}Seed{'s' * (len(scale.seeds) > 1)} {seeds}."


def words(name: str) -> str:
    """A readable form of a value's name: ``reduction_n_20_alpha_1_6`` becomes reduction n 20 alpha 1.6."""
    return re.sub(r"(?<=\d)_(?=\d)", ".", name).replace("_", " ")


def headline(figures: Sequence[Figure]) -> str:
    """The number of the paper's values that were reproduced, as a sentence; empty if the paper states
    none."""
    stated = [
        (value.paper, value.ours)
        for figure in figures
        for value in figure.values
        if value.paper is not None and value.ours is not None and not value.text  # no bounds
    ]
    if not stated:
        return ""
    near = sum(abs(ours - paper) <= _NEAR * abs(paper) for paper, ours in stated)
    return f"{near} of {len(stated)} values that the paper states are reproduced within {_NEAR:.0%}."


def _values(figure: Figure) -> list[list[str]]:
    return [
        [
            words(value.name),
            value.unit,
            value.text or number(value.paper),
            number(value.ours),
            "" if value.ci95 is None else " to ".join(map(number, value.ci95)),
            str(value.runs),
        ]
        for value in figure.values
    ]


_VALUE_HEADS = ("value", "unit", "paper", "ours", "95 % interval", "runs")


def print_figures(figures: Sequence[Figure], console: Console) -> None:
    """Every figure's values beside the paper's, its table and its notes."""
    from rich import box
    from rich.table import Table

    for figure in figures:
        console.print(f"\n{figure.id}: {figure.title}", style="bold", highlight=False, markup=False)
        heads = list(figure.rows[0]) if figure.rows else []
        for columns, rows in (
            (heads, [[number(row.get(head)) for head in heads] for row in figure.rows]),
            (list(_VALUE_HEADS), _values(figure)),
        ):
            table = Table(box=box.SIMPLE_HEAD)
            for nth, head in enumerate(columns):
                table.add_column(head, justify="left" if nth == 0 or head in ("unit", "suite") else "right")
            for row in rows:
                table.add_row(*row)
            if rows:
                console.print(table, highlight=False, markup=False)
        console.print(figure.notes, highlight=False, markup=False)


def render(paper: Paper, figures: Sequence[Figure], scale: Scale, basis: str) -> str:
    """The page: every figure's plots, values beside the paper's, table and notes."""
    return render_page(
        _TEMPLATE,
        paper=paper,
        headline=headline(figures),
        scale=scale_line(scale),
        basis=basis,
        value_heads=_VALUE_HEADS,
        figures=[
            {
                "id": figure.id,
                "title": figure.title,
                "plots": [_plot(chart) for chart in figure.charts],
                "values": _values(figure),
                "heads": list(figure.rows[0]) if figure.rows else [],
                "rows": [[number(cell) for cell in row.values()] for row in figure.rows],
                "notes": [part for part in figure.notes.split("\n\n") if part],
            }
            for figure in figures
        ],
    )


def _plot(chart: Chart) -> str:
    series: dict[str, Any] = {name: list(points) for name, points in chart.series.items()}
    draw = bars_svg if chart.kind == "bars" else curves_svg
    return draw(series, chart.x_label, chart.y_label, chart.title, dict(chart.marks))
