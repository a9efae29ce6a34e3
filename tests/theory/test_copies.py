"""Copies on held slots against the paper's formula T' ("Speculative Slot Reservation" §IV-C, figure 10)."""

from __future__ import annotations

import numpy as np
import pytest

from spark_sched.policies.reservation.formulas import stage_time_with_copies_s
from spark_sched_lab.simulator import ClusterSpec, JobSpec, StageSpec, pareto_sampler, simulate, uniform_nodes

#: The paper's rule: as soon as the held slots suffice.
AT_ONCE = {"spark.sched.copies.minSlowdown": "0", "spark.sched.copies.minTaskTime": "0ms"}


def stage_times_ms(tasks: int, alpha: float, seed: int) -> tuple[int, int, float]:
    """One stage's time in ms: simulated with copies, without any, and T' for the very same draws."""
    draw = pareto_sampler(alpha, 1000.0)
    durations = draw(np.random.default_rng((seed, tasks)), tasks)
    # The engine draws a copy's duration from its seed and the copy's job, stage and task alone.
    copies = [draw(np.random.default_rng((seed, 0, 0, task)), 1)[0] for task in range(tasks)]
    stage = StageSpec(durations, copy_duration_ms=draw)
    job = JobSpec("j", 0, (stage, StageSpec([1] * tasks, (0,))), priority=10)
    cluster = ClusterSpec(uniform_nodes(tasks, 1))
    rows = simulate(cluster, [job], "reservation", settings=AT_ONCE, seed=seed).tasks
    starts = zip(rows["start_ms"], rows["stage"], strict=True)
    simulated = min(start for start, index in starts if index == 1)
    return simulated, max(durations), stage_time_with_copies_s(durations, copies)


@pytest.mark.parametrize("tasks", [1, 2, 3, 20, 21, 200])
def test_a_stage_with_copies_takes_exactly_what_the_formula_says_for_the_same_draws(tasks: int) -> None:
    for seed in range(10):
        simulated, _, formula = stage_times_ms(tasks, alpha=1.6, seed=seed)
        assert simulated == formula


@pytest.mark.parametrize(("tasks", "paper", "runs"), [(20, 0.48, 800), (200, 0.76, 100)])
def test_copies_shorten_a_stage_by_the_mean_that_figure_10_shows(tasks: int, paper: float, runs: int) -> None:
    reductions = []
    for seed in range(runs):
        simulated, without, _ = stage_times_ms(tasks, alpha=1.6, seed=seed)
        reductions.append(1.0 - simulated / without)
    assert np.mean(reductions) == pytest.approx(paper, abs=0.02)
