"""Kinds of values: each parses a setting's text and describes the texts that it accepts."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from spark_sched.config.queue_file import parse_queues
from spark_sched.config.queues import QueueTree
from spark_sched.errors import did_you_mean
from spark_sched.units import TIME_EXAMPLES, format_time_ms, parse_time_ms

T = TypeVar("T")

_WHOLE = re.compile(r"[+-]?\d+", re.ASCII)


@dataclass(frozen=True)
class ValueKind(Generic[T]):
    """One kind of value.

    Attributes:
        unit: what the value is, for the documentation: a unit, a type or the choices.
        wanted: ends the sentence "<key> is '<text>' but must be …".
        parse: text to value; raises ValueError for anything else.
        hint: "did you mean" for a wrong text, with a leading space, or an empty string.
        shown: how an error message shows a wrong text.
    """

    unit: str
    wanted: str
    parse: Callable[[str], T]
    hint: Callable[[str], str] = lambda text: ""
    shown: Callable[[str], str] = repr


def flag() -> ValueKind[bool]:
    """``true`` or ``false``, in any case."""
    answers = {"true": True, "false": False}

    def parse(text: str) -> bool:
        if text.lower() not in answers:
            raise ValueError(text)
        return answers[text.lower()]

    return ValueKind("boolean", "true or false", parse, lambda text: did_you_mean(text, answers))


def number(low: float, high: float) -> ValueKind[float]:
    """A finite number from ``low`` to ``high``, both included."""

    def parse(text: str) -> float:
        value = float(text)
        if "_" in text or not math.isfinite(value) or not low <= value <= high:
            raise ValueError(text)
        return value

    return ValueKind("number", f"a number from {low:g} to {high:g}", parse)


def whole(low: int, high: int, unit: str = "count") -> ValueKind[int]:
    """A whole number from ``low`` to ``high``, both included."""

    def parse(text: str) -> int:
        if not _WHOLE.fullmatch(text) or not low <= int(text) <= high:
            raise ValueError(text)
        return int(text)

    return ValueKind(unit, f"a whole number from {low} to {high}", parse)


def time_ms(least_ms: int = 0) -> ValueKind[int]:
    """A length of time with its unit; the value is in milliseconds."""

    def parse(text: str) -> int:
        time_ms = parse_time_ms(text)
        if time_ms < least_ms:
            raise ValueError(text)
        return time_ms

    least = f", at least {format_time_ms(least_ms)}" if least_ms else ""
    return ValueKind("time", f"a time such as {TIME_EXAMPLES}{least}", parse)


def or_auto(kind: ValueKind[T]) -> ValueKind[T | None]:
    """A value of that kind, or ``auto``, which gives None: the program chooses it."""

    def parse(text: str) -> T | None:
        return None if text == "auto" else kind.parse(text)

    return ValueKind(kind.unit, f"{kind.wanted}, or auto", parse, kind.hint, kind.shown)


def by_name(low: float, high: float = 1e9) -> ValueKind[Mapping[str, float]]:
    """Numbers by name, ``ann=2,bob=1``, each from ``low`` to ``high``."""
    one = number(low, high)

    def parse(text: str) -> Mapping[str, float]:
        found = {}
        for entry in filter(None, (entry.strip() for entry in text.split(","))):
            name, equals, value = entry.rpartition("=")
            if not equals or not name.strip():
                raise ValueError(text)
            found[name.strip()] = one.parse(value)
        return found

    return ValueKind("numbers by name", f"names with {one.wanted} each, such as ann=2,bob=1", parse)


def choice(*options: str) -> ValueKind[str]:
    """One of a few words."""

    def parse(text: str) -> str:
        if text not in options:
            raise ValueError(text)
        return text

    listed = " or ".join(options)
    return ValueKind(listed, f"one of {', '.join(options)}", parse, lambda text: did_you_mean(text, options))


def words(*options: str) -> ValueKind[tuple[str, ...]]:
    """Any of a few words, separated by commas."""

    def parse(text: str) -> tuple[str, ...]:
        given = tuple(filter(None, (word.strip() for word in text.split(","))))
        if not set(given) <= set(options):
            raise ValueError(text)
        return given

    return ValueKind("words", f"any of {', '.join(options)}, separated by commas", parse)


_HOST = re.compile(
    r"\*|[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_.])?|\[?[0-9a-f.]*:[0-9a-f.]*:[0-9a-f:.]*\]?",
    re.IGNORECASE | re.ASCII,
)


def hosts() -> ValueKind[tuple[str, ...]]:
    """Names or addresses of hosts, separated by commas."""

    def parse(text: str) -> tuple[str, ...]:
        given = tuple(filter(None, (word.strip() for word in text.split(","))))
        if not all(map(_HOST.fullmatch, given)):
            raise ValueError(text)
        return given

    wanted = "names or addresses of hosts without a scheme or port, separated by commas"
    return ValueKind("hosts", wanted, parse)


# A password in the user part of a URL, or as a parameter.
_PASSWORD = re.compile(
    r"[a-z0-9+.-]+://(?:[^/?#]*:[^/?#]*@.*|.*[?&][^=&]*password=.*)", re.IGNORECASE | re.DOTALL
)


def database() -> ValueKind[str]:
    """A path, or a database's URL without a password."""

    def parse(text: str) -> str:
        if _PASSWORD.fullmatch(text):
            raise ValueError(text)
        return text

    wanted = (
        "a path or postgresql://user@host/database: Spark would show a password in it in its UI and event "
        "log, so set spark.sched.history.password"
    )
    return ValueKind("path", wanted, parse, shown=lambda _: "a URL with a password")


def queues() -> ValueKind[QueueTree | None]:
    """A tree of queues as one line of JSON; empty: None."""
    wanted = "the one line that `spark-sched conf --queues FILE` makes of a file of queues"
    return ValueKind("JSON", wanted, parse_queues)


def text(unit: str = "text", *, required: bool = False) -> ValueKind[str]:
    """Any text; with ``required`` at least one character."""

    def parse(value: str) -> str:
        if required and not value:
            raise ValueError(value)
        return value

    return ValueKind(unit, "not empty" if required else "text", parse)
