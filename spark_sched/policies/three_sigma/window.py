"""The plan-ahead window as time steps (3Sigma §4.3.3)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from spark_sched.arrays import Ints
from spark_sched.config import values
from spark_sched.errors import BadInputError
from spark_sched.policies.options import Option, Options, OptionValues
from spark_sched.policies.scale import Scale

#: Starts that the window plans ahead.
STEPS = 24

FIRST_STEP = Option(
    "firstStep",
    values.or_auto(values.time_ms(1)),
    "auto",
    "Length of the first steps of the plan-ahead window. Starts between two steps are not planned ahead, so "
    "it should be a fraction of usual runtimes. With `auto` it is a tenth of the median of the runtimes "
    "of the latest 200 jobs, seen or forecast, in rare steps, from 100 ms to 5 s; until ten are known, or if "
    "`window` is set, it is 5 s.",
)
WINDOW = Option(
    "window",
    values.or_auto(values.time_ms(1)),
    "auto",
    f"How far the policy plans ahead, in {STEPS} steps that grow longer. With `auto` it is 2,880 times "
    "`firstStep`, so 4 h for steps of 5 s; 4 h if `firstStep` is set.",
)
#: The first step and the window where nothing is known, and 3Sigma's experiments.
USUAL_STEP_MS, USUAL_WINDOW_MS = 5_000, 14_400_000
#: The first step over the median runtime, and its least length.
_STEP_SHARE, _LEAST_STEP_MS = 0.1, 100


def _check(options: OptionValues) -> None:
    step_ms, window_ms = _given(options)
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
    return growing(STEPS, *_given(options))


def usual_runtime() -> Scale:
    """The runtimes of jobs in ms, before any is known."""
    most_ms = USUAL_STEP_MS / _STEP_SHARE
    return Scale(most_ms, _LEAST_STEP_MS / _STEP_SHARE, most_ms, quantile=0.5)


def is_fixed(options: OptionValues) -> bool:
    """Whether settings give the window; otherwise it follows the jobs' runtimes."""
    return options[FIRST_STEP] is not None or options[WINDOW] is not None


def window_for(runtime: Scale) -> Grid:
    """The window for jobs of such runtimes."""
    step_ms = round(runtime.value * _STEP_SHARE)
    return growing(STEPS, step_ms, step_ms * (USUAL_WINDOW_MS // USUAL_STEP_MS))


def _given(options: OptionValues) -> tuple[int, int]:
    """The first step and the window."""
    step_ms, window_ms = options[FIRST_STEP], options[WINDOW]
    return (
        USUAL_STEP_MS if step_ms is None else step_ms,
        USUAL_WINDOW_MS if window_ms is None else window_ms,
    )
