"""``spark-sched simulate``: any policy on any trace."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spark_sched.cli.common import echo_json
from spark_sched.errors import BadInputError, did_you_mean

if TYPE_CHECKING:
    from rich.progress import Progress

    from spark_sched.sim.experiment import Arm, Experiment


@click.command("simulate")
@click.argument("experiment", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the results as one JSON document.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Folder for results.json, jobs.parquet and tasks.parquet.",
)
@click.option("--arm", "only", multiple=True, metavar="NAME", help="Run these arms only.")
@click.option(
    "--seed", "seeds", multiple=True, type=click.IntRange(min=0), help="Instead of the file's seeds."
)
@click.option(
    "--jobs", "shown", type=click.IntRange(min=0), default=0, metavar="N", help="Show N jobs per run."
)
def command(
    experiment: Path,
    as_json: bool,
    out: Path | None,
    only: tuple[str, ...],
    seeds: tuple[int, ...],
    shown: int,
) -> None:
    """Run an experiment: a cluster, a workload, policies and seeds from a TOML file.

    Prints a table per class of jobs for every arm, means over the seeds; jobs that did not end are counted.
    docs/simulator.md lists the file's keys; conf/experiments has files to begin with.

    \b
    Examples:
      spark-sched simulate conf/experiments/baselines.toml
      spark-sched simulate conf/experiments/isolation.toml --out results --json
    """
    try:
        from spark_sched.sim.experiment import read_experiment
    except ModuleNotFoundError as error:
        extra = {"pyarrow": "'spark-sched[traces]'", "tomli": "tomli"}.get(error.name or "")
        if extra is None:
            raise
        raise BadInputError(
            f"simulate needs {error.name}, which is not installed: run pip install {extra}"
        ) from None

    plan = read_experiment(experiment)
    arms = [arm for arm in plan.arms if not only or arm.name in only]
    for name in only:
        names = [arm.name for arm in plan.arms]
        if name not in names:
            raise BadInputError(
                f"--arm is {name!r}{did_you_mean(name, names)} but must be one of {', '.join(names)}"
            )
    document = _run(plan, arms, seeds or plan.seeds, out, shown)
    if as_json:
        echo_json(document)
    else:
        _print(document)


def _run(
    plan: Experiment, arms: list[Arm], seeds: tuple[int, ...], out: Path | None, shown: int
) -> dict[str, Any]:
    from spark_sched.sim.files import TableFile
    from spark_sched.sim.summary import mean_over_runs, summarize

    left_out: Counter[str] = Counter()
    runs: dict[str, list[dict[str, Any]]] = {arm.name: [] for arm in arms}
    with ExitStack() as stack:
        jobs_file = stack.enter_context(TableFile(out / "jobs.parquet")) if out else None
        tasks_file = stack.enter_context(TableFile(out / "tasks.parquet")) if out else None
        bar = stack.enter_context(_progress())
        bar_task = bar.add_task("", total=None)
        done = 0
        # Seeds outside: the arms of one seed share its jobs.
        for nth, seed in enumerate(seeds):
            jobs = plan.jobs(seed, left_out)
            bar.update(bar_task, total=done + len(jobs) * len(arms) * (len(seeds) - nth))
            for arm in arms:
                bar.update(bar_task, description=f"{arm.name}, seed {seed}")
                begun = done

                def tick(ended: int, now_ms: int, begun: int = begun) -> None:
                    bar.update(bar_task, completed=begun + ended)

                result = plan.run(arm, seed, jobs, keep_tasks=out is not None, progress=tick)
                done += len(jobs)
                bar.update(bar_task, completed=done)
                run: dict[str, Any] = {"seed": seed, "totals": result.totals, "classes": summarize(result)}
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
        whole = out / "results.json"
        temporary = out / f".results.{os.getpid()}.json"
        temporary.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
        os.replace(temporary, whole)
    return document


def _progress() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("jobs, left:"),
        TimeRemainingColumn(),
        console=Console(file=sys.stderr, stderr=True),
        transient=True,
    )


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


def _occurs(document: dict[str, Any], key: str) -> bool:
    return any(row[key] for arm in document["arms"] for row in arm["classes"])


def _print(document: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    # A pipe has no width: wide enough for every column then.
    console = Console() if sys.stdout.isatty() else Console(width=140)
    columns = [column for column in _CLASSES if column[0] not in _RARE or _occurs(document, column[0])]
    seeds = [run["seed"] for run in document["arms"][0]["runs"]]
    table = Table(
        title=f"{document['experiment']}: {document['nodes']} nodes, {document['slots']} slots, "
        f"means over {len(seeds)} seed{'s' * (len(seeds) > 1)}"
    )
    table.add_column("arm")
    table.add_column("class")
    for _, heading, _ in columns:
        table.add_column(heading, justify="right")
    for arm in document["arms"]:
        for nth, row in enumerate(arm["classes"]):
            cells = ["" if row[key] is None else f"{row[key]:.{digits}f}" for key, _, digits in columns]
            table.add_row("" if nth else arm["arm"], row["class"], *cells)
        table.add_section()
    console.print(table)
    for arm in document["arms"]:
        for run in arm["runs"]:
            if "jobs" in run:
                jobs = Table(
                    title=f"{arm['arm']}, seed {run['seed']}: the first {len(run['jobs'])} jobs to end"
                )
                for key in _JOBS:
                    jobs.add_column(key, justify="left" if key in ("job", "class") else "right")
                for row in run["jobs"]:
                    jobs.add_row(*("" if row[key] is None else str(row[key]) for key in _JOBS))
                console.print(jobs)
    for reason, count in document["left_out"].items():
        click.echo(f"left out: {count} jobs or rows, {reason}", err=True)
