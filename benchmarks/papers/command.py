"""One reproduction, from names to files: the work of ``spark-sched reproduce``."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.papers import registry
from benchmarks.papers.figures import Figure, document
from benchmarks.papers.runs import RunSpec, Store, execute
from spark_sched.errors import BadInputError
from spark_sched.files import write_whole
from spark_sched.terminal import progress_bar
from spark_sched_lab.reports.machine import basis, basis_line

if TYPE_CHECKING:
    from rich.progress import Progress


def reproduce(
    name: str,
    wanted: Sequence[str] = (),
    *,
    quick: bool = False,
    out: Path | None = None,
    runs: int | None = None,
    first_seed: int = 1,
    workers: int = 1,
) -> tuple[list[Figure], dict[str, Any]]:
    """Run the runs that a paper's figures need, and return the figures with their JSON document.

    ``out``: report.html and results.json are written there at the end; finished runs are kept in its folder
    ``runs`` and reused; None: nothing is written or kept. ``runs`` is the number of seeds from ``first_seed``
    on, None for the paper's default; ``workers`` is the number of processes. Raises BadInputError for an
    unknown paper or figure and a folder that cannot be written.
    """
    paper = registry.load(name)
    chosen = registry.choose(paper, wanted)
    scale = paper.scale(quick, runs, first_seed)
    store = None
    if out is not None:
        _check_folder(out)
        store = Store(out / "runs")
    needed = list(dict.fromkeys(run for figure in chosen for run in figure.runs(scale)))
    with _progress() as bar:
        bar_task = bar.add_task("", total=sum(run.weight for run in needed), done=0, runs=len(needed))
        count = 0

        def done(run: RunSpec, kept: bool) -> None:
            nonlocal count
            count += 1
            if kept:
                # Stored runs must not count in the estimate of the remaining time.
                total = (bar.tasks[0].total or 0.0) - run.weight
                bar.update(bar_task, total=total, done=count)
            else:
                bar.update(bar_task, advance=run.weight, done=count)

        results = execute(needed, workers=workers, store=store, done=done)
    figures = [figure.build(scale, results) for figure in chosen]
    found = document(paper.name, figures)
    if out is not None:
        from benchmarks.papers.report import render

        page = render(paper, figures, scale, basis_line(basis()))
        write_whole(out / "report.html", page)
        write_whole(out / "results.json", json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    return figures, found


def _check_folder(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInputError(
            f"--out is {str(out)!r} but that folder cannot be made ({error.strerror}): name another one"
        ) from None
    if not os.access(out, os.W_OK):
        raise BadInputError(f"--out is {str(out)!r} but that folder cannot be written: name another one")


def _progress() -> Progress:
    from rich.progress import BarColumn, ProgressColumn, Task, TextColumn
    from rich.text import Text

    class Left(ProgressColumn):
        """The remaining time, estimated from the first finished run on, since runs are few and long."""

        def render(self, task: Task) -> Text:
            if task.finished or not task.completed or not task.elapsed or not task.total:
                return Text("–:––" if not task.finished else "0:00")
            left_s = round(task.elapsed * (task.total - task.completed) / task.completed)
            minutes, seconds = divmod(left_s, 60)
            return Text(f"{minutes}:{seconds:02d}")

    return progress_bar(
        BarColumn(), TextColumn("{task.fields[done]} of {task.fields[runs]} runs, left:"), Left()
    )
