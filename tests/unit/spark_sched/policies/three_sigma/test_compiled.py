"""Compiled or not: the same plans to the last bit, and nothing left to compile in the live loop."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from itertools import product

import numpy as np
import pytest

from spark_sched import compiled
from spark_sched.policies.three_sigma.curves import consumption, curves, utilities
from spark_sched.policies.three_sigma.problem import Candidate, Problem, Running, build
from spark_sched.policies.three_sigma.solvers import Ask, Lagrangian
from spark_sched.policies.three_sigma.utility import best_effort, slo
from spark_sched.policies.three_sigma.warm import warm_up
from spark_sched.policies.three_sigma.window import growing
from spark_sched.predict import RuntimeDistribution


def contended(seed: int, jobs: int = 30, runs: int = 12, slots: float = 14.0) -> Problem:
    """Jobs, half with a deadline, and running ones on two partitions that hold a third of the work."""
    rng = np.random.default_rng(seed)
    grid = growing(12, 1000, 60_000)
    known = curves([RuntimeDistribution.from_samples_s(rng.lognormal(2, 1, 9)) for _ in range(jobs + runs)])
    which, factor = np.repeat(np.arange(jobs), 2), np.tile([1.0, 1.5], jobs)
    wanted = [slo(30.0) if job < jobs // 2 else best_effort(0.0, 90.0, 0.05) for job in which]
    worth = utilities(known, which, factor, wanted, grid.starts_ms / 1000.0)
    use = consumption(known, which, factor, grid.elapsed_ms / 1000.0)
    widths = rng.integers(1, 6, jobs)
    candidates = [
        Candidate(int(job), 1 if n % 2 == 0 else 3, int(widths[job]), worth[n], use[n])
        for n, job in enumerate(which)
    ]
    running = [
        Running(np.array([1.0, 1.0]), np.exp(-grid.starts_ms / 20_000 / (r + 1)), 0.02 + 0.01 * r)
        for r in range(runs)
    ]
    return build(grid, np.array([slots, slots]), jobs, candidates, running)


def small(seed: int) -> Problem:
    """One whose optimum takes some thousands of steps."""
    return contended(seed, jobs=6, runs=3, slots=5.0)


def fingerprint() -> str:
    """Of plans, values and bounds, each from cold and then from the prices found."""
    digest = hashlib.sha256()
    enough, too_little = Lagrangian(moves=60), Lagrangian(moves=60, work=500)
    cases = [(contended, enough), (small, too_little), (small, enough)]
    for seed, (make, solver) in product(range(4), cases):
        problem = make(seed)
        digest.update(problem.utility.tobytes() + problem.use.tobytes())
        start = None
        for _ in range(2):
            ask = Ask(np.random.default_rng(seed), gap=1e-6, start=start)
            solution = solver.solve(problem, ask)
            start = solution.price
            plan = solution.assignment
            digest.update(plan.group.tobytes() + plan.start.tobytes() + plan.preempted.tobytes())
            digest.update(np.array([solution.value, solution.bound]).tobytes())
    return digest.hexdigest()


def test_compiled_and_plain_functions_make_the_same_plans():
    if not compiled.COMPILED:
        pytest.skip("numba is not installed: everything is plain here")
    code = f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r}); import test_compiled as t; "
    plain = subprocess.run(
        [sys.executable, "-c", code + "assert not t.compiled.COMPILED; sys.stdout.write(t.fingerprint())"],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert plain.stdout == fingerprint()


def test_after_the_warm_up_nothing_is_left_to_compile():
    if not compiled.COMPILED:
        pytest.skip("numba is not installed: nothing is compiled")
    from spark_sched.policies.three_sigma import curves as curves_module
    from spark_sched.policies.three_sigma.solvers import branch_and_bound, packing, search

    def versions() -> dict[str, int]:
        return {
            f"{module.__name__}.{name}": len(value.signatures)
            for module in (branch_and_bound, curves_module, packing, search)
            for name, value in vars(module).items()
            if hasattr(value, "signatures")
        }

    warm_up()
    warm = versions()
    for problem in (contended(0), small(0)):
        start = Lagrangian().solve(problem, Ask(np.random.default_rng(0), gap=1e-6)).price
        Lagrangian().solve(problem, Ask(np.random.default_rng(0), gap=1e-6, start=start))
    assert versions() == warm
