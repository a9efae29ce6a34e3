"""Checks of the formulas' arguments: a bad value is refused with its parameter, its value and the range."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from spark_sched.arrays import Bools, Floats
from spark_sched.errors import BadInputError


def _numbers(name: str, value: object, legal: str) -> Floats:
    try:
        array = np.asarray(value)
    except ValueError:  # ragged nesting
        array = np.empty(0, dtype=object)
    if array.dtype.kind not in "iuf" and not (array.size == 0 and array.dtype.kind != "O"):
        raise BadInputError(f"{name} must be {legal}, not {value!r} (of type {type(value).__name__})")
    return array.astype(np.float64)


def _refuse(name: str, array: Floats, legal: str, good: Bools) -> None:
    if not good.all():
        first = tuple(int(i) for i in np.argwhere(~good)[0])
        where = f" at index {first[0] if len(first) == 1 else first}" if first else ""
        raise BadInputError(f"{name} must be {legal}, not {float(array[first])!r}{where}")


def _checker(legal: str, is_good: Callable[[Floats], Bools]) -> Callable[[str, object], Floats]:
    def check(name: str, value: object) -> Floats:
        array = _numbers(name, value, legal)
        # NaN fails every comparison, so no range needs to mention it.
        _refuse(name, array, legal, np.asarray(is_good(array)))
        return array

    return check


_isolation = _checker("a probability in [0, 1]", lambda a: (a >= 0.0) & (a <= 1.0))
scale = _checker("a finite number > 0", lambda a: (a > 0.0) & np.isfinite(a))
shape = _checker(
    "a finite number > 1 (the mean task time exists only then)", lambda a: (a > 1.0) & np.isfinite(a)
)
_tasks = _checker("a whole number >= 1", lambda a: (a >= 1.0) & np.isfinite(a) & (a == np.floor(a)))
_deadline = _checker("a number >= 0 (infinity: never expires)", lambda a: a >= 0.0)
durations = _checker("finite numbers >= 0", lambda a: (a >= 0.0) & np.isfinite(a))
weight = _checker("a finite number >= 0", lambda a: (a >= 0.0) & np.isfinite(a))


_CHECKS = {
    "alpha": shape,
    "deadline_s": _deadline,
    "isolation": _isolation,
    "n_tasks": _tasks,
    "t_m_s": scale,
}


def arguments(**values: object) -> list[Floats]:
    """The formulas' arguments, checked by name and broadcast as NumPy does.

    A refusal names the argument, or the shapes of all.
    """
    arrays = {name: _CHECKS[name](name, value) for name, value in values.items()}
    try:
        return [np.asarray(a) for a in np.broadcast_arrays(*arrays.values())]
    except ValueError:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise BadInputError(f"shapes must broadcast together, not {shapes}") from None
