"""Recorded jobs, the paper's testbeds and what their figures are built of, on cases worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.papers.command import reproduce
from benchmarks.papers.slot_reservation import (
    fair_pools,
    loads,
    testbed,
    testbed_jobs,
    testbeds,
)
from benchmarks.papers.slot_reservation.deadlines import simulated_stages
from benchmarks.papers.slot_reservation.testbeds import pace_of, sweet_spot
from benchmarks.papers.slot_reservation.workload import Size
from spark_sched_lab.simulator import JobSpec, StageSpec


def stage(job: int, parents: list[int], *tasks_us: int) -> dict[str, Any]:
    return {"job": job, "parents": parents, "tasks_us": list(tasks_us)}


def test_a_recorded_job_keeps_its_stages_and_the_ratios_of_its_task_times() -> None:
    job = testbed_jobs.job_of([stage(0, [], 10, 30), stage(0, [0], 20), stage(1, [1], 20)], "svm", 2_000.0)
    assert [list(spec.durations_ms) for spec in job.stages] == [[1_000, 3_000], [2_000], [2_000]]
    assert [spec.parents for spec in job.stages] == [(), (0,), (1,)]
    assert [spec.delay_ms for spec in job.stages] == [0, 0, testbed_jobs.DRIVER_MS]
    assert [spec.part for spec in job.stages] == [0, 0, 1]
    # As live: a marked job, of which nobody knows which Spark job is the last.
    assert (job.marked, job.dag_known, job.priority) == (True, "next stage", testbed_jobs.PRIORITY)
    low = testbed_jobs.job_of([stage(0, [], 10)], "svm", 2_000.0, foreground=False)
    assert (low.marked, low.priority) == (False, 0)


def test_every_recorded_run_is_a_job_of_its_width() -> None:
    for application in testbed_jobs.APPLICATIONS:
        for width in (8, 20):
            for run in testbed_jobs.recorded_runs(application, width):
                testbed_jobs.job_of(run, application, 1_000.0).check()
                assert max(len(each["tasks_us"]) for each in run) == width


def test_half_of_the_background_waits_and_stretching_it_moves_no_arrival() -> None:
    plain, long = (
        testbed_jobs.background(np.random.default_rng(1), stretch=stretch) for stretch in (1.0, 2.0)
    )
    assert [job.submit_ms for job in plain] == [job.submit_ms for job in long]
    assert [job.submit_ms for job in plain].count(1) == 50
    assert max(job.submit_ms for job in plain) <= 360_000
    assert sum(job.work_ms() for job in long) == 2 * sum(job.work_ms() for job in plain)


@pytest.mark.parametrize(("policy", "kmeans_ms"), [("priority", 6_000), ("reservation", 3_000)])
def test_kmeans_waits_for_the_svm_tasks_on_its_slots(
    monkeypatch: pytest.MonkeyPatch, policy: str, kmeans_ms: int
) -> None:
    """Seven tasks of 1 s and one of 2 s, then eight of 1 s; SVM's take 4 s.

    Without reservation SVM has seven slots from 1 s to 5 s. The one that KMeans keeps runs three of its tasks
    from 2 s to 5 s, and the other five run from then to 6 s.
    """
    kmeans = [stage(0, [], *[1_000] * 7, 2_000), stage(0, [0], *[1_000] * 8)]
    document = {"kmeans": {"8": [kmeans]}, "svm": {"8": [[stage(0, [], *[500] * 8)]]}}
    monkeypatch.setattr(testbed_jobs, "_document", lambda: document)
    monkeypatch.setattr(testbed_jobs, "MEAN_TASK_MS", 17_000.0 / 16.0)
    monkeypatch.setattr(testbed, "_REPEATS", 0)
    monkeypatch.setattr(testbed, "_FIRST_MS", 2)  # SVM comes at 1 ms
    pace = 4_000.0 / (17_000.0 / 16.0)
    assert testbed.two_jobs(seed=0, policy=None, pace=pace) == {"kmeans": 3_000, "svm": 4_000}
    assert testbed.two_jobs(seed=0, policy=policy, pace=pace)["kmeans"] == kmeans_ms


def test_running_tasks_are_counted_at_each_step() -> None:
    tasks = {"job": [0, 0, 1], "start_ms": [0, 250, 0], "end_ms": [500, 750, 9_000]}
    assert testbed.running_over_time(tasks, 0, 750) == [1, 2, 1, 0]


def test_a_foreground_job_beside_a_background_of_one_long_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two stages of 20 tasks of 1 s but one of 2 s, among tasks of 60 s on all other slots.

    Nothing else ends, so that without reservation the one task that ended last leaves the only slot. With it
    the 19 slots idle for a second: 19 of the 300 slot-seconds of 100 slots in 3 s.
    """
    kmeans = [stage(0, [], *[1_000] * 19, 2_000), stage(0, [0], *[1_000] * 20)]
    monkeypatch.setattr(testbed_jobs, "_document", lambda: {"kmeans": {"20": [kmeans]}})
    monkeypatch.setattr(testbed_jobs, "MEAN_TASK_MS", 41_000.0 / 40.0)
    others = [JobSpec("bg-0", 1, (StageSpec([60_000] * 200),))]
    monkeypatch.setattr(testbed, "background", lambda rng, stretch: others)
    case: dict[str, Any] = {"application": "kmeans", "seed": 0, "local": False}
    kept = testbed.beside_background(**case, policy="reservation", stretch=1.0, series=True)
    assert kept["jct_ms"] == 3_000
    assert kept["running"] == [20] * 4 + [1] * 4 + [20] * 4 + [0]
    assert kept["held_idle_slot_ms"] == 19_000
    assert kept["loss"] == pytest.approx(19.0 / 300.0)
    lost = testbed.beside_background(**case, policy="priority", stretch=1.0)
    assert (lost["jct_ms"], lost["held_idle_slot_ms"]) == (22_000, 0)


