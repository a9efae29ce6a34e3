"""The report of an A/B test: tables as text cells, plots, and the HTML page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_sched_lab.reports.machine import basis_line
from spark_sched_lab.reports.pages import render_page
from spark_sched_lab.reports.plots import as_svg, new_figure, plain

HEADINGS = (
    "arm",
    "JCT (s)",
    "JCT / baseline's",
    "effect",
    "slowdown",
    "bg JCT / baseline's",
    "idle",
    "copies per run",
)
_RED, _BLUE, _GREY = "#c8442d", "#4a7fb5", "#7d93a8"

_MONOTONE = (
    "The curve over P is monotone within its intervals: no higher P is shown to be slower, or to keep fewer "
    "slots idle."
)
#: Descriptions of a side of the curve that is not monotone.
_TURNS = {"monotone_jct": "to be slower than a lower one", "monotone_idle": "to keep fewer slots idle"}

Document = Mapping[str, Any]


def table(document: Document, workload: str | None = None) -> list[tuple[str, ...]]:
    """Cells of one workload's rows, of all workloads together for None; columns are `HEADINGS`."""
    rows: list[tuple[str, ...]] = []
    for row in document["rows"]:
        if row["workload"] != workload:
            continue
        copies, effect = row["copies"], (row["jct_ratio"] or {}).get("effect")
        rows.append(
            (
                row["arm"],
                _interval(row["jct_s"], "{:.1f}"),
                _interval(row["jct_ratio"], "{:.3f}"),
                "–" if effect is None else f"{effect:+.1f}",
                _interval(row["slowdown"], "{:.2f}"),
                _interval(row["background_jct_ratio"], "{:.3f}"),
                _interval(row["utilization_loss"], "{:.1%}"),
                f"{_interval(copies['won_per_run'], '{:.1f}')} won, "
                f"{_interval(copies['wasted_s_per_run'], '{:.1f}')} s wasted"
                if copies["launched"]
                else "–",
            )
        )
    return rows


def _interval(found: Mapping[str, Any] | None, form: str) -> str:
    if found is None:
        return "–"
    middle = form.format(found["mean"])
    if found["low"] is None or found["low"] == found["high"]:
        return middle
    return f"{middle} ({form.format(found['low'])} – {form.format(found['high'])})"


def render_report(document: Document) -> str:
    """The HTML page. A test without a whole block gives a page that states this."""
    workloads = list(dict.fromkeys(row["workload"] for row in document["rows"] if row["workload"]))
    figures = []
    for name in (None, *workloads) if len(workloads) > 1 else (None,) if workloads else ():
        title = name or ("all workloads" if len(workloads) > 1 else workloads[0])
        plots = [forest_svg(document, name, f"{title}: JCT relative to {document['baseline']}")]
        tradeoff = tradeoff_svg(document, name, f"{title}: isolation against utilization")
        figures.append((title, [*plots, *([tradeoff] if tradeoff else [])], table(document, name)))
    return render_page(
        "ab.html.j2",
        name=document["suite"],
        verdict=document["verdict"]["text"],
        recommended=document["recommended"]["text"] if document["recommended"] else "",
        monotone=_monotone(document),
        null=_interval(document["verdict"].get("null"), "{:.3f}"),
        null_arm=document["null_arm"],
        baseline=document["baseline"],
        lead=(
            f"{document['blocks']} of at most {document['blocks_at_most']} blocks, {document['runs']} runs "
            f"on {document['on']}" + (f"; {basis_line(dict(document))}." if "machine" in document else ".")
        ),
        headings=HEADINGS,
        figures=figures,
        cost=_cost(document.get("cost")),
        method=_method(document),
        equal=document["results_equal"],
    )


def _monotone(document: Document) -> str:
    """Whether the trade-off curve is monotone, as a sentence; empty if nothing can be shown."""
    if document["monotone"] is None:
        return ""
    turns = [text for side, text in _TURNS.items() if not document[side]]
    if not turns:
        return _MONOTONE
    return f"The curve over P is not monotone: a higher P is shown {', and one '.join(turns)}."


