"""Progress bars on standard error, and the exit status after an interruption."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn

__all__ = ["EXIT_INTERRUPTED", "counting_bar", "progress_bar"]

#: The exit status that a shell reports for a process ended by SIGINT: 128 + 2.
EXIT_INTERRUPTED = 130


def progress_bar(*columns: ProgressColumn | str) -> Progress:
    """A bar on standard error that disappears at its end. Without a terminal nothing is shown."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def counting_bar(unit: str = "") -> Progress:
    """A bar with the number of finished items, their total and the remaining time."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

    return progress_bar(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(f"{unit}, left:" if unit else "left:"),
        TimeRemainingColumn(),
    )
