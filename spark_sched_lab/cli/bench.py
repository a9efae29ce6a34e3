"""``spark-sched bench``: suites of SparkBench's workloads."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click

from spark_sched.cli.app import Failure
from spark_sched.cli.common import echo_json, needing, note
from spark_sched.errors import BadInputError
from spark_sched.terminal import EXIT_INTERRUPTED, aligned_table, counting_bar, wide_console


@click.command("bench")
@click.argument("suite", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="File for the results as a JSON document.",
)
@click.option(
    "--simulate", is_flag=True, help="Run in the simulator instead of on a cluster of this machine."
)
@click.option("--json", "as_json", is_flag=True, help="Print the results as one JSON document.")
@click.pass_context
def command(context: click.Context, suite: Path, out: Path | None, simulate: bool, as_json: bool) -> None:
    """Run the suites of a TOML file: workloads with SparkBench's names and parameters.

    SparkBench's own files (HOCON, ending in .conf or .hocon) and workloads of the UWFQ benchmark tool (.json)
    run as well; the command leaves out the parts that it does not support, and names them.

    A list of values makes one job for each value. Suites run one after the other. The jobs of a suite run in
    sequence or side by side, or arrive as a Poisson process. docs/how-to/run-a-suite.md explains the file;
    conf/bench has examples.

    \b
    Examples:
      spark-sched bench conf/bench/users.toml
      spark-sched bench conf/bench/users.toml --simulate --json
    """
    with needing("bench"):
        from spark_sched.files import write_whole
        from spark_sched_lab.reports.machine import basis
        from spark_sched_lab.runs.bench.run import bench_document, run_live, run_simulated
        from spark_sched_lab.runs.bench.suite import read_bench
    from spark_sched_lab.runs.clusters import ClusterError
    from spark_sched_lab.runs.paired.application import ArmError

    if out is not None:
        _check_writable(out)
    left_out: list[str] = []
    if suite.suffix in (".conf", ".hocon"):
        with needing("a HOCON file"):
            from spark_sched_lab.runs.bench.hocon import read_hocon

            plan, left_out = read_hocon(suite)
    elif suite.suffix == ".json":
        from spark_sched_lab.runs.bench.uwfq import read_uwfq

        plan, left_out = read_uwfq(suite)
    else:
        plan = read_bench(suite)
    for what in left_out:
        click.echo(f"left out: {what}", err=True)
    try:
        with counting_bar("jobs") as progress:
            done = run_simulated(plan, progress) if simulate else run_live(plan, note, progress)
    except KeyboardInterrupt:
        click.echo("interrupted: all jobs are stopped, nothing was written", err=True)
        context.exit(EXIT_INTERRUPTED)
    except (ArmError, ClusterError) as error:
        raise Failure(str(error)) from None
    place = "the simulator" if simulate else "a cluster on this machine"
    document = bench_document(plan, done, {"on": place, "left_out": left_out, **basis()})
    # Printed first: a disk that is full by now must not lose the results.
    if as_json:
        echo_json(document)
    else:
        _print(document)
    if out is not None:
        write_whole(out, json.dumps(document, indent=1) + "\n")
    if document["failures"]:
        first = next(job for found in document["suites"] for job in found["jobs"] if job["error"])
        what = f"{first['workload']}: {first['error']}"
        raise Failure(f"failed jobs: {document['failures']}; the first, {what}")


def _check_writable(out: Path) -> None:
    """Refuse a file that cannot be written, before the jobs run."""
    folder = out.resolve().parent
    if not folder.is_dir():
        raise BadInputError(f"--out is {str(out)!r} but the folder {str(folder)!r} does not exist: create it")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise BadInputError(
            f"--out is {str(out)!r} but {str(folder)!r} cannot be written: name another folder"
        )


def _print(document: dict[str, Any]) -> None:
    from rich import box

    console = wide_console(120)
    for suite in document["suites"]:
        users = [row for row in suite["users"] if row["user"]]
        title = f"{suite['description']}: {len(suite['jobs'])} jobs in {suite['makespan_s']:.1f} s"
        numbers = ("jobs", "failed", "JCT mean (s)", "p50", "p95")
        shown = aligned_table(["workload or user"], numbers, title=title, box=box.SIMPLE, pad_edge=False)
        for key, rows in (("workload", suite["workloads"]), ("user", users)):
            for row in rows:
                times = (row[name] for name in ("jct_mean_s", "jct_p50_s", "jct_p95_s"))
                cells = ("–" if value is None else f"{value:.2f}" for value in times)
                shown.add_row(row[key], str(row["jobs"]), str(row["failed"]), *cells)
            shown.add_section()
        console.print(shown)
