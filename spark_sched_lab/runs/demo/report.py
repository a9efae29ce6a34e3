"""The demo's outputs: a table for the terminal, an HTML page that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spark_sched_lab.reports.machine import basis_line
from spark_sched_lab.reports.pages import render_page
from spark_sched_lab.runs.demo.plots import slowdown_svg, timeline_svg
from spark_sched_lab.runs.demo.timeline import Timeline


def table_rows(results: Sequence[dict[str, Any]]) -> list[dict[str, str]]:
    """The results as text cells, one row per workload and setting."""
    rows = []
    for result in results:
        spread, makespan = result["slowdown_spread"], result["background_makespan_s"]
        alone = result["setting"] == "alone"
        rows.append(
            {
                "workload": result["workload"],
                "setting": result["setting"],
                "jct": f"{_mean(result['jct_s']):.1f}",
                "slowdown": f"{result['slowdown']:.2f}",
                "interval": "–"
                if alone or spread["low"] is None
                else f"{spread['low']:.2f} – {spread['high']:.2f}",
                "makespan": f"{_mean(makespan):.1f}" if makespan else "–",
                "makespan_ratio": f"{result['background_makespan_ratio']:.2f}"
                if result["background_makespan_ratio"] is not None
                else "–",
            }
        )
    return rows


def headline(results: Sequence[dict[str, Any]]) -> list[str]:
    """The outcome, one sentence per workload."""
    lines = []
    for workload in dict.fromkeys(row["workload"] for row in results):
        stock, ours = (
            next(row for row in results if row["workload"] == workload and row["setting"] == setting)
            for setting in ("stock", "spark_sched")
        )
        line = f"{workload}: {stock['slowdown']:.2f} × slower than alone became {ours['slowdown']:.2f} ×"
        ratio = ours["background_makespan_ratio"]
        if ratio is not None:
            when = "later" if ratio >= 1.0 else "earlier"
            line += f"; the background ended {abs(ratio - 1.0):.0%} {when} than stock's"
        lines.append(f"{line}.")
    return lines


def render_report(document: dict[str, Any], timelines: dict[str, list[tuple[str, Timeline]]]) -> str:
    """The HTML page of a demo: ``timelines`` maps a workload to its (title, timeline) pairs."""
    return render_page(
        "report.html.j2",
        runs=document["runs"],
        basis=basis_line(document),
        headline=headline(document["results"]),
        rows=table_rows(document["results"]),
        slowdown_svg=slowdown_svg(document["results"]),
        timelines=[
            {"workload": workload, "parts": [timeline_svg(timeline, title) for title, timeline in parts]}
            for workload, parts in timelines.items()
        ],
        method=document["method"],
        pool_weight=document["settings"]["stock"]["pool_weight"],
        priority=document["settings"]["spark_sched"]["priority"],
        isolation=document["settings"]["spark_sched"]["isolation"],
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
