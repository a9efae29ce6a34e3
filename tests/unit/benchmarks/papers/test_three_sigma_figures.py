"""3Sigma's figures: what their runs return, and that every figure is built from such results."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from benchmarks.papers.figures import document
from benchmarks.papers.registry import choose, load
from benchmarks.papers.runs import Scale
from benchmarks.papers.three_sigma import e2e
from benchmarks.papers.three_sigma.example import plan
from benchmarks.papers.three_sigma.summaries import mean_ci
from spark_sched.protocol.events import JobStarted, StageStarted
from spark_sched.state import ClusterState
from spark_sched_lab.runs.paired.statistics import spread

pytest.importorskip("scipy")
PAPER = load("3sigma")

SHORT: dict[str, Any] = {"seed": 3, "hours": 0.03, "load": 1.4}


@pytest.fixture(scope="module")
def short() -> dict[str, Any]:
    return e2e.run(policy="3sigma", **SHORT)


def test_a_run_is_json_and_repeats_itself_but_for_times(short: dict[str, Any]):
    again = e2e.run(policy="3sigma", **SHORT)
    assert json.loads(json.dumps(short)) == short
    timed = {"cycle_cpu_ms", "solve_cpu_ms", "lookup_ms"}
    assert {k: v for k, v in short.items() if k not in timed} == {
        k: v for k, v in again.items() if k not in timed
    }
    assert short["jobs"] > 5
    assert short["plans"] > 5
    assert short["status"].get("refused", 0) == 0


def test_all_policies_get_the_same_jobs(short: dict[str, Any]):
    prio = e2e.run(policy="prio", **SHORT)
    assert (prio["jobs"], prio["slo_jobs"]) == (short["jobs"], short["slo_jobs"])


def test_a_perturbed_forecast_is_centred_where_it_should_be():
    jobs = e2e.workload(3, 0.2, 1.4)
    around = e2e._Around(0.5, 0.2, np.random.default_rng(0))
    seen = list(around.watch(jobs))
    assert seen == jobs
    ratios, widths = [], []
    for job in jobs:
        told = around._forecasts[job.key]
        assert told.runtime is not None
        truth_s = max(job.stages[0].durations_ms) / 1000
        ratios.append(told.runtime_point_s / truth_s)
        spread_s = told.runtime.quantile(0.84) - told.runtime.quantile(0.16)
        widths.append(float(spread_s) / 2 / truth_s)
    assert np.mean(ratios) == pytest.approx(1.5, abs=0.03)
    assert np.median(widths) == pytest.approx(0.2, rel=0.05)


def test_wider_jobs_make_the_same_load_on_a_larger_cluster():
    plain = e2e.workload(3, 0.2, 0.95, nodes=256)
    wide = e2e.workload(3, 0.2, 0.95, nodes=1024, wider=4)
    assert len(wide) == len(plain)
    assert sum(job.work_ms() for job in wide) == 4 * sum(job.work_ms() for job in plain)


def test_the_worked_example_comes_out_exactly():
    first, second = plan(low=0.0, high=10.0), plan(low=2.5, high=7.5)
    assert first["slo"] == [1, 1, 1, 0.75, 0.5, 0.25, 0, 0]
    assert second["slo"] == [1, 1, 1, 1, 0.5, 0, 0, 0]
    assert (first["start"], second["start"]) == ([0, 10], [7.5, 0])


def test_intervals_over_seeds_are_those_of_all_comparisons():
    values = [0.3, 0.2, 1.1, 0.9, 0.7, 0.65, 0.5, 0.8, 1.2, 0.4]
    common = spread(values, np.random.default_rng(0))
    assert mean_ci(values) == (common.mean, (common.low, common.high))
    assert mean_ci([1, 2, 3, 4]) == (2.5, None)


@pytest.mark.parametrize("quick", [True, False])
def test_every_figure_is_built_from_the_results_of_its_runs(short: dict[str, Any], quick: bool):
    scale = PAPER.scale(quick)
    figures = []
    for spec in choose(PAPER, []):
        results = {
            run: run() if spec.id == "fig5" else {**short, "policy": json.loads(run.arguments)["policy"]}
            for run in spec.runs(scale)
        }
        figures.append(spec.build(scale, results))
    assert [figure.id for figure in figures] == [spec.id for spec in PAPER.figures]
    for figure in figures:
        assert figure.rows, figure.id
        names = [value.name for value in figure.values]
        assert len(names) == len(set(names)), figure.id
        assert all(name.replace("_", "").replace(".", "").isalnum() for name in names), names
    json.dumps(document(PAPER.name, figures))


def test_without_calibration_jobs_have_the_histograms_of_the_paper() -> None:
    jobs = e2e.workload(3, 0.2, 1.4)
    calibrated = e2e._trained(jobs)
    asis = e2e._AsInThePaper(calibrated)
    state = ClusterState()
    for job in jobs[:20]:
        events = (
            JobStarted(
                job.submit_ms,
                job.key,
                job.name,
                job.user,
                job.priority,
                None,
                None,
                job.job_class,
                True,
                True,
            ),
            StageStarted(
                job.submit_ms, job.key, f"{job.key}.0", "s", 0, job.stages[0].tasks, None, True, False
            ),
        )
        for event in events:
            state.apply(event)
            asis.observe(event)
    differ = 0
    for key, view in state.snapshot().jobs.items():
        raw, usual = asis.forecast(view), calibrated.forecast(view)
        assert raw.runtime is calibrated.history_of(key)
        assert raw.runtime_point_s == usual.runtime_point_s
        differ += raw.runtime is not usual.runtime
    assert differ > 0


def test_the_figures_compare_with_and_without_calibration() -> None:
    scale = Scale(quick=True, seeds=(1,))
    for figure in choose(PAPER, ["fig1", "fig6", "fig7"]):
        arguments = [json.loads(run.arguments) for run in figure.runs(scale)]
        assert [each.get("calibrated") for each in arguments if each["policy"] == "3sigma"] == [None, False]
