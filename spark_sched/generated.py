"""Reference pages that are generated: shown, or written into a checkout's ``docs/reference``."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from spark_sched.files import write_whole


def table_row(cells: Iterable[str]) -> str:
    """A row of a Markdown table."""
    return f"| {' | '.join(cells)} |\n"


def show_or_write(page: str, name: str, arguments: Sequence[str]) -> int:
    """Print ``page``, or with ``--write`` write it as ``docs/reference/<name>``. Returns the exit status."""
    if list(arguments) != ["--write"]:
        print(page, end="")
        return 0
    target = Path(__file__).parents[1] / "docs" / "reference" / name
    if not target.parent.is_dir():
        print(f"error: {target.parent} is absent: run this in a checkout", file=sys.stderr)
        return 2
    write_whole(target, page)
    return 0
