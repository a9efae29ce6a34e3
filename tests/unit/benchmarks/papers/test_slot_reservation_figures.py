"""The slot-reservation paper's figures: their workload, and those that are reckoned rather than simulated."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from benchmarks.papers.command import reproduce
from benchmarks.papers.figures import Figure
from benchmarks.papers.slot_reservation import isolation, stragglers, workload
from benchmarks.papers.slot_reservation.contention import alone, contended, copies_in_stages
from benchmarks.papers.slot_reservation.deadlines import stages_under
from benchmarks.papers.slot_reservation.workload import SUITES, Size

SMALL = Size(nodes=50, jobs=60, each=1)


def rng(*seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_the_background_is_a_third_of_each_kind_in_the_order_of_its_arrival() -> None:
    jobs = workload.background(SMALL, rng(1))
    kinds = [job.job_class for job in jobs]
    assert {kind: kinds.count(kind) for kind in set(kinds)} == {
        "background google": 20,
        "background mllib": 20,
        "background sql": 20,
    }
    assert all(a.submit_ms <= b.submit_ms for a, b in pairwise(jobs))
    assert {job.priority for job in jobs} == {0}
    assert jobs == workload.background(SMALL, rng(1))


def test_the_background_arrives_at_the_stated_load() -> None:
    jobs = workload.background(SMALL, rng(1))
    work_ms = sum(job.work_ms() for job in jobs)
    assert work_ms / (jobs[-1].submit_ms * 200) == pytest.approx(SMALL.load, rel=1e-3)
    assert workload.busy_ms(SMALL, jobs) == round(work_ms / 200)


def test_stretching_the_background_moves_no_arrival() -> None:
    plain, long = workload.background(SMALL, rng(1)), workload.background(SMALL, rng(1), stretch=2.0)
    assert [job.submit_ms for job in plain] == [job.submit_ms for job in long]
    assert sum(job.work_ms() for job in long) == 2 * sum(job.work_ms() for job in plain)


def test_no_google_like_job_is_longer_than_the_window_or_wider_than_all_but_the_widest() -> None:
    jobs = workload.background(Size(nodes=50, jobs=1_500), rng(3))
    google = [job.stages[0] for job in jobs if job.job_class == "background google"]
    assert max(max(stage.durations_ms) for stage in google) <= 3_600_000
    assert max(stage.tasks for stage in google) <= 1_050


def test_a_suite_draws_the_same_whether_or_not_the_others_are_there() -> None:
    def sql(suites: tuple[str, ...]) -> dict[str, object]:
        jobs = workload.foreground(SMALL, rng(2), 100_000, suites)
        return {job.key: job.stages for job in jobs if job.job_class == "sql"}

    assert len(sql(("sql",))) == 20
    assert sql(("sql",)) == sql(SUITES)


def test_mllib_jobs_keep_their_width_and_queries_change_theirs() -> None:
    for job in workload.foreground(SMALL, rng(2), 100_000):
        widths = [stage.tasks for stage in job.stages]
        if job.job_class == "sql":
            assert len(set(widths)) > 1
            assert job.dag_known == "to the end"
            assert not job.marked
        else:
            assert set(widths) == {40 if job.job_class == "mllib-2x" else 20}
            # As live: what follows an action of a marked job is in no DAG.
            assert job.marked
            assert job.dag_known == "nothing"


def test_pareto_tasks_have_the_mean_of_the_stage_they_replace() -> None:
    size = Size(nodes=50, jobs=60, each=40)
    jobs = workload.foreground(size, rng(2), 100_000, ("mllib-2x",))
    heavy = list(workload.with_pareto_tasks(jobs, 2.5, rng(4)))
    plain, changed = (sum(job.work_ms() for job in some) for some in (jobs, heavy))
    assert changed == pytest.approx(plain, rel=0.03)
    assert max(max(heavy[0].stages[0].durations_ms), 1) != max(jobs[0].stages[0].durations_ms)


def test_an_arm_sees_the_same_jobs_and_every_job_ends() -> None:
    size = {"nodes": 50, "jobs": 60, "each": 1, "queries": 1, "load": 2.0}
    shared = {"size": size, "seed": 1, "suites": ["mllib"], "slowdown": 5.0}
    times = alone(**shared)
    without = contended(**shared, policy="priority", settings={})
    kept = contended(**shared, policy="reservation", settings={"spark.sched.copies.enabled": "false"})
    assert set(times) == set(without["foreground"]) == set(kept["foreground"])
    assert set(without["background_jct_ms"]) == set(kept["background_jct_ms"])
    assert None not in {*without["background_jct_ms"].values(), *kept["background_jct_ms"].values()}
    mean = {
        name: np.mean([row["jct_ms"] / times[job] for job, row in found["foreground"].items()])
        for name, found in (("without", without), ("with", kept))
    }
    assert 1.0 <= mean["with"] < mean["without"]


def test_the_event_simulation_takes_the_formulas_time_for_the_same_draws() -> None:
    found = copies_in_stages(tasks=20, alpha=1.6, seeds=range(20))
    assert found["simulated"] == pytest.approx(found["formula"], abs=1e-12)


def test_drawn_stages_keep_what_figure_8_promises() -> None:
    figures, _ = reproduce("slot-reservation", ("8",), quick=True)
    values = {value.name: value for value in figures[0].values}
    for n in (20, 200):
        effective = values[f"effective_reservations_p_0_9_alpha_1_6_n_{n}"]
        assert effective.paper is None  # equation 2 promises it, the paper's text has no number
        assert values[f"effective_reservations_formula_p_0_9_alpha_1_6_n_{n}"].ours == pytest.approx(0.9)
        assert effective.ours == pytest.approx(0.9, abs=0.03)
        measured = values[f"utilization_measured_p_0_9_alpha_1_6_n_{n}"]
        bound = values[f"utilization_bound_p_0_9_alpha_1_6_n_{n}"]
        assert measured.ours == pytest.approx(bound.ours, rel=0.05)
    assert values["equation_3_integral_alpha_1_6_deadline_7_t_m"].ours == pytest.approx(0.262, abs=5e-4)
    assert values["equation_3_closed_form_alpha_1_6_deadline_7_t_m"].ours == pytest.approx(0.307, abs=5e-4)


def test_the_calibrated_deadline_attains_p_where_the_papers_form_does_not_fit() -> None:
    def attained(rule: str) -> float:
        settings = {"spark.sched.reservation.deadline": rule, "spark.sched.reservation.isolation": "0.4"}
        return stages_under(times="log-normal 1", settings=settings, seeds=range(6))["attained"]

    assert attained("calibrated") == pytest.approx(0.4, abs=0.05)
    assert attained("pareto") < 0.3


def test_the_simulated_figures_are_built_of_their_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a small cluster: what they show at the paper's size is tests/theory's matter."""
    small = Size(nodes=50, jobs=9, each=1)
    monkeypatch.setattr(workload, "_QUERIES", 4)
    monkeypatch.setattr(isolation, "_size", lambda scale: small)
    monkeypatch.setattr(isolation, "_size_16", lambda scale: small)
    monkeypatch.setattr(stragglers, "_size", lambda scale: small)
    monkeypatch.setattr(stragglers, "_tails", lambda scale: (1.6,))
    figures, found = reproduce("slot-reservation", ("15", "16", "17"), quick=True)
    assert [figure["id"] for figure in found["figures"]] == ["fig15", "fig16", "fig17"]
    fig15, fig16, fig17 = figures
    assert len(fig15.rows) == 9  # settings times suites
    assert {"slowdown_with_mllib_standard", "background_slowdown_locality_10x"} <= names(fig15)
    assert [row["R"] for row in fig16.rows] == [0.1, 0.9, "1 (never)"] * 2
    assert "jct_reduction_alpha_1_6" in names(fig17)
    for figure in figures:
        assert len(names(figure)) == len(figure.values)
        for value in figure.values:
            assert value.ours is not None
            assert np.isfinite(value.ours)
            assert value.ci95 is None or value.ci95[0] <= value.ours <= value.ci95[1]


def names(figure: Figure) -> set[str]:
    return {value.name for value in figure.values}
