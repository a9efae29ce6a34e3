"""Figures as inline SVG: no file, no script, no request."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any
from unicodedata import category

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SERIES = ("#c8442d", "#4a7fb5", "#d9a441", "#5b8c5a", "#7d5a8c", "#7d93a8", "#a0522d", "#8a8a8a")


def plain(text: str) -> str:
    """Text for a figure, as it is.

    Matplotlib takes a pair of dollar signs for a formula, and fails at a wrong one. It leaves a name that
    begins with an underscore out of the legend.
    """
    # Control characters and halves of surrogate pairs are no XML text, and a newline would leave the line.
    shown = "".join("\N{REPLACEMENT CHARACTER}" if category(c) in ("Cc", "Cs") else c for c in text)
    shown = shown.replace("$", r"\$")
    return "\N{ZERO WIDTH SPACE}" + shown if shown.startswith("_") else shown


def curves_svg(
    series: dict[str, Sequence[tuple[float, float]]],
    x_label: str,
    y_label: str,
    title: str = "",
    marks: dict[str, float] | None = None,
    *,
    log_x: bool = False,
    width_in: float = 5.6,
) -> str:
    """Named curves given as points, with horizontal lines at ``marks`` (named values to compare with)."""
    figure, axes = new_figure(width_in, 3.2)
    if log_x:
        axes.set_xscale("log")
    for (name, points), colour in zip(series.items(), cycle(_SERIES)):
        x, y = [point[0] for point in points], [point[1] for point in points]
        marker = "o" if len(points) < 15 else None
        axes.plot(x, y, marker=marker, markersize=3.5, linewidth=1.3, label=plain(name), color=colour)
    _finish(axes, x_label, y_label, title, marks, len(series))
    return as_svg(figure)


def bars_svg(
    series: dict[str, Sequence[tuple[str, float]]],
    x_label: str,
    y_label: str,
    title: str = "",
    marks: dict[str, float] | None = None,
) -> str:
    """Groups of bars: every series has one bar per name, with its value above."""
    figure, axes = new_figure(5.6, 3.2)
    names = list(dict.fromkeys(name for points in series.values() for name, _ in points))
    width = 0.8 / max(1, len(series))
    for nth, ((label, points), colour) in enumerate(zip(series.items(), cycle(_SERIES[1::-1] + _SERIES[2:]))):
        at = [names.index(name) + (nth - (len(series) - 1) / 2) * width for name, _ in points]
        bars = axes.bar(
            at, [value for _, value in points], width=width * 0.92, color=colour, label=plain(label)
        )
        axes.bar_label(bars, fmt="%.3g", fontsize=7, padding=1)
    axes.set_xticks(range(len(names)), [plain(name) for name in names])
    _finish(axes, x_label, y_label, title, marks, len(series))
    return as_svg(figure)


def _finish(
    axes: Any, x_label: str, y_label: str, title: str, marks: dict[str, float] | None, series: int
) -> None:
    for name, value in (marks or {}).items():
        axes.axhline(value, color="black", linewidth=0.8, linestyle=":", label=plain(f"{name}: {value:g}"))
    axes.set_xlabel(plain(x_label), fontsize=9)
    axes.set_ylabel(plain(y_label), fontsize=9)
    axes.set_title(plain(title), loc="left", fontsize=10)
    axes.tick_params(which="both", labelsize=8)
    low = axes.dataLim.y0
    axes.margins(y=0.12)
    if axes.get_yscale() == "linear" and low >= 0.0:
        # None of our quantities is below 0 but differences.
        axes.set_ylim(bottom=0.0)
    if series > 1 or marks:
        # Outside, so that it hides nothing.
        axes.figure.legend(fontsize=7.5, frameon=False, ncols=3, loc="outside lower left")


def new_figure(width_in: float, height_in: float) -> tuple[Figure, Any]:
    """An empty figure of this size, and its axes, in the style of all of ours."""
    # The object interface, not pyplot: no global figure list and no display.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width_in, height_in), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)
    return figure, axes


def as_svg(figure: Figure) -> str:
    """The figure as an ``<svg>`` element."""
    from matplotlib import rc_context

    out = io.StringIO()
    # Text stays text, and nothing in the file depends on the time or a random salt.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "spark_sched", "font.family": "sans-serif"}):
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    # Black is the page's text colour, light or dark. Black fills are the default and not written.
    svg = out.getvalue().replace("stroke: #000000", "stroke: currentColor")
    return re.sub(r"^.*?<svg ", '<svg fill="currentColor" ', svg, count=1, flags=re.DOTALL)
