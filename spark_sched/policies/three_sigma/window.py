"""The plan-ahead window as time steps (3Sigma §4.3.3)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from spark_sched.arrays import Ints
from spark_sched.config import values
from spark_sched.errors import BadInputError
from spark_sched.policies.options import Option, Options, OptionValues

#: Starts that the window plans ahead.
STEPS = 24

FIRST_STEP = Option(
    "firstStep",
    values.time_ms(1),
    "5s",
    "Length of the first steps of the plan-ahead window. Starts between two steps are not planned ahead, so "
    "it should be a fraction of usual runtimes.",
)
WINDOW = Option(
    "window", values.time_ms(1), "4h", f"How far the policy plans ahead, in {STEPS} steps that grow longer."
)


def _check(options: OptionValues) -> None:
    step_ms, window_ms = options[FIRST_STEP], options[WINDOW]
    if window_ms < step_ms:
        raise BadInputError(
            f"{options.key(WINDOW)} is {window_ms} ms but must be at least {step_ms} ms, the length of "
            f"{options.key(FIRST_STEP)}"
        )


OPTIONS = Options((FIRST_STEP, WINDOW), _check)


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """Time steps from now on; a job may start where one begins.

    A job's expected number of slots falls while it runs, so capacity that suffices at the beginning of each
    step also suffices within the step.

    Attributes:
        starts_ms: where they begin, from now, shape (T,), rising from 0.
        elapsed_ms: the times between two beginnings that occur, shape (E,), rising from 0.
        elapsed_of: for start s and step t the place of ``starts_ms[t] - starts_ms[s]`` in ``elapsed_ms``, or
            E where t comes before s; shape (T, T). One table of E expectations per job so gives its use of
            all steps for all starts (with equal steps E = T, and the table is Toeplitz).
    """

    starts_ms: Ints
    elapsed_ms: Ints
    elapsed_of: Ints

    @property
    def steps(self) -> int:
        return len(self.starts_ms)

    @classmethod
    def of(cls, starts_ms: tuple[int, ...]) -> Grid:
        """Raises BadInputError where the steps do not begin at 0 or do not rise."""
        starts = np.array(starts_ms, dtype=np.int64)
        if not len(starts) or starts[0] != 0 or (np.diff(starts) <= 0).any():
            raise BadInputError(f"time steps begin at {list(starts_ms)} ms: they must begin at 0 and rise")
        between = starts[None, :] - starts[:, None]
        elapsed, place = np.unique(np.maximum(between, 0), return_inverse=True)
        place = place.reshape(between.shape)
        place[between < 0] = len(elapsed)
        for array in (starts, elapsed, place):
            array.flags.writeable = False
        return cls(starts, elapsed, place)


@lru_cache(maxsize=32)
def uniform(steps: int, step_ms: int) -> Grid:
    """``steps`` steps of ``step_ms`` each."""
    if steps < 1 or step_ms < 1:
        raise BadInputError(f"a window of {steps} steps of {step_ms} ms: give at least 1 of each")
    return Grid.of(tuple(range(0, steps * step_ms, step_ms)))


@lru_cache(maxsize=32)
def growing(steps: int, step_ms: int, window_ms: int) -> Grid:
    """About ``steps`` steps up to ``window_ms``: the first ones ``step_ms`` long, later ones longer.

    The near future has short steps; the far future, which will be planned again many times, has long ones.
    Steps are multiples of the first one, and their length doubles at regular intervals, so that the table has
    few different elapsed times.
    """
    if steps < 1 or step_ms < 1 or window_ms < step_ms:
        raise BadInputError(
            f"a window of {window_ms} ms in {steps} steps from {step_ms} ms on: give at least one step's time"
        )
    # The least number of steps per doubling that still reaches the window's end, from the finest grid down.
    for each in range(steps, 0, -1):
        starts, length = [0], step_ms
        while len(starts) < steps:
            for _ in range(each):
                starts.append(starts[-1] + length)
            length *= 2
        starts = starts[:steps]
        if starts[-1] + length // 2 >= window_ms:
            break
    return Grid.of(tuple(start for start in starts if start < window_ms))


def window_of(options: OptionValues) -> Grid:
    """The window that a policy's options describe."""
    return growing(STEPS, options[FIRST_STEP], options[WINDOW])
