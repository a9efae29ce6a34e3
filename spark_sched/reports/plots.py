"""Figures as inline SVG: no file, no script, no request."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

from spark_sched.experiments.demo.timeline import Timeline

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLOURS = {"foreground": "#c8442d", "background": "#b9c6d3", "held": "#f3d9a4"}


def timeline_svg(timeline: Timeline, title: str) -> str:
    """Slots per executor over time: foreground, background and (hatched) held slots."""
    from matplotlib.patches import Patch

    rows = sum(timeline.slots.values()) + len(timeline.slots)
    figure, axes = _figure(10.0, 0.9 + 0.17 * rows)
    ticks, labels, base = [], [], 0.0
    for executor, name in timeline.executors.items():
        count = timeline.slots[executor]
        for kind in ("background", "foreground", "held"):
            for lane in range(count):
                bars = [
                    ((span.start_ms - timeline.start_ms) / 1000, (span.end_ms - span.start_ms) / 1000)
                    for span in timeline.spans
                    if span.executor == executor and span.lane == lane and span.kind == kind
                ]
                axes.broken_barh(
                    bars,
                    (base + lane + 0.06, 0.88),
                    facecolor=_COLOURS[kind],
                    hatch="////" if kind == "held" else None,
                    edgecolor="#8a6d2f" if kind == "held" else "white",
                    linewidth=0.3,
                )
        ticks.append(base + count / 2)
        labels.append(name)
        base += count + 1
    axes.set_yticks(ticks, labels)
    axes.set_ylim(base - 1, 0)
    axes.set_xlim(0, (timeline.end_ms - timeline.start_ms) / 1000)
    axes.set_xlabel("seconds since the foreground job was submitted")
    axes.set_title(title, loc="left", fontsize=10)
    kinds = [k for k in ("foreground", "background", "held") if any(s.kind == k for s in timeline.spans)]
    handles = [
        Patch(facecolor=_COLOURS[k], hatch="////" if k == "held" else None, edgecolor="#8a6d2f", label=k)
        for k in kinds
    ]
    axes.legend(handles=handles, loc="upper right", ncol=3, fontsize=8, frameon=True)
    return _svg(figure)


def slowdown_svg(rows: Sequence[dict[str, Any]]) -> str:
    """Slowdown per workload and setting; every run is a point beside its mean's bar."""
    workloads = list(dict.fromkeys(row["workload"] for row in rows))
    colours = {"stock": "#7d93a8", "spark_sched": "#c8442d"}
    figure, axes = _figure(7.0, 2.6)
    for offset, (setting, colour) in enumerate(colours.items()):
        for place, workload in enumerate(workloads):
            row = next(r for r in rows if r["workload"] == workload and r["setting"] == setting)
            x = place + (offset - 0.5) * 0.36
            axes.bar(x, row["slowdown"], width=0.32, color=colour, label=setting if place == 0 else None)
            points = row["slowdowns"]
            axes.scatter([x] * len(points), points, s=9, color="black", zorder=3, alpha=0.6)
    axes.axhline(1.0, color="black", linewidth=0.7, linestyle=":")
    axes.set_xticks(range(len(workloads)), workloads)
    axes.set_ylabel("slowdown (JCT / JCT alone)")
    axes.legend(fontsize=8, frameon=False)
    return _svg(figure)


def lines_svg(
    series: dict[str, tuple[Sequence[float], Sequence[float]]], x_label: str, y_label: str, title: str = ""
) -> str:
    """Named lines with markers, for sweeps and shares over time."""
    figure, axes = _figure(7.0, 2.8)
    for name, (x, y) in series.items():
        axes.plot(x, y, marker="o" if len(x) < 30 else None, markersize=3, linewidth=1.2, label=name)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.set_title(title, loc="left", fontsize=10)
    axes.legend(fontsize=8, frameon=False)
    return _svg(figure)


_SERIES = ("#c8442d", "#3f6f9f", "#d9a441", "#5b8c5a", "#7d5a8c", "#7d93a8", "#a0522d", "#4a4a4a")


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
    figure, axes = _figure(width_in, 3.2)
    if log_x:
        axes.set_xscale("log")
    for (name, points), colour in zip(series.items(), cycle(_SERIES)):
        x, y = [point[0] for point in points], [point[1] for point in points]
        marker = "o" if len(points) < 15 else None
        axes.plot(x, y, marker=marker, markersize=3.5, linewidth=1.3, label=name, color=colour)
    _finish(axes, x_label, y_label, title, marks)
    return _svg(figure)


def bars_svg(
    series: dict[str, Sequence[tuple[str, float]]],
    x_label: str,
    y_label: str,
    title: str = "",
    marks: dict[str, float] | None = None,
) -> str:
    """Groups of bars: every series has one bar per name, with its value above."""
    figure, axes = _figure(5.6, 3.2)
    names = list(dict.fromkeys(name for points in series.values() for name, _ in points))
    width = 0.8 / max(1, len(series))
    for nth, ((label, points), colour) in enumerate(zip(series.items(), cycle(_SERIES[1::-1] + _SERIES[2:]))):
        at = [names.index(name) + (nth - (len(series) - 1) / 2) * width for name, _ in points]
        bars = axes.bar(at, [value for _, value in points], width=width * 0.92, color=colour, label=label)
        axes.bar_label(bars, fmt="%.3g", fontsize=7, padding=1)
    axes.set_xticks(range(len(names)), names)
    _finish(axes, x_label, y_label, title, marks)
    return _svg(figure)


def _finish(axes: Any, x_label: str, y_label: str, title: str, marks: dict[str, float] | None) -> None:
    for name, value in (marks or {}).items():
        axes.axhline(value, color="black", linewidth=0.8, linestyle=":", label=f"{name}: {value:g}")
    axes.set_xlabel(x_label, fontsize=9)
    axes.set_ylabel(y_label, fontsize=9)
    axes.set_title(title, loc="left", fontsize=10)
    axes.tick_params(which="both", labelsize=8)
    # Room above for the legend, so that it hides nothing.
    axes.margins(y=0.3)
    axes.legend(fontsize=7.5, frameon=False, ncols=2, loc="upper right")


def _figure(width_in: float, height_in: float) -> tuple[Figure, Any]:
    # The object interface, not pyplot: no global figure list and no display.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width_in, height_in), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)
    return figure, axes


def _svg(figure: Figure) -> str:
    from matplotlib import rc_context

    out = io.StringIO()
    # Text stays text, and nothing in the file depends on the time or a random salt.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "spark_sched", "font.family": "sans-serif"}):
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    svg = out.getvalue()
    return re.sub(r"^.*?(?=<svg )", "", svg, flags=re.DOTALL)
