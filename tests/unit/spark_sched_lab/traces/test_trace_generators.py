"""Generators against the numbers their papers give; fixed seeds, enough jobs for the margins stated."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from spark_sched.errors import BadInputError
from spark_sched_lab.traces import Trace, TraceMeta, write_trace
from spark_sched_lab.traces.generators import GENERATORS, e2e, pareto_jobs, thesis_workload
from spark_sched_lab.traces.generators.arrivals import hyperexponential, poisson
from spark_sched_lab.traces.generators.classes import fit_classes, google_classes
from spark_sched_lab.traces.generators.thesis import PRIORITY_PERCENT, WORKLOADS
from spark_sched_lab.traces.jobs import JobRecord, StageRecord, TaskRows, chunked


def rng(seed=1):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("name", sorted(GENERATORS))
def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(tmp_path, name):
    short = {"e2e": {"hours": 1.0}, "thesis": {"hours": 0.2}, "pareto": {"jobs": 5}}
    short["recurring"] = {"jobs": 5, "history": 5}
    short = short[name]
    for file, seed in (("a", 3), ("b", 3), ("c", 4)):
        write_trace(GENERATORS[name](rng(seed), **short), tmp_path / file)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert (tmp_path / "a").read_bytes() != (tmp_path / "c").read_bytes()


@pytest.mark.parametrize("c2", [1.0, 4.0, 9.0])
def test_hyperexponential_gaps_have_the_mean_and_c2_asked_for(c2):
    gaps = np.diff(hyperexponential(rng(), 400_000, 5.0, c2))
    assert gaps.mean() == pytest.approx(5.0, rel=0.02)
    assert (gaps.std() / gaps.mean()) ** 2 == pytest.approx(c2, rel=0.05)


def test_poisson_gaps_have_c2_of_one():
    gaps = np.diff(poisson(rng(), 200_000, 2.0))
    assert (gaps.std() / gaps.mean()) ** 2 == pytest.approx(1.0, rel=0.03)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("load", "slo_share"), [(1.4, 0.5), (0.9, 0.25)])
def test_e2e_offers_the_load_it_was_asked_for_in_the_mix_asked_for(seed, load, slo_share):
    jobs = e2e(rng(seed), load=load, slo_share=slo_share).jobs
    work = jobs["runtime_s"].to_numpy() * jobs["slots"].to_numpy() / (256 * 5 * 3600)
    slo = np.array(jobs["class"].to_pylist()) == "slo"
    assert work[slo].sum() == pytest.approx(load * slo_share, rel=0.011)
    assert work[~slo].sum() == pytest.approx(load * (1 - slo_share), rel=0.011)
    assert jobs["submit_s"].to_numpy().max() == pytest.approx(5 * 3600)


def test_e2e_slo_jobs_have_deadlines_from_the_slacks_and_prefer_three_quarters_of_the_cluster():
    jobs = e2e(rng()).jobs.to_pylist()
    slacks = set()
    for job in jobs:
        if job["class"] == "slo":
            slacks.add(round((job["deadline_s"] - job["submit_s"] - job["runtime_s"]) / job["runtime_s"], 6))
            assert len(set(job["preferred"])) == 6
            assert set(job["preferred"]) <= set(range(8))
            assert job["elsewhere_factor"] == 1.5
        else:
            assert job["deadline_s"] is job["preferred"] is job["elsewhere_factor"] is None
        assert job["demand"] == "gang"
        assert 1 <= job["slots"] <= 256
    assert slacks == {0.2, 0.4, 0.6, 0.8}


def test_e2e_arrivals_are_bursty_with_c2_of_four():
    gaps = np.concatenate([np.diff(e2e(rng(s)).jobs["submit_s"].to_numpy()) for s in range(5)])
    assert (gaps.std() / gaps.mean()) ** 2 == pytest.approx(4.0, rel=0.2)


def test_the_built_in_classes_are_shares_and_ranges():
    classes = google_classes()
    assert sum(c.weight for c in classes) == pytest.approx(1.0, abs=1e-4)
    for low, high in pairwise(classes):
        assert low.max_s <= high.min_s
    for c in classes:
        drawn = c.runtimes_s(rng(), 500)
        assert c.min_s <= drawn.min()
        assert drawn.max() <= c.max_s
        assert c.task_counts(rng(), 500).max() <= 256
        assert sum(p for _, _, p in c.features) <= 1 + 1e-6


def test_fitting_finds_the_clusters_that_a_trace_was_made_of():
    records = [
        JobRecord(
            f"{i}",
            "finished",
            "gang",
            runtime_s=(10.0, 1000.0)[i % 2],
            slots=(1, 8)[i % 2],
            user="u",
            name=f"n{i % 2}",
        )
        for i in range(200)
    ]
    records.append(JobRecord("long", "killed", "gang", runtime_s=1e6, slots=1))
    records.append(JobRecord("wide", "finished", "gang", runtime_s=10.0, slots=300))
    short, long = fit_classes(Trace.from_chunks(chunked(records), TraceMeta("test")), classes=2)
    assert (short.weight, long.weight) == (0.5, 0.5)
    assert np.exp(short.log_mean) == pytest.approx(10, rel=1e-3)
    assert np.exp(long.log_mean) == pytest.approx(1000, rel=1e-3)
    assert set(long.task_quantiles) == {8.0}
    assert [p for _, _, p in short.features] == [1.0]


def test_fitting_to_too_few_jobs_is_refused():
    with pytest.raises(BadInputError, match="0 finished jobs"):
        fit_classes(Trace.from_chunks([], TraceMeta("test")))


@pytest.mark.parametrize(("workload", "burst_s"), [("W-B", 204), ("W-C", 252), ("W-D", 204), ("W-E", 252)])
def test_bursts_last_as_long_as_sixty_thousand_tasks_need(workload, burst_s):
    assert WORKLOADS[workload].mean_burst_s == pytest.approx(burst_s)


@pytest.mark.parametrize("workload", ["W-D", "W-E"])
def test_synthetic_workloads_average_sixty_thousand_tasks_and_the_low_variant_three_quarters(workload):
    arrivals_s = WORKLOADS[workload].arrivals_s
    full = [len(arrivals_s(rng(s), 15.0, low=False)) for s in range(40)]
    low = [len(arrivals_s(rng(s), 15.0, low=True)) for s in range(40)]
    assert np.mean(full) == pytest.approx(60_000, rel=0.08)
    assert np.mean(low) == pytest.approx(45_000, rel=0.08)


def test_synthetic_tasks_have_the_tables_priorities_usages_and_durations():
    trace = thesis_workload(rng())
    priority = trace.jobs["priority"].to_numpy()
    total = sum(PRIORITY_PERCENT.values())
    assert (priority == 4).mean() == pytest.approx(PRIORITY_PERCENT[4] / total, abs=0.01)
    assert (priority == 0).mean() == pytest.approx(PRIORITY_PERCENT[0] / total, abs=0.01)
    production = priority >= 9
    for values, other, mine in (("cpus", 0.01, 0.02), ("memory", 0.01, 0.02), ("mean_task_s", 3400, 27200)):
        column = trace.stages[values].to_numpy()
        assert column[~production].mean() == pytest.approx(other, rel=0.03)
        assert column[production].mean() == pytest.approx(mine, rel=0.15)


def real_trace():
    rows = TaskRows()
    rows.add(0, 5.0)
    rows.add(1, 7.0)
    rows.add(2, 99.0, outcome="killed")
    good = JobRecord(
        "a", "finished", "malleable", [StageRecord(tasks=3, cpus=0.1, memory=0.2, rows=rows)], priority=9
    )
    other = JobRecord("b", "finished", "malleable", [StageRecord(tasks=1, mean_task_s=3.0)], priority=2)
    return Trace.from_chunks(chunked([other, good]), TraceMeta("test"))


def test_semi_synthetic_workloads_draw_finished_tasks_of_the_real_trace():
    trace = thesis_workload(rng(), workload="W-B", hours=0.5, source=real_trace())
    assert set(trace.stages["mean_task_s"].to_pylist()) == {5.0, 7.0}
    assert set(trace.stages["cpus"].to_pylist()) == {0.1}
    assert set(trace.jobs["priority"].to_pylist()) == {9}


def test_pareto_tasks_have_the_mean_and_the_tail_asked_for():
    trace = pareto_jobs(rng(), jobs=500, stages=2, tasks=100, mean_task_s=10, alpha=2.5)
    durations = trace.tasks["duration_s"].to_numpy()
    assert durations.mean() == pytest.approx(10, rel=0.02)
    assert durations.min() == pytest.approx(10 * 1.5 / 2.5, rel=1e-3)
    assert (durations > 12).mean() == pytest.approx((6 / 12) ** 2.5, rel=0.03)
    assert trace.stages["parents"].to_pylist()[:4] == [[], [0], [], [0]]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        pytest.param(lambda: e2e(rng(), load=0), "load is 0", id="no load"),
        pytest.param(lambda: e2e(rng(), slo_share=1.5), "slo_share is 1.5", id="more than all"),
        pytest.param(lambda: e2e(rng(), slacks=()), "slacks are", id="no slack"),
        pytest.param(lambda: e2e(rng(), c2=0.5), "c2 is 0.5", id="smoother than Poisson"),
        pytest.param(lambda: e2e(rng(), hours=0.001), "classes have no jobs", id="no job fits"),
        pytest.param(lambda: thesis_workload(rng(), workload="W-F"), "did you mean", id="no such workload"),
        pytest.param(lambda: thesis_workload(rng(), workload="W-B"), "--source", id="no real trace"),
        pytest.param(
            lambda: thesis_workload(rng(), source=real_trace()), "samples no trace", id="a trace without use"
        ),
        pytest.param(
            lambda: thesis_workload(rng(), workload="W-C", source=pareto_jobs(rng(), jobs=1)),
            "no finished task",
            id="no requests",
        ),
        pytest.param(lambda: pareto_jobs(rng(), alpha=1.0), "alpha is 1.0", id="an infinite mean"),
        pytest.param(lambda: pareto_jobs(rng(), jobs=0), "jobs is 0", id="no jobs"),
    ],
)
def test_parameters_out_of_range_are_refused_by_name_and_value(make, words):
    with pytest.raises(BadInputError, match=words):
        make()
