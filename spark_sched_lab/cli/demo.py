"""``spark-sched demo``: stock Spark and spark_sched compared on a local cluster."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("demo")
@click.option(
    "--quick", is_flag=True, help="One run of each on smaller inputs: at most five minutes on two cores."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("spark-sched-demo"),
    show_default=True,
    metavar="DIR",
    help="Folder for report.html and results.json.",
)
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Determines inputs, batches and run order."
)
@click.option("--json", "as_json", is_flag=True, help="Print the results as one JSON document.")
@click.pass_context
def command(context: click.Context, quick: bool, out: Path, seed: int, as_json: bool) -> None:
    """Run KMeans, SVM and PageRank against background work on a real local cluster.

    Each program runs alone, under Spark's own FAIR scheduler with a high-weight pool, and under spark_sched,
    on the same inputs and beside the same background. Progress goes to standard error; the table, report.html
    and results.json show job completion time and slowdown with their spread.

    \b
    Examples:
      spark-sched demo --quick
      spark-sched demo --out results --json
    """
    from spark_sched_lab.runs.demo.demo import run_demo

    context.exit(run_demo(quick=quick, out=out, seed=seed, json_output=as_json))
