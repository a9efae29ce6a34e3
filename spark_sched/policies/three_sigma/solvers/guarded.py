"""A wall-clock guard around solvers that check their own time limit only occasionally."""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import subprocess
import sys
import time
import weakref
from dataclasses import replace
from typing import IO

from spark_sched import isolated
from spark_sched.policies.three_sigma.problem import Problem
from spark_sched.policies.three_sigma.solvers.base import Ask, Solution, Solver
from spark_sched.policies.three_sigma.solvers.by_name import create_solver
from spark_sched.policies.three_sigma.solvers.lagrangian import Lagrangian

#: Of the time limit: how long the process may take before it is stopped, writing and reading included.
_PATIENCE = 1.25
#: Seconds for the process to be there, the first time and after it was stopped.
_START_S = 30.0
_LENGTH = 8


def create_guarded(name: str) -> Solver:
    """As `create_solver`, for a loop with a time limit: a late external solver is killed, and the built-in
    one plans.

    Raises:
        BadInputError: as `create_solver`.
    """
    solver = create_solver(name)
    return solver if isinstance(solver, Lagrangian) else Guarded(name, spare=Lagrangian())


class Guarded:
    """A solver in its own process; if it is late, the process is killed and another solver plans instead.

    Measured: a limit of 0.2 s became 3 s in CBC and in HiGHS. The process starts with the guard, waits for
    problems and ends with the guard's own process, however that ends. Without a time limit it is waited for.

    Args:
        name: of the solver, as `create_solver` knows it.
        spare: plans in this process when the other is late, dead or not there yet.
    """

    def __init__(self, name: str, spare: Solver) -> None:
        self.name = name
        self._spare = spare
        self._worker: _Worker | None = _Worker(name)
        self._ready = False

    def solve(self, problem: Problem, ask: Ask) -> Solution:
        """As `Solver.solve`; the note says when the spare solver planned, and why."""
        began_s = time.monotonic()
        if self._worker is None or not self._worker.alive:
            self._worker, self._ready = _Worker(self.name), False
        worker = self._worker
        try:
            if not self._ready:
                # A plan within the limit comes first: a process that is not ready is asked in the next cycle.
                self._ready = worker.read(_START_S if ask.limit_s is None else ask.limit_s) is not None
                if not self._ready:
                    return self._instead(problem, ask, "was not there yet")
            left_s = None
            if ask.limit_s is not None:
                left_s = max(0.0, _PATIENCE * ask.limit_s - (time.monotonic() - began_s))
            worker.write((problem, ask.gap, ask.limit_s))
            solution = worker.read(left_s)
        except EOFError:
            why = "died"
        else:
            if isinstance(solution, Solution):
                taken_s = time.monotonic() - began_s if ask.clock_s else None
                return replace(solution, runtime_s=taken_s)
            late = f"had no plan within {ask.limit_s} s and was stopped"
            why = late if solution is None else f"failed: {solution}"
        self.close()
        return self._instead(problem, ask, why)

    def close(self) -> None:
        """End the process."""
        if self._worker is not None:
            self._worker.kill()
            self._worker = None

    def _instead(self, problem: Problem, ask: Ask, why: str) -> Solution:
        solution = self._spare.solve(problem, ask)
        note = f"{self.name} {why}; {self._spare.name} planned instead"
        return replace(solution, note=note)


class _Worker:
    """The process: pickles with their length before them, in both directions."""

    def __init__(self, name: str) -> None:
        # A group of its own: CBC is a child of it, and is killed with it.
        self._process = subprocess.Popen(
            [sys.executable, str(isolated.__file__), __name__, answer_questions.__name__, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(os.path.isabs, sys.path))},
        )
        self._end = weakref.finalize(self, _kill, self._process)

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def write(self, item: object) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            _put(self._process.stdin, item)

    def read(self, limit_s: float | None) -> object | None:
        """The next answer; None when none comes within the limit. Raises EOFError for a dead process."""
        pipe = self._process.stdout
        assert pipe is not None
        ready, _, _ = select.select([pipe], [], [], limit_s)
        if not ready:
            return None
        found = _get(pipe)
        if found is None:
            raise EOFError
        return found

    def kill(self) -> None:
        self._end()


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


def answer_questions(name: str) -> None:
    """In the process: make the named solver, report that it is ready, and solve until the parent is gone."""
    import numpy as np

    # Solvers print where answers go.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    solver = create_solver(name)
    questions = os.fdopen(0, "rb")
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        _put(answers, "ready")
        while isinstance(asked := _get(questions), tuple):
            problem, gap, limit_s = asked
            ask = Ask(np.random.default_rng(0), gap, limit_s)
            try:
                _put(answers, solver.solve(problem, ask))
            except (ArithmeticError, RuntimeError, ValueError) as error:
                _put(answers, f"{type(error).__name__}: {error}")


def _put(pipe: IO[bytes], item: object) -> None:
    data = pickle.dumps(item)
    pipe.write(len(data).to_bytes(_LENGTH, "big") + data)
    pipe.flush()


def _get(pipe: IO[bytes]) -> object | None:
    length = int.from_bytes(pipe.read(_LENGTH), "big")
    data = pipe.read(length)
    if not length or len(data) < length:
        return None
    found: object = pickle.loads(data)
    return found
