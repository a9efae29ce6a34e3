"""Tables 6, 8 and 9, figures 3 to 9: completion times."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.papers.figures import Figure, Value, figure
from benchmarks.papers.means import mean_value
from benchmarks.papers.runs import Results, RunSpec, Scale
from benchmarks.papers.slearn.arm_runs import RATIOS
from benchmarks.papers.slearn.common import (
    ARMS,
    TRACES,
    UNCHANGED,
    accuracy_runs,
    beside_paper,
    by_trace,
    jct_run,
    jct_runs,
    jobs_of,
    measured,
    rows_of,
    speedups,
)
from benchmarks.papers.slearn.workload import TraceSpec
from spark_sched.policies.slearn.adaptive import AdaptiveRatio


def _notes(scale: Scale, *, dag: bool = False) -> str:
    return (
        f"150 slots, {jobs_of(scale, dag)} jobs a seed, generated traces (see table4). A speed-up is the "
        "mean JCT under the other scheme over that under SLearn; intervals are over seeds."
    )


@figure("fig3", "Adaptive sampling")
def figure_3(scale: Scale, results: Results) -> Figure:
    rows = []
    for scores in (
        {3: 1.0, 2: 1.2, 4: 1.1},
        {3: 1.05, 2: 1.0, 4: 1.3},
        {3: 1.2, 2: 1.0, 4: 1.3},
        {3: 1.2, 2: 1.3, 4: 1.0},
        {3: 1.0, 2: 1.0, 4: 1.0},
    ):
        ratio = AdaptiveRatio(started=300, scores={k: (v,) for k, v in scores.items()})
        rows.append(
            {**{f"score of {k} %": v for k, v in sorted(scores.items())}, "next": f"{ratio.percent()} %"}
        )
    notes = (
        "The algorithm itself; tests/unit/spark_sched/policies/slearn/test_adaptive.py follows it "
        "step for step. Lines "
        "21-23 keep T + 1 scores, as here. Of ratios with equal scores the smaller one wins; the figure does "
        "not define this case."
    )
    return Figure(rows, (), notes)


@figure(
    "fig4",
    "Share of sampled jobs by ratio",
    lambda scale: jct_runs(scale, map(TraceSpec, TRACES), ["slearn"]),
)
def figure_4(scale: Scale, results: Results) -> Figure:
    values = []
    for like in TRACES:
        shares: dict[int, list[float]] = {percent: [] for percent in range(1, 6)}
        for seed in scale.seeds:
            percents = results[jct_run(scale, TraceSpec(like), seed, "slearn")]["percent"]["slearn"]
            given = [p for p in percents if p]
            for percent, found in shares.items():
                found.append(100.0 * given.count(percent) / max(1, len(given)))
        values += [mean_value(f"{like}_{percent}_pct", "%", None, each) for percent, each in shares.items()]
    charts = by_trace(
        "", "% of sampled jobs", values, lambda like: {f"{like}_{n}_pct": f"{n} %" for n in range(1, 6)}
    )
    return Figure(rows_of(values), values, _notes(scale), charts)


#: Average speed-ups of SLearn (§5.2.4).
_FIGURE_5: dict[str, dict[str, float]] = {
    "2sigma": {
        "3sigma-gs": 1.28, "3sigma-tl": 1.26, "point-est": 1.42, "gs-las": 1.91, "fifo": 3.29,
        "gs-oracle": 0.79,
    },
    "google2011": {"3sigma-gs": 1.56, "3sigma-tl": 1.55, "point-est": 2.17, "gs-las": 1.65},
    "google2019": {"3sigma-gs": 1.32, "3sigma-tl": 1.32, "point-est": 1.54, "gs-las": 1.72},
}  # fmt: skip
#: Medians over jobs of the same: §5.2.4's text, and table 6's adaptive ratio for 3Sigma.
_FIGURE_5_P50: dict[str, dict[str, float]] = {
    "2sigma": {"3sigma-gs": 0.92, "gs-las": 1.29, "fifo": 8.45, "gs-oracle": 0.73},
    "google2011": {"3sigma-gs": 1.00},
    "google2019": {"3sigma-gs": 1.07},
}
_LABELS = {
    "3sigma-gs": "3Sigma", "3sigma-tl": "3SigmaTL", "point-est": "Point-Est", "gs-las": "LAS", "fifo": "FIFO",
    "gs-oracle": "oracle", "slearn-bayes": "Bayes",
}  # fmt: skip
_MIX = ("slearn", "3sigma-gs", "slearn-bayes", "gs-oracle")


def _figure_5_runs(scale: Scale) -> list[RunSpec]:
    found = jct_runs(scale, map(TraceSpec, TRACES), (*ARMS, _LEARNING))
    return found + jct_runs(scale, [UNCHANGED, TraceSpec("mix")], _MIX)


#: 3Sigma as in a new application: with a history that is empty at first and learns during the run.
_LEARNING = "3sigma-gs-learns"


@figure("fig5", "JCT speed-up using SLearn", _figure_5_runs)
def figure_5(scale: Scale, results: Results) -> Figure:
    values = []
    for like in TRACES:
        for arm in (_LEARNING, *ARMS[1:]):
            means, medians = speedups(scale, results, TraceSpec(like), arm)
            values.append(mean_value(f"{like}_{arm}_average", "", _FIGURE_5[like].get(arm), means))
            values.append(mean_value(f"{like}_{arm}_p50", "", _FIGURE_5_P50[like].get(arm), medians))
    for title, trace in (("google2011_unchanged", UNCHANGED), ("mix", TraceSpec("mix"))):
        for arm in _MIX[1:]:
            means, _ = speedups(scale, results, trace, arm)
            values.append(mean_value(f"{title}_{arm}_average", "", None, means))
    notes = _notes(scale) + (
        " '3sigma-gs-learns' has no history before the run and learns during it; the paper's 3Sigma learns "
        "from a history before the run and no more."
        " Of the Google-2011-like trace a fifth of the programs change for good after history (§2.4): with "
        "table 4's variation alone 3Sigma is right more often than in the paper's table 7 and figure 2, and "
        "an oracle gains next to nothing over it ('unchanged'). 'mix': half of the programs are such that "
        "history knows, half that pilots do."
    )
    charts = by_trace(
        "",
        "mean JCT over SLearn's",
        values,
        lambda like: {f"{like}_{arm}_average": label for arm, label in _LABELS.items()},
    )
    return Figure(rows_of(values), values, notes, charts)


#: Median error, mean and median speed-up by ratio; the same of the adaptive ratio.
_TABLE_6 = {
    "2sigma": (
        (19.4, 19.0, 19.0, 18.7, 18.4, 16.9), (1.24, 1.23, 1.27, 1.26, 1.27, 1.28),
        (0.93, 0.92, 0.93, 0.92, 0.93, 0.91), (19.0, 1.28, 0.92),
    ),
    "google2011": (
        (14.4, 14.0, 13.6, 13.1, 12.7, 9.09), (1.52, 1.55, 1.54, 1.56, 1.58, 1.51),
        (1.00, 1.00, 1.00, 1.00, 1.00, 1.00), (13.7, 1.56, 1.00),
    ),
    "google2019": (
        (55.7, 53.8, 47.1, 46.5, 42.1, 36.1), (1.31, 1.31, 1.31, 1.32, 1.28, 1.24),
        (1.07, 1.07, 1.05, 1.05, 1.01, 1.00), (51.8, 1.32, 1.07),
    ),
}  # fmt: skip


def _table_6_runs(scale: Scale) -> list[RunSpec]:
    arms = ("slearn", "3sigma-gs", *(f"slearn-{ratio}" for ratio in RATIOS))
    found = jct_runs(scale, map(TraceSpec, TRACES), arms)
    return found + accuracy_runs(scale, map(TraceSpec, TRACES))


@figure("table6", "Fixed and adaptive sampling ratios", _table_6_runs)
def table_6(scale: Scale, results: Results) -> Figure:
    values = []
    for like in TRACES:
        errors, averages, p50s, (adaptive_error, *adaptive) = _TABLE_6[like]
        for at, ratio in enumerate(RATIOS):
            missed = measured(scale, results, TraceSpec(like), "ratio_error_pct", ratio)
            values.append(mean_value(f"{like}_{ratio}_pct_p50_error", "%", errors[at], missed))
            means, medians = speedups(scale, results, TraceSpec(like), "3sigma-gs", f"slearn-{ratio}")
            values.append(mean_value(f"{like}_{ratio}_pct_average", "", averages[at], means))
            values.append(mean_value(f"{like}_{ratio}_pct_p50", "", p50s[at], medians))
        values.append(mean_value(f"{like}_adaptive_p50_error", "%", adaptive_error, []))
        for name, paper, found in zip(
            ("average", "p50"), adaptive, speedups(scale, results, TraceSpec(like), "3sigma-gs"), strict=True
        ):
            values.append(mean_value(f"{like}_adaptive_{name}", "", paper, found))
    charts = by_trace(
        "sampling ratio, %",
        "speed-up over 3Sigma",
        values,
        lambda like: {f"{like}_{ratio}_pct_average": float(ratio) for ratio in RATIOS},
    )
    notes = _notes(scale) + (
        " Errors are those of a ratio's pilots on all wide jobs; the adaptive ratio's differ from job to job "
        "and are not measured."
    )
    return Figure(rows_of(values), values, notes, charts)


def _pair_runs(scale: Scale) -> list[RunSpec]:
    return jct_runs(scale, [TraceSpec("2sigma")], ("slearn", "3sigma-gs"))


@figure("fig6", "Normalised waits", _pair_runs)
def figure_6(scale: Scale, results: Results) -> Figure:
    values = []
    for name, low, high, (share, paper, lower) in (
        ("below_0.04", -1.0, 0.04, (36.58, 35.57, None)),
        ("0.04_to_1.90", 0.04, 1.90, (30.51, 20.38, 29.81)),
        ("above_1.90", 1.90, float("inf"), (32.91, 24.68, 83.08)),
    ):
        shares, common, better = [], [], []
        for seed in scale.seeds:
            ours, other = (
                np.array(results[jct_run(scale, TraceSpec("2sigma"), seed, arm)]["wait"][arm])
                for arm in ("slearn", "3sigma-gs")
            )
            shares.append(100.0 * float(((ours > low) & (ours <= high)).mean()))
            both = (ours > low) & (ours <= high) & (other > low) & (other <= high)
            common.append(100.0 * float(both.mean()))
            if both.any():
                better.append(100.0 * float((ours < other)[both].mean()))
        values.append(mean_value(f"slearn_{name}", "%", share, shares))
        values.append(mean_value(f"both_{name}", "%", paper, common))
        values.append(mean_value(f"both_{name}_lower_under_slearn", "%", lower, better))
    notes = (
        _notes(scale)
        + " Normalised wait: mean wait of a job's tasks over its mean task time, 2Sigma-like trace."
    )
    return Figure(rows_of(values), values, notes)


@figure("fig7", "Speed-up on the testbed")
def figure_7(scale: Scale, results: Results) -> Figure:
    papers = zip(TRACES, (1.33, 1.46, 1.25), strict=True)
    values = [Value(f"{like}_average", "", paper, None, None, 0) for like, paper in papers]
    notes = "The paper's 150 virtual machines; not repeated. Figure 5 simulates the same comparison."
    return Figure(rows_of(values), values, notes)


#: Thin and small, wide and small, thin and large, wide and large: shares of jobs and of work, in percent.
_TABLE_8 = ((4.55, 0.01), (28.73, 0.06), (14.29, 5.41), (52.43, 94.52))
_FIGURE_8 = (10.54, 1.86, 1.0 / 1.2, 1.38)
#: Of the thin and small jobs, those that end earlier under SLearn, in percent (§5.2.7).
_BETTER_IN_BIN_1 = 82.46


def _bins(run: Any) -> list[np.ndarray]:
    width, work_s = np.array(run["width"]), np.array(run["work_s"])
    thin, small = width < 3, work_s < 1000.0
    return [thin & small, ~thin & small, thin & ~small, ~thin & ~small]


@figure("table8", "Jobs by size and width, 2Sigma-like trace", _pair_runs)
def table_8(scale: Scale, results: Results) -> Figure:
    values = []
    for at, (jobs, work) in enumerate(_TABLE_8):
        shares, works = [], []
        for seed in scale.seeds:
            run = results[jct_run(scale, TraceSpec("2sigma"), seed, "slearn")]
            chosen, total = _bins(run)[at], np.array(run["work_s"])
            shares.append(100.0 * float(chosen.mean()))
            works.append(100.0 * float(total[chosen].sum() / total.sum()))
        values.append(mean_value(f"bin_{at + 1}_jobs", "%", jobs, shares))
        values.append(mean_value(f"bin_{at + 1}_work", "%", work, works))
    notes = _notes(scale) + " Bins: thin (fewer than 3 tasks) or wide, and less than 1000 s of work or more."
    return Figure(rows_of(values), values, notes)


@figure("fig8", "Speed-up over 3Sigma by bin", _pair_runs)
def figure_8(scale: Scale, results: Results) -> Figure:
    values = []
    for at, paper in enumerate(_FIGURE_8):
        gains, better = [], []
        for seed in scale.seeds:
            run, other = (
                results[jct_run(scale, TraceSpec("2sigma"), seed, arm)] for arm in ("slearn", "3sigma-gs")
            )
            chosen = _bins(run)[at]
            if chosen.any():
                ours = np.array(run["jct_s"]["slearn"])[chosen]
                theirs = np.array(other["jct_s"]["3sigma-gs"])[chosen]
                gains.append(float(theirs.mean() / ours.mean()))
                better.append(100.0 * float((ours < theirs).mean()))
        values.append(mean_value(f"bin_{at + 1}_average", "", paper, gains))
        values.append(mean_value(f"bin_{at + 1}_earlier", "%", None if at else _BETTER_IN_BIN_1, better))
    bins = ("thin, small", "wide, small", "thin, large", "wide, large")
    chart = beside_paper(
        "2STrace", "", "speed-up over 3Sigma", values,
        {f"bin_{at + 1}_average": label for at, label in enumerate(bins)},
    )  # fmt: skip
    return Figure(rows_of(values), values, _notes(scale), (chart,))


_LIMITS = (2, 3, 4, 5, 6)
_TABLE_9 = {
    "2sigma": (1.23, 1.28, 1.14, 0.97, 0.84),
    "google2011": (1.54, 1.56, 1.55, 1.54, 1.53),
    "google2019": (1.33, 1.32, 1.32, 1.30, 1.29),
}


def _table_9_runs(scale: Scale) -> list[RunSpec]:
    arms = ("3sigma-gs", *(f"slearn/{limit}" for limit in _LIMITS))
    return jct_runs(scale, map(TraceSpec, TRACES), arms)


@figure("table9", "Speed-up over 3Sigma by thin limit", _table_9_runs)
def table_9(scale: Scale, results: Results) -> Figure:
    values = []
    for like in TRACES:
        for limit, paper in zip(_LIMITS, _TABLE_9[like], strict=True):
            means, _ = speedups(scale, results, TraceSpec(like), "3sigma-gs", f"slearn/{limit}")
            values.append(mean_value(f"{like}_limit_{limit}_average", "", paper, means))
    charts = by_trace(
        "thin limit, tasks",
        "speed-up over 3Sigma",
        values,
        lambda like: {f"{like}_limit_{limit}_average": float(limit) for limit in _LIMITS},
    )
    return Figure(rows_of(values), values, _notes(scale), charts)


_FIGURE_9 = {"3sigma-gs": 1.26, "gs-las": 2.15, "point-est": 1.74}


#: Stages of one chain share nine tenths of the variance between runs. With this share the ratio of SLearn's
#: error to 3Sigma's is close to §6's (33.90 / 47.21 = 0.72; seeds 11 to 16: 0.89 with 0.5, 0.77 with 0.8).
_CHAINS = TraceSpec("google2019", dag=True, stretches=0.9)
#: The same share as between the runs of the other traces.
_LESS_ALIKE = TraceSpec("google2019", dag=True)


def _figure_9_runs(scale: Scale) -> list[RunSpec]:
    found = jct_runs(scale, [_CHAINS], ("slearn", *_FIGURE_9, "slearn-bayes"))
    found += jct_runs(scale, [_LESS_ALIKE], ("slearn", "3sigma-gs", "slearn-bayes"))
    return found + accuracy_runs(scale, [_CHAINS])


@figure("fig9", "Speed-up for DAGs", _figure_9_runs)
def figure_9(scale: Scale, results: Results) -> Figure:
    values = []
    for arm in (*_FIGURE_9, "slearn-bayes"):
        means, _ = speedups(scale, results, _CHAINS, arm)
        values.append(mean_value(f"{arm}_average", "", _FIGURE_9.get(arm), means))
    for arm in ("3sigma-gs", "slearn-bayes"):
        means, _ = speedups(scale, results, _LESS_ALIKE, arm)
        values.append(mean_value(f"less_alike_{arm}_average", "", None, means))
    for name, paper in (("slearn", 33.90), ("3sigma", 47.21)):
        missed = measured(scale, results, _CHAINS, "predictors", name, "error_pct", "p50")
        values.append(mean_value(f"{name}_p50_error", "%", paper, missed))
    notes = _notes(scale, dag=True) + (
        " 900 chains of 2 to 5 stages, each what a job of the Google-2019-like trace would be, all of one "
        "program. How much the stages of one chain have in common decides how far the first one's pilots "
        "tell of the others; the paper does not give it. Nine tenths of the variance between runs stay for "
        "ten runs on average, with which SLearn's median error is as many times 3Sigma's as the paper's; in "
        "'less alike' a half, as in the other traces."
    )
    chart = beside_paper(
        "GTrace19-DAG", "", "mean JCT over SLearn-DAG's", values,
        {f"{arm}_average": _LABELS[arm] for arm in (*_FIGURE_9, "slearn-bayes")},
    )  # fmt: skip
    return Figure(rows_of(values), values, notes, (chart,))
