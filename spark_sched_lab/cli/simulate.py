"""``spark-sched simulate``: any policy on any trace."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spark_sched.cli.app import Failure
from spark_sched.cli.common import NATURAL, echo_json, needing, queues_option, with_queues
from spark_sched.errors import check_one_of
from spark_sched.files import write_whole
from spark_sched.terminal import EXIT_INTERRUPTED, aligned_table, counting_bar, wide_console

if TYPE_CHECKING:
    from rich.table import Table

    from spark_sched_lab.runs.simulate.experiment import Experiment, SimulatedArm
    from spark_sched_lab.runs.simulate.in_process import SeedRun


@click.command("simulate")
@click.argument("experiment", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the results as one JSON document.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Folder for report.html, results.json, jobs.parquet and tasks.parquet.",
)
@click.option("--arm", "only", multiple=True, metavar="NAME", help="Run only this arm; repeatable.")
@click.option(
    "--seed", "seeds", multiple=True, type=NATURAL, help="Seed to use instead of the file's; repeatable."
)
@queues_option
@click.option("--jobs", "shown", type=NATURAL, default=0, metavar="N", help="Show N jobs per run.")
@click.option(
    "--on",
    "place",
    metavar="MASTER",
    help="Spread the runs over Spark: spark://host:port, local-cluster[…], local[N], …, or spark for the "
    "configured master.",
)
@click.pass_context
def command(
    context: click.Context,
    experiment: Path,
    as_json: bool,
    out: Path | None,
    only: tuple[str, ...],
    seeds: tuple[int, ...],
    queues: Path | None,
    shown: int,
    place: str | None,
) -> None:
    """Run an experiment: a cluster, a workload, policies and seeds from a TOML file.

    Prints a row per arm and class of jobs, with means over the seeds; jobs that did not end are counted.
    docs/explanation/simulator.md lists the file's keys; conf/experiments has example files.

    \b
    Examples:
      spark-sched simulate conf/experiments/baselines.toml
      spark-sched simulate conf/experiments/isolation.toml --out results --json
      spark-sched simulate conf/experiments/baselines.toml --queues conf/queues.toml
      spark-sched simulate conf/experiments/isolation.toml --on spark://host:7077
    """
    with needing("simulate"):
        from spark_sched_lab.runs.simulate.experiment import read_experiment

    plan = read_experiment(experiment)
    arms = [arm for arm in plan.arms if not only or arm.name in only]
    if queues is not None:
        arms = [replace(arm, settings=with_queues(arm.settings, queues)) for arm in arms]
    for name in only:
        check_one_of("--arm", name, [arm.name for arm in plan.arms])
    try:
        document = _run(plan, arms, tuple(dict.fromkeys(seeds)) or plan.seeds, out, shown, place)
    except KeyboardInterrupt:
        click.echo("interrupted: all runs are stopped, nothing was written", err=True)
        context.exit(EXIT_INTERRUPTED)
    except RuntimeError as error:
        # Only the module of --on raises this error, and it is loaded only if --on is given.
        spread = sys.modules.get("spark_sched_lab.runs.simulate.spread")
        if spread is None or not isinstance(error, spread.SpreadError):
            raise
        raise Failure(str(error)) from None
    if out is not None:
        _report(out, document)
    if as_json:
        echo_json(document)
    else:
        _print(document)


def _report(out: Path, document: dict[str, Any]) -> None:
    """Write the page for people. Without its packages the other results are still complete."""
    try:
        from spark_sched_lab.runs.simulate.page import write_report

        path = write_report(out, document)
    except ModuleNotFoundError as error:
        if error.name not in ("jinja2", "matplotlib"):
            raise
        click.echo(f"no report.html without {error.name}: run pip install 'spark-sched[report]'", err=True)
    else:
        click.echo(f"report: {path}", err=True)


def _run(
    plan: Experiment,
    arms: list[SimulatedArm],
    seeds: tuple[int, ...],
    out: Path | None,
    shown: int,
    place: str | None,
) -> dict[str, Any]:
    from spark_sched_lab.engine.queue_rows import by_queue
    from spark_sched_lab.runs.simulate.result_files import TableFile
    from spark_sched_lab.runs.simulate.summary import mean_over_runs, summarize

    source: Callable[..., Iterator[SeedRun]]
    if place is None:
        from spark_sched_lab.runs.simulate.in_process import runs_here

        source, unit = partial(runs_here, plan, arms, seeds), "jobs"
    else:
        from spark_sched_lab.runs.simulate.spread import runs_on_spark

        source, unit = partial(runs_on_spark, place, plan, arms, seeds), "runs"
    left_out: Counter[str] = Counter()
    runs: dict[str, list[dict[str, Any]]] = {arm.name: [] for arm in arms}
    with ExitStack() as stack:
        jobs_file = stack.enter_context(TableFile(out / "jobs.parquet")) if out else None
        tasks_file = stack.enter_context(TableFile(out / "tasks.parquet")) if out else None
        progress = stack.enter_context(counting_bar(unit))
        for arm, seed, result, missing in source(keep_tasks=out is not None, progress=progress):
            if arm is arms[0]:  # the arms of one seed share its jobs
                left_out.update(missing)
            run: dict[str, Any] = {"seed": seed, "totals": result.totals, "classes": summarize(result)}
            if result.queues:
                run["queues"] = by_queue(result)
            if shown:
                run["jobs"] = [row for _, row in zip(range(shown), result.rows(), strict=False)]
            runs[arm.name].append(run)
            if jobs_file is not None and tasks_file is not None:
                jobs_file.add(arm.name, seed, result.jobs)
                tasks_file.add_tasks(arm.name, seed, result)
    document: dict[str, Any] = {
        "experiment": plan.name,
        "nodes": len(plan.cluster.nodes),
        "slots": plan.cluster.slots,
        "left_out": dict(sorted(left_out.items())),
        "arms": [
            {
                "arm": arm.name,
                "policy": arm.policy,
                "predictor": arm.predictor,
                "settings": dict(arm.settings),
                "classes": mean_over_runs([run["classes"] for run in runs[arm.name]]),
                "runs": runs[arm.name],
            }
            for arm in arms
        ],
    }
    if out is not None:
        write_whole(out / "results.json", json.dumps(document, indent=2) + "\n")
    return document


#: Columns of the table: key, heading, decimals.
_CLASSES = (
    ("jobs", "jobs", 0),
    ("unfinished", "unfinished", 1),
    ("jct_mean_s", "JCT mean, s", 1),
    ("jct_p50_s", "p50, s", 1),
    ("jct_p95_s", "p95, s", 1),
    ("wait_mean_s", "wait, s", 1),
    ("deadlines_missed", "missed", 1),
    ("copies", "copies", 1),
    ("evictions", "evictions", 1),
)
#: Shown only where they are not 0 throughout.
_RARE = ("unfinished", "deadlines_missed", "copies", "evictions")
_JOBS = ("job", "class", "priority", "submit_ms", "first_launch_ms", "end_ms", "jct_ms", "tasks", "attempts")


def queue_table(rows: Sequence[Mapping[str, Any]], title: str) -> Table:
    """A row per queue: what its jobs had."""
    numbers = ("ceiling", "peak slots", "slot time, s", "jobs", "refused", "JCT mean, s", "wait, s")
    table = aligned_table(["queue"], numbers, title=title)
    for row in rows:
        cells = (row["ceiling_slots"], row["peak_slots"], row["slot_s"], row["jobs"], row["refused"])
        times = (row["jct_mean_s"], row["wait_mean_s"])
        table.add_row(
            row["queue"],
            *("–" if cell is None else f"{cell:g}" for cell in cells),
            *("–" if time_s is None else f"{time_s:.1f}" for time_s in times),
        )
    return table


def _print(document: dict[str, Any]) -> None:
    console = wide_console(140)
    rows = [row for arm in document["arms"] for row in arm["classes"]]
    columns = [c for c in _CLASSES if c[0] not in _RARE or any(row[c[0]] for row in rows)]
    seeds = [run["seed"] for run in document["arms"][0]["runs"]]
    title = (
        f"{document['experiment']}: {document['nodes']} nodes, {document['slots']} slots, "
        f"means over {len(seeds)} seed{'s' * (len(seeds) > 1)}"
    )
    table = aligned_table(["arm", "class"], [heading for _, heading, _ in columns], title=title)
    for arm in document["arms"]:
        for nth, row in enumerate(arm["classes"]):
            cells = ["" if row[key] is None else f"{row[key]:.{digits}f}" for key, _, digits in columns]
            table.add_row("" if nth else arm["arm"], row["class"], *cells)
        table.add_section()
    console.print(table)
    for arm in document["arms"]:
        for run in arm["runs"]:
            if "jobs" in run:
                title = f"{arm['arm']}, seed {run['seed']}: the first {len(run['jobs'])} jobs to end"
                jobs = aligned_table(_JOBS[:2], _JOBS[2:], title=title)
                for row in run["jobs"]:
                    jobs.add_row(*("" if row[key] is None else str(row[key]) for key in _JOBS))
                console.print(jobs)
    for arm in document["arms"]:
        for run in arm["runs"]:
            if "queues" in run:
                console.print(queue_table(run["queues"], f"{arm['arm']}, seed {run['seed']}: queues"))
    for reason, count in document["left_out"].items():
        click.echo(f"left out: {reason}: {count}", err=True)
