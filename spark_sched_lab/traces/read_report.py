"""The rows that a reader could not use: their count, and the first few with file and line."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

#: Bad rows shown in full; the rest is only counted.
SHOWN = 5
_TEXT = 80


@dataclass(frozen=True)
class BadRow:
    """A row that was skipped: its place (lines count from 1), the reason, and the start of its text."""

    file: str
    line: int
    reason: str
    text: str = ""

    def __str__(self) -> str:
        shown = f": {self.text!r}" if self.text else ""
        return f"{self.file}:{self.line}: {self.reason}{shown}"


@dataclass
class ReadReport:
    """The state of reading so far; complete when all chunks of the reader have been consumed.

    ``rows`` counts rows read, ``bad_rows`` unreadable rows, ``notes`` rows skipped deliberately (by
    reason); ``truncated`` lists files whose end is missing. ``missing`` counts what the source lacks: the
    rows that depend on it are used all the same. ``left_out`` has a sentence for each file that was not read.
    """

    rows: int = 0
    bad_rows: int = 0
    examples: list[BadRow] = field(default_factory=list)
    notes: Counter[str] = field(default_factory=Counter)
    truncated: list[str] = field(default_factory=list)
    missing: Counter[str] = field(default_factory=Counter)
    left_out: list[str] = field(default_factory=list)

    def bad(self, file: str, line: int, reason: str, text: str | bytes = "") -> None:
        self.bad_rows += 1
        if len(self.examples) < SHOWN:
            if isinstance(text, bytes):
                text = text[: _TEXT + 1].decode("utf-8", "backslashreplace")
            text = text.rstrip("\r\n")
            self.examples.append(
                BadRow(file, line, reason, text if len(text) <= _TEXT else text[:_TEXT] + "…")
            )

    def cut(self, file: str, line: int, reason: str) -> None:
        """The end of ``file`` is missing: one bad row, and the file is named."""
        self.truncated.append(file)
        self.bad(file, line, reason)

    def to_dict(self) -> dict[str, Any]:
        return {
            "rows": self.rows,
            "bad_rows": self.bad_rows,
            "bad_examples": [str(row) for row in self.examples],
            "notes": dict(sorted(self.notes.items())),
            "truncated": list(self.truncated),
            "missing": dict(sorted(self.missing.items())),
            "left_out": list(self.left_out),
        }
