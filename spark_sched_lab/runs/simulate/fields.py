"""Reads an experiment's tables. A wrong key or value gives one sentence with file, key, value and remedy."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from spark_sched.errors import BadInputError, did_you_mean
from spark_sched.files import toml_table
from spark_sched.units import TIME_EXAMPLES, parse_time_ms

T = TypeVar("T")
D = TypeVar("D", int, None)

#: What a value of a kind is called in messages.
KINDS = {int: "a whole number", float: "a number", str: "text in quotes", bool: "true or false"}

#: Greatest whole number: 64 bits, as in the JVM and NumPy.
_LARGEST = 2**63 - 1
#: A longer value is cut off in messages.
_LONGEST_SHOWN = 100


def parse_toml(text: str, name: str) -> Fields:
    """The top table of a TOML text from the file ``name``. Raises BadInputError if it is not TOML."""
    return Fields(name, "", toml_table(text, name))


def setting_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class Fields:
    """One table of a TOML file. `done` rejects every key that has not been read as unknown.

    Args:
        file: named in every message.
        where: the table's own name, such as ``cluster`` or ``workload[0]``; empty for the file's top.
        table: its entries.
    """

    def __init__(self, file: str, where: str, table: Mapping[str, Any]) -> None:
        self.file = file
        self.where = where
        self._table = dict(table)
        self._asked: dict[str, None] = {}

    def name(self, key: str) -> str:
        return f"{self.where}.{key}" if self.where else key

    def wrong(self, key: str, value: object, wanted: str) -> BadInputError:
        shown = repr(value)
        if len(shown) > _LONGEST_SHOWN:
            shown = f"{shown[:_LONGEST_SHOWN]}…"
        return BadInputError(f"{self.file}: {self.name(key)} is {shown} but must be {wanted}")

    def has(self, key: str) -> bool:
        self._asked[key] = None
        return key in self._table

    def get(
        self,
        key: str,
        kind: type[T],
        default: T,
        wanted: str,
        *,
        least: float = -math.inf,
        most: float = math.inf,
    ) -> T:
        """A value of one kind (int, float, str, bool, list, dict), from ``least`` to ``most``."""
        self._asked[key] = None
        value: Any = self._table.get(key, default)
        if kind is float and type(value) is int:
            value = float(value)
        outside = isinstance(value, int | float) and not least <= value <= most
        if type(value) is float and not math.isfinite(value) and key in self._table:
            raise self.wrong(key, value, f"{wanted}, and finite")
        if type(value) is int and abs(value) > _LARGEST:
            raise self.wrong(key, value, f"{wanted}, and at most {_LARGEST}")
        # Exactly this type: a boolean is not a number, although Python treats it as one.
        if outside or type(value) is not kind:
            raise self.wrong(key, value, wanted)
        return value

    def need(self, key: str, kind: type[T], wanted: str, **limits: float) -> T:
        """As `get`, for a required key."""
        if key not in self._table:
            raise BadInputError(f"{self.file}: {self.name(key)} is missing but must be {wanted}")
        given: T = self._table[key]
        return self.get(key, kind, given, wanted, **limits)

    def share(self, key: str) -> float:
        return self.need(key, float, "a number from 0 to 1", least=0.0, most=1.0)

    def whole(self, key: str, default: int, *, least: int = 0) -> int:
        return self.get(key, int, default, f"a whole number from {least}", least=least)

    def number(self, key: str, default: float, *, least: float = 0.0) -> float:
        return self.get(key, float, default, f"a number from {least:g}", least=least)

    def text(self, key: str, default: str) -> str:
        return self.get(key, str, default, KINDS[str])

    def flag(self, key: str, default: bool) -> bool:
        return self.get(key, bool, default, KINDS[bool])

    def choice(self, key: str, options: Iterable[str], default: str) -> str:
        """One of ``options``; the error for a misspelt value has a hint."""
        options = tuple(options)
        value = self.text(key, default)
        if value not in options:
            hint = did_you_mean(value, options)
            raise self.wrong(key, value, f"one of {', '.join(options)}{hint}")
        return value

    def time_ms(self, key: str, default: D) -> int | D:
        """A time such as ``"3s"``, in ms."""
        if not self.has(key):
            return default
        value = self._table[key]
        try:
            return parse_time_ms(value)
        except (ValueError, AttributeError, TypeError):
            raise self.wrong(key, value, f"a time such as {TIME_EXAMPLES}, in quotes") from None

    def table(self, key: str) -> Fields:
        """A table inside this one; empty if it is missing."""
        return Fields(self.file, self.name(key), self.get(key, dict, {}, "a table"))

    def tables(self, key: str) -> list[Fields]:
        rows = self.get(key, list, [], f"tables, each starting with [[{self.name(key)}]]")
        if not all(isinstance(row, dict) for row in rows):
            raise self.wrong(key, rows, f"tables, each starting with [[{self.name(key)}]]")
        return [Fields(self.file, f"{self.name(key)}[{i}]", row) for i, row in enumerate(rows)]

    def rest(self) -> dict[str, Any]:
        """All entries with any keys, for names that the user chooses."""
        self._asked.update(dict.fromkeys(self._table))
        return dict(self._table)

    def settings(self) -> Iterator[tuple[str, str]]:
        for name, value in self.rest().items():
            if isinstance(value, dict | list):
                wanted = 'one value; write the whole name in quotes: "spark.sched.…" = …'
                raise self.wrong(name, value, wanted)
            yield name, setting_text(value)

    def done(self) -> None:
        for key in self._table:
            if key not in self._asked:
                hint = did_you_mean(key, self._asked)
                known = ", ".join(sorted(self._asked))
                raise BadInputError(f"{self.file}: unknown key {self.name(key)}{hint}: use one of {known}")
