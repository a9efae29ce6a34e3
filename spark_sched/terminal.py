"""Progress bars on standard error, tables for pipes, and the exit status after an interruption."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from spark_sched.plain_text import plain

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, ProgressColumn
    from rich.table import Table

#: The exit status that a shell reports for a process ended by SIGINT: 128 + 2.
EXIT_INTERRUPTED = 130


def progress_bar(*columns: ProgressColumn | str) -> Progress:
    """A bar on standard error that disappears at its end. Without a terminal nothing is shown."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def say(line: str) -> None:
    """A line on standard error. Names of files and texts in them are strangers': they control no terminal."""
    import click

    click.echo(plain(line), err=True)


def description_column() -> ProgressColumn:
    """What a bar is about, which may be a stranger's file: it has no markup and controls no terminal."""
    from rich.progress import ProgressColumn, Task
    from rich.text import Text

    class Description(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(plain(task.description))

    return Description()


def reading_bar() -> Progress:
    """A bar with the number of bytes read, their total and the remaining time."""
    from rich.progress import BarColumn, DownloadColumn, TimeRemainingColumn

    return progress_bar(description_column(), BarColumn(), DownloadColumn(), TimeRemainingColumn())


@contextmanager
def counting_bar(unit: str = "") -> Iterator[Callable[[str, int, int | None], None]]:
    """A bar with the number of finished items, their total and the remaining time.

    Yields a function of what is done now, the number of finished items, and their total if it is known.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

    with progress_bar(
        description_column(),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(f"{unit}, left:" if unit else "left:"),
        TimeRemainingColumn(),
    ) as bar:
        task = bar.add_task("", total=None)
        yield lambda what, done, total: bar.update(task, description=what, completed=done, total=total)


def wide_console(columns: int) -> Console:
    """A console on standard output. A pipe has no width, so it gets enough ``columns`` for every column of a
    table."""
    from rich.console import Console

    return Console() if sys.stdout.isatty() else Console(width=columns)


def plain_table(**style: Any) -> Table:
    """A table whose texts are strangers': they have no markup and control no terminal."""
    from rich.table import Table
    from rich.text import Text

    class PlainTable(Table):
        def add_row(self, *cells: Any, **options: Any) -> None:
            plainly = (Text(plain(cell)) if isinstance(cell, str) else cell for cell in cells)
            super().add_row(*plainly, **options)

    for part in ("title", "caption"):
        if isinstance(style.get(part), str):
            style[part] = Text(plain(style[part]), style=f"table.{part}")
    return PlainTable(**style)


def aligned_table(left: Iterable[str], right: Iterable[str], *, fold: bool = False, **style: Any) -> Table:
    """A `plain_table` of columns of words, then columns of numbers; with ``fold`` no cell is cut off."""
    table = plain_table(**style)
    for justify, names in (("left", left), ("right", right)):
        for name in names:
            table.add_column(name, justify=justify, overflow="fold" if fold else "ellipsis")  # type: ignore[arg-type]
    return table


def group_table(title: str, groups: Iterable[str], numbers: Iterable[str]) -> Table:
    """A plain table of sums by group."""
    style = {"title": title, "title_justify": "left", "box": None, "pad_edge": False}
    return aligned_table(groups, numbers, fold=True, **style)
