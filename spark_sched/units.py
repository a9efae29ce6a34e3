"""Times as Spark writes them (``100ms``, ``10s``, ``10min``, ``1h``), to and from milliseconds."""

from __future__ import annotations

import re
from datetime import datetime

_TIME = re.compile(r"(\d+)\s*(ms|s|m|min|h|d)", re.ASCII)
_PART = re.compile(r"(\d{1,15})\s*(ms|minutes?|mins?|m|seconds?|secs?|s|hours?|hrs?|h|days?|d)\s*", re.ASCII)
_LENGTH = re.compile(f"(?:{_PART.pattern})+", re.ASCII)
_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
# Half of what fits in the JVM's long, as the JVM side refuses more.
_MAX_MS = (2**63 - 1) // 2

TIME_EXAMPLES = "100ms, 10s, 5min or 1h"


def parse_time_ms(text: str) -> int:
    """Milliseconds of a whole number with a unit (``ms``, ``s``, ``m``/``min``, ``h``, ``d``).

    A unit is required: Spark itself reads a bare number as seconds for one key and milliseconds for the
    next. Raises ValueError; the caller knows the input's name and writes the message.
    """
    found = _TIME.fullmatch(text.strip().lower())
    if found is None:
        raise ValueError(f"{text!r} is not a time such as {TIME_EXAMPLES}")
    time_ms = int(found[1]) * _UNIT_MS[found[2]]
    if time_ms > _MAX_MS:
        raise ValueError(f"{text!r} is longer than the JVM can count")
    return time_ms


def parse_length_ms(text: str) -> int:
    """Milliseconds of a length of time that may have several parts: ``1h30m``, ``15 min``, ``15 minutes``.

    Raises ValueError for anything else, and for lengths of 2^53 ms and above.
    """
    low = text.strip().lower()
    if not _LENGTH.fullmatch(low):
        raise ValueError(f"{text!r} is not a length of time such as {TIME_EXAMPLES} or 1h30m")
    length_ms = sum(
        int(number) * _UNIT_MS["ms" if unit == "ms" else unit[0]] for number, unit in _PART.findall(low)
    )
    if length_ms >= 2**53:
        raise ValueError(f"{text!r} is longer than the planner can count")
    return length_ms


def parse_moment_ms(text: str, now_ms: int) -> int:
    """Milliseconds since 1970 of an ISO time (local without a zone) or of a length of time from ``now_ms``.

    Raises ValueError for anything else.
    """
    try:
        return now_ms + parse_length_ms(text)
    except ValueError:
        # A "Z" at the end is read from Python 3.11 on only.
        return round(datetime.fromisoformat(text.strip().replace("Z", "+00:00")).timestamp() * 1000)


def format_time_ms(time_ms: int) -> str:
    """The shortest exact form: 600000 is ``10min``, 1500 is ``1500ms``. Raises ValueError below zero."""
    if time_ms < 0:
        raise ValueError(f"{time_ms} ms is negative, but a length of time must be at least 0")
    for unit in ("d", "h", "min", "s"):
        if time_ms and time_ms % _UNIT_MS[unit] == 0:
            return f"{time_ms // _UNIT_MS[unit]}{unit}"
    return f"{time_ms}ms"
