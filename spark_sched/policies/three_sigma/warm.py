"""Loads, or compiles, the planner's inner loops before the first cycle instead of in it."""

from __future__ import annotations

from functools import cache

import numpy as np

from spark_sched.compiled import COMPILED
from spark_sched.policies.three_sigma.curves import conditional, consumption, curves, survivals, utilities
from spark_sched.policies.three_sigma.problem import Candidate, Running, build
from spark_sched.policies.three_sigma.solvers.base import Ask
from spark_sched.policies.three_sigma.solvers.lagrangian import Lagrangian
from spark_sched.policies.three_sigma.utility import best_effort, slo
from spark_sched.policies.three_sigma.window import uniform
from spark_sched.predict import RuntimeDistribution


@cache
def warm_up() -> None:
    """Call every compiled function once, on a problem too tight to be solved without search or preemption.

    Tens of seconds the first time on a machine, while numba compiles; half a second from its cache.
    """
    if not COMPILED:
        return
    grid = uniform(4, 1000)
    starts_s = grid.starts_ms / 1000.0
    known = curves([RuntimeDistribution.uniform_s(1.0, 4.0)] * 6)
    which, factor = np.arange(6), np.ones(6)
    survivals(known, np.ones(6))
    use = consumption(known, which, factor, grid.elapsed_ms / 1000.0)
    stays, _, _ = conditional(known, factor, np.ones(6), starts_s)
    worth = utilities(known, which, factor, [slo(4.0)] * 3 + [best_effort(0.0, 9.0, 0.4)] * 3, starts_s)
    # One of two sets lies inside the other.
    candidates = [
        Candidate(job, mask, 2 + job % 3, worth[job], use[job])
        for job in range(6)
        for mask in ((1, 3) if job < 3 else (3,))
    ]
    running = [Running(np.array([1.0, 1.0]), stays[job], 0.3) for job in range(2)]
    problem = build(grid, np.array([4.0, 4.0]), 6, candidates, running)
    ask = Ask(np.random.default_rng(0), gap=0.0)
    # Too little work for the optimum.
    Lagrangian(cold_steps=10, moves=60, work=500).solve(problem, ask)