def test_one_stage_loses_its_holds_to_a_fixed_deadline() -> None:
    """Of three stages the first is not counted and the last one holds nothing; the second ends after 5 s."""
    fixed = {"spark.sched.reservation.deadline": "fixed", "spark.sched.reservation.maxHold": "3s"}
    found = simulated_stages([[1_000, 1_000], [1_000, 5_000], [1_000, 1_000]], fixed)
    assert found == {"stages": 1, "lost": 1, "held_ms": 2_000, "slot_ms": 14_000}


def test_the_sweet_spot_is_farthest_above_the_line_between_the_ends() -> None:
    # Of both axes' ranges the middle level keeps 3/4 and 4/5, every point of the line 1 in all.
    assert sweet_spot((0.0, 0.4, 1.0), (3.0, 1.5, 1.0), (100.0, 80.0, 0.0)) == 0.4
    assert sweet_spot((0.0, 0.4, 1.0), (3.0, 2.9, 1.0), (100.0, 10.0, 0.0)) is None
    assert sweet_spot((0.0, 0.4, 1.0), (3.0, 1.0, 1.0), (100.0, 0.0, 0.0)) is None


def test_the_pace_of_the_papers_slowdown_is_interpolated() -> None:
    assert pace_of([(1.0, 2.0), (3.0, 6.0)], 3.9) == pytest.approx(1.95)
    assert pace_of([(1.0, 2.0), (3.0, 3.0)], 3.9) is None


def test_the_closest_load_changes_least() -> None:
    assert loads.closest_load({0.7: 0.98, 1.0: 1.05, 2.0: 1.3}) == 0.7


def test_the_testbeds_figures_are_built_of_their_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testbed_jobs, "_JOBS", 12)
    monkeypatch.setattr(testbeds, "APPLICATIONS", ("kmeans",))
    monkeypatch.setattr(testbeds, "_LEVELS", (0.0, 1.0))
    monkeypatch.setattr(testbeds, "_PACES", (1.0,))
    monkeypatch.setattr(testbeds, "_seeds", lambda scale: [1])
    monkeypatch.setattr(testbed, "_REPEATS", 2)
    monkeypatch.setattr(loads, "_size", lambda scale, load: Size(nodes=50, jobs=9, each=1, load=load))
    monkeypatch.setattr(loads, "_LOADS", (0.7,))
    monkeypatch.setattr(loads, "_SUITES", ("mllib",))
    wanted = ("1", "4", "5", "12", "14", "fig15-loads")
    figures, document = reproduce("slot-reservation", wanted, quick=True)
    assert [figure.id for figure in figures] == ["fig1", "fig4", "fig5", "fig12", "fig14", "fig15-loads"]
    for figure in figures:
        names = [value.name for value in figure.values]
        assert len(names) == len(set(names))
        assert figure.rows
        for value in figure.values:
            assert value.ours is None or np.isfinite(value.ours)
    texts = {
        value["name"]: value["paper_text"]
        for figure in document["figures"]
        for value in figure["values"]
        if "paper_text" in value
    }
    assert texts["slowdown_with_12b_kmeans"] == "< 10 %"
    assert texts["sweet_spot_pareto_kmeans"] == "P = 0.4"
    assert texts["kmeans_slowdown_without_svm_pace_1"] == "3.9 × slowdown"


def test_figure_13_keeps_the_share_of_a_job_with_barriers_at_any_width_and_slows_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fair_pools, "_DRAWS", 3)
    figures, _ = reproduce("slot-reservation", ("13",), quick=True)
    rows = {row["width of job-1"]: row for row in figures[0].rows}
    assert list(rows) == [2, 4, 6, 8, 12]
    for row in rows.values():
        assert row["its JCT, with / without"] <= 1.0
        assert row["job-2, worst run"] <= 1.1
    # The paper's case: as if alone in a half-sized cluster, where stock Spark interrupts it at each barrier.
    assert rows[4]["slowdown with"] == 1.0
    assert rows[4]["its slowdown, without"] > 1.3
    assert {chart.title for chart in figures[0].charts} == {"Without reservation", "With reservation"}
