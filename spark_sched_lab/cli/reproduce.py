"""``spark-sched reproduce``: the papers' figures beside this project's values."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path

import click

import spark_sched_lab
from spark_sched.cli.common import echo_json, needing
from spark_sched.errors import BadInputError
from spark_sched.terminal import EXIT_INTERRUPTED, wide_console

#: The package of the papers' figures. It is in a checkout and in no wheel.
_PAPERS = "benchmarks.papers"
_DEFAULT_OUT = Path("spark-sched-reproduce")


@click.command("reproduce")
@click.argument("paper")
@click.argument("figures", metavar="[FIGURE]...", nargs=-1)
@click.option("--quick", is_flag=True, help="Fewer seeds and shorter horizons, in a few minutes.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Folder for report.html, results.json and finished runs, which are reused.  [default: "
    "spark-sched-reproduce; with --json none]",
)
@click.option(
    "--runs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Seeds per simulated figure.  [default: 3, 5 or 10 by paper; with --quick 1]",
)
@click.option(
    "--first-seed",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="First of the consecutive seeds; the published figures begin at 1.",
)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of processes.  [default: one per processor]",
)
@click.option("--json", "as_json", is_flag=True, help="Print the results as one JSON document.")
@click.pass_context
def command(
    context: click.Context,
    paper: str,
    figures: tuple[str, ...],
    quick: bool,
    out: Path | None,
    runs: int | None,
    first_seed: int,
    workers: int | None,
    as_json: bool,
) -> None:
    """Make a paper's figures, print them beside the paper's values, and explain differences.

    The figures are in a checkout of spark_sched, in benchmarks/papers: run this in its root folder.

    \b
    Papers and figures:
      slot-reservation   fig1 fig4 fig5 fig8 fig10 fig12 fig13 fig14 fig15
                         fig15-loads fig16 fig17 deadlines
      3sigma             fig1 fig5 fig6 fig7 fig8 fig9 fig10 fig11 fig12 table2
      slearn             fig1 fig2 fig3 fig4 fig5 fig6 fig7 fig8 fig9
                         table4 table5 table6 table7 table8 table9
      thesis             fig3.5 fig3.6 table4.2 fig4.2 fig4.3 table4.3
                         table5.1 table5.2 fig5.2 fig6.7 fig6.8 fig6.9 table7.2 table7.3
                         fig7.1 fig7.2 fig7.3 fig7.4 fig7.5 table8.1 fig8.3 fig8.4 fig8.5
                         fig8.6 table9.1 fig9.2 fig9.3 fig9.4 table9.3 fig9.5 priced
                         bars optimum

    \b
    Examples:
      spark-sched reproduce slot-reservation --quick
      spark-sched reproduce slot-reservation fig10 fig17 --json
      spark-sched reproduce slot-reservation --out results
      spark-sched reproduce slearn fig5 --runs 5 --first-seed 51
    """
    checkout = _checkout((Path(spark_sched_lab.__file__ or "").parents[1], Path.cwd()))
    with needing("reproduce"):
        import jinja2  # noqa: F401
        import matplotlib  # noqa: F401
        import scipy  # noqa: F401

        if str(checkout) not in sys.path:
            # Last: an installed package of this name counts before the checkout's.
            sys.path.append(str(checkout))
        reproduce = importlib.import_module(f"{_PAPERS}.command").reproduce
        print_figures = importlib.import_module(f"{_PAPERS}.report").print_figures

    folder = out if out is not None or as_json else _DEFAULT_OUT
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        found, document = reproduce(
            paper,
            figures,
            quick=quick,
            out=folder,
            runs=runs,
            first_seed=first_seed,
            workers=cpus if workers is None else workers,
        )
    except KeyboardInterrupt:
        kept = f", finished runs are kept in {folder / 'runs'}" if folder else ""
        click.echo(f"interrupted{kept}: no report was written", err=True)
        context.exit(EXIT_INTERRUPTED)
    if as_json:
        echo_json(document)
    else:
        print_figures(found, wide_console(160))
    if folder is not None:
        click.echo(f"report: {folder / 'report.html'}", err=as_json)


def _checkout(places: Iterable[Path]) -> Path:
    """The first of the places that has the papers' figures. Raises BadInputError if none has."""
    for place in places:
        if place.joinpath(*_PAPERS.split("."), "__init__.py").is_file():
            return place
    raise BadInputError(
        "the papers' figures are in no installed package: run this in the root folder of a checkout of "
        "spark_sched, which has them in benchmarks/papers"
    )
