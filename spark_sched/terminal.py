"""What long work shows to people on standard error, and how it ends when they stop it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn

__all__ = ["EXIT_INTERRUPTED", "counting_bar", "progress_bar"]

#: What a shell reports of a process that SIGINT ended: 128 + 2.
EXIT_INTERRUPTED = 130


def progress_bar(*columns: ProgressColumn | str) -> Progress:
    """A bar on standard error that is gone when it is done; nothing where that is no terminal."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def counting_bar(unit: str = "") -> Progress:
    """A bar of things done of how many, with the time that is left."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

    return progress_bar(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(f"{unit}, left:" if unit else "left:"),
        TimeRemainingColumn(),
    )
