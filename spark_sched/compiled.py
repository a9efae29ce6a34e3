"""Inner loops as machine code where numba is installed (`pip install 'spark-sched[fast]'`), else as they are.

A compiled function gives the very same numbers: it sums in the order that is written, and multiplies and adds
in two steps. What it may use is therefore what NumPy and numba round alike: element-wise arithmetic,
comparisons, searches and running sums, but no ``sum``, ``dot``, ``exp`` or ``log`` of arrays.

``NUMBA_DISABLE_JIT=1`` in the environment leaves all of them uncompiled (numba's own switch).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])

_jit: Any = None
if os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0"):
    try:
        from numba import njit as _jit
    except Exception:  # not installed, or not made for this Python or NumPy
        _jit = None

#: Whether functions are compiled here.
COMPILED = _jit is not None


def compiled(function: _Function) -> _Function:
    """The function, compiled when it is first called; the machine code is kept for later processes."""
    if _jit is None:
        return function
    try:
        return _jit(cache=True)(function)  # type: ignore[no-any-return]
    except RuntimeError:  # no folder to keep it in
        return _jit(function)  # type: ignore[no-any-return]
