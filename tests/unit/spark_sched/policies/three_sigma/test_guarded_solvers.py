"""A solver that is late, dies or fails costs a cycle nothing but its quality."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from spark_sched.policies.three_sigma.problem import Candidate, Problem, build
from spark_sched.policies.three_sigma.solvers import Ask, create_guarded, create_solver
from spark_sched.policies.three_sigma.solvers import guarded as guard
from spark_sched.policies.three_sigma.solvers.guarded import Guarded
from spark_sched.policies.three_sigma.window import uniform

pytest.importorskip("highspy")


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """For a process that starts on a crowded machine."""
    monkeypatch.setattr(guard, "_START_S", 300.0)


@pytest.fixture
def problem() -> Problem:
    """Two jobs that fit one after the other."""
    falling = np.linspace(1.0, 0.0, 6)
    candidates = [Candidate(job, 1, 3, (1.0 + job) * falling, falling) for job in range(2)]
    return build(uniform(6, 1_000), np.array([4.0]), 2, candidates, [])


@pytest.fixture
def guarded():
    solver = create_guarded("highs")
    assert isinstance(solver, Guarded)
    yield solver
    solver.close()


def _ask(limit_s: float | None) -> Ask:
    return Ask(np.random.default_rng(0), gap=1e-6, limit_s=limit_s)


def test_in_a_process_of_its_own_a_solver_finds_what_it_finds_here(guarded, problem):
    there, here = guarded.solve(problem, _ask(None)), create_solver("highs").solve(problem, _ask(None))
    assert there.solver == "highs"
    assert there.status == "optimal"
    assert there.value == pytest.approx(here.value)
    assert problem.fits(there.assignment)


def test_who_is_late_is_stopped_and_ours_plans(guarded, problem):
    assert guarded.solve(problem, _ask(None)).solver == "highs"
    # On a busy machine it could have answered before anybody looks.
    os.kill(guarded._worker._process.pid, signal.SIGSTOP)
    late = guarded.solve(problem, _ask(0.0))
    assert late.solver == "prices"
    assert "highs had no plan within 0.0 s and was stopped; prices planned instead" in late.note
    assert problem.fits(late.assignment)
    # And is there again for who can wait.
    assert guarded.solve(problem, _ask(None)).solver == "highs"


def test_a_dead_process_is_replaced(guarded, problem):
    guarded.solve(problem, _ask(None))
    guarded._worker._process.kill()
    guarded._worker._process.wait()
    assert guarded.solve(problem, _ask(None)).solver == "highs"


def test_who_dies_while_it_solves_is_replaced_by_ours(guarded, problem, monkeypatch):
    guarded.solve(problem, _ask(None))
    worker = guarded._worker
    monkeypatch.setattr(worker, "write", lambda item: worker._process.kill())
    answer = guarded.solve(problem, _ask(None))
    assert (answer.solver, answer.note) == ("prices", "highs died; prices planned instead")


def test_a_process_ends_with_its_guard(problem):
    solver = create_guarded("highs")
    process = solver._worker._process
    del solver
    for _ in range(100):
        if process.poll() is not None:
            break
        time.sleep(0.1)
    assert process.poll() is not None


def test_ours_needs_no_guard():
    assert create_guarded("prices").name == "prices"


def test_the_first_solver_of_a_process_leaves_standard_output_alone() -> None:
    # HiGHS 1.16 prints its name when the first one is made, and nothing for the next ones.
    program = (
        "from spark_sched.policies.three_sigma.solvers.highs import Highs; Highs()\n"
        "import highspy; highspy.Highs(); print('{}')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "{}\n"