def _cost(cost: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What a rented cluster cost, as text: a sentence, a table's rows, and what is not in the sums."""
    if cost is None:
        return None
    nodes = ", ".join(f"{count} {kind}" for kind, count in cost["nodes"].items())
    rows = [(arm, f"{row['hours']:.3f}", f"{row['dollars']:.4f}") for arm, row in cost["arms"].items()]
    rest_hours = cost["hours"] - sum(row["hours"] for row in cost["arms"].values())
    rows.append(("start, warm-up and gaps", f"{rest_hours:.3f}", f"{cost['other_dollars']:.4f}"))
    rows.append(("all", f"{cost['hours']:.3f}", f"{cost['dollars']:.4f}"))
    lead = f"{cost['dollars']:.2f} dollars at {cost['dollars_per_hour']:.4f} per hour ({nodes})."
    return {"lead": lead, "rows": rows, "without": f"Not included: {cost['without']}."}


def _method(document: Document) -> list[str]:
    runs = (
        "A block has every workload once in every arm, once more under the baseline (the null arm) and, with "
        "a background, once alone; all with the same input and background, in random order on one cluster."
    )
    ratios = (
        "Ratios are formed inside blocks; over several workloads, from their geometric mean per block. "
        f"Intervals are studentised wild bootstrap intervals over {document['blocks']} blocks."
    )
    fixed = f"The number of blocks was fixed beforehand; intervals have the level {document['level']:.0%}."
    looks = (
        f"The test looked at most {document['looks']} times whether its intervals were narrow enough. Each "
        f"has the level {document['level_per_look']:.2%}, so that all hold together with "
        f"{document['level']:.0%}."
    )
    winner = "A winner's interval must exclude 1 at a level corrected for the number of arms."
    words = (
        "Idle: slot time that reservations kept idle while the job ran, of all "
        f"{document['slots']} slots' time. Effect: mean difference of log JCTs in standard deviations of the "
        "differences (Hedges). bg: background."
    )
    return [runs, ratios, looks if document["looks"] > 1 else fixed, winner, words]


def forest_svg(document: Document, workload: str | None, title: str) -> str:
    """Each arm's ratio of JCTs to the baseline's with its interval; the null arm in grey."""
    rows = [row for row in document["rows"] if row["workload"] == workload and row["jct_ratio"] is not None]
    figure, axes = new_figure(7.0, 0.9 + 0.32 * len(rows))
    for place, row in enumerate(rows):
        found = row["jct_ratio"]
        colour = _GREY if row["arm"] == document["null_arm"] else _RED
        if found["low"] is not None:
            axes.plot([found["low"], found["high"]], [place, place], color=colour, linewidth=2)
        axes.plot([found["mean"]], [place], marker="o", markersize=5, color=colour)
    axes.axvline(1.0, color="black", linewidth=0.7, linestyle=":")
    axes.set_yticks(range(len(rows)), [plain(row["arm"]) for row in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlabel("JCT / baseline's JCT", fontsize=9)
    axes.set_title(plain(title), loc="left", fontsize=10)
    return as_svg(figure)


def tradeoff_svg(document: Document, workload: str | None, title: str) -> str:
    """Slowdown (or the ratio of JCTs) and idle slots over P, as in the paper's figure 14.

    Empty unless two or more arms differ in P. Arms with the same P and other settings are drawn side by side.
    """
    levels = {arm["arm"]: arm["isolation"] for arm in document["arms"] if "isolation" in arm}
    rows = [row for row in document["rows"] if row["workload"] == workload and row["arm"] in levels]
    rows.sort(key=lambda row: levels[row["arm"]])
    if len({levels[row["arm"]] for row in rows}) < 2:
        return ""
    sloth = "slowdown" if all(row["slowdown"] for row in rows) else "jct_ratio"
    known = [row for row in rows if row[sloth] is not None]
    figure, left = new_figure(7.0, 3.2)
    right = left.twinx()
    right.spines["top"].set_visible(False)
    for axes, key, factor, colour, marker in (
        (left, sloth, 1.0, _RED, "o"),
        (right, "utilization_loss", 100.0, _BLUE, "s"),
    ):
        x = [levels[row["arm"]] for row in known]
        y = [factor * row[key]["mean"] for row in known]
        below = [factor * (row[key]["mean"] - _or_mean(row[key], "low")) for row in known]
        above = [factor * (_or_mean(row[key], "high") - row[key]["mean"]) for row in known]
        axes.errorbar(
            x, y, [below, above], color=colour, marker=marker, markersize=4, capsize=3, linewidth=1.3
        )
        axes.tick_params(axis="y", colors=colour, labelsize=8)
        axes.set_ylim(bottom=0)
    which = (document["baseline"], workload)
    stock = next((row for row in document["rows"] if (row["arm"], row["workload"]) == which), None)
    if stock is not None and stock["arm"] not in levels and stock[sloth] is not None:
        left.axhline(stock[sloth]["mean"], color=_RED, linewidth=0.8, linestyle=":")
        at = (1.0, stock[sloth]["mean"])
        left.annotate(plain(stock["arm"]), at, fontsize=8, color=_RED, va="bottom", ha="right")
    left.set_xlabel("isolation level P", fontsize=9)
    name = "slowdown (JCT / alone)" if sloth == "slowdown" else "JCT / baseline's JCT"
    left.set_ylabel(name, fontsize=9, color=_RED)
    right.set_ylabel("slots kept idle (%)", fontsize=9, color=_BLUE)
    left.set_title(plain(title), loc="left", fontsize=10)
    return as_svg(figure)


def _or_mean(found: Mapping[str, Any], end: str) -> float:
    return float(found["mean"] if found[end] is None else found[end])
