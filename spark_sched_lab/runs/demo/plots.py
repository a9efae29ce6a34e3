"""The demo's figures: what ran on every slot, and slowdowns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spark_sched_lab.reports.plots import as_svg, new_figure, plain
from spark_sched_lab.runs.demo.timeline import Timeline

_COLOURS = {"foreground": "#c8442d", "background": "#b9c6d3", "held": "#f3d9a4"}


def timeline_svg(timeline: Timeline, title: str) -> str:
    """Slots per executor over time: foreground, background and (hatched) held slots."""
    from matplotlib.patches import Patch

    rows = sum(timeline.slots.values()) + len(timeline.slots)
    figure, axes = new_figure(10.0, 0.9 + 0.17 * rows)
    ticks, labels, base = [], [], 0.0
    # By name, so that executors stand in the same order in pictures that are compared.
    for executor, name in sorted(timeline.executors.items(), key=lambda item: (item[1], item[0])):
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
    axes.set_yticks(ticks, [plain(label) for label in labels])
    axes.set_ylim(base - 1, 0)
    axes.set_xlim(0, (timeline.end_ms - timeline.start_ms) / 1000)
    axes.set_xlabel("seconds since the foreground job was submitted")
    axes.set_title(plain(title), loc="left", fontsize=10)
    kinds = [k for k in ("foreground", "background", "held") if any(s.kind == k for s in timeline.spans)]
    handles = [
        Patch(facecolor=_COLOURS[k], hatch="////" if k == "held" else None, edgecolor="#8a6d2f", label=k)
        for k in kinds
    ]
    figure.legend(handles=handles, loc="outside upper left", ncols=3, fontsize=8, frameon=False)
    return as_svg(figure)


def slowdown_svg(rows: Sequence[dict[str, Any]]) -> str:
    """Slowdown per workload and setting; every run is a point beside its mean's bar."""
    workloads = list(dict.fromkeys(row["workload"] for row in rows))
    colours = {"stock": "#7d93a8", "spark_sched": "#c8442d"}
    figure, axes = new_figure(7.0, 2.6)
    for offset, (setting, colour) in enumerate(colours.items()):
        for place, workload in enumerate(workloads):
            row = next(r for r in rows if r["workload"] == workload and r["setting"] == setting)
            x = place + (offset - 0.5) * 0.36
            bar = axes.bar(
                x, row["slowdown"], width=0.32, color=colour, label=setting if place == 0 else None
            )
            axes.bar_label(bar, fmt="%.2f ×", fontsize=8, padding=2, label_type="center")
            points = row["slowdowns"]
            axes.scatter([x] * len(points), points, s=9, color="black", zorder=3, alpha=0.6)
    axes.axhline(1.0, color="black", linewidth=0.7, linestyle=":")
    axes.set_xticks(range(len(workloads)), [plain(workload) for workload in workloads])
    axes.set_ylabel("slowdown (JCT / JCT alone)")
    figure.legend(fontsize=8, frameon=False, ncols=2, loc="outside upper left")
    return as_svg(figure)
