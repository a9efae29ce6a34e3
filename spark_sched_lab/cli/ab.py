"""``spark-sched ab``: settings compared by paired runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spark_sched.cli.app import Failure
from spark_sched.cli.common import (
    echo_json,
    needing,
    note,
    queues_option,
    refuse_without,
    region_option,
    stack_option,
    with_queues,
)
from spark_sched.errors import BadInputError
from spark_sched.terminal import EXIT_INTERRUPTED, aligned_table, wide_console

if TYPE_CHECKING:
    from spark_sched_lab.runs.paired.arms import Arm

_OUT = click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("spark-sched-ab"),
    show_default=True,
    metavar="DIR",
    help="Folder for the runs, report.html and results.json.",
)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print the results as one JSON document.")


@click.group("ab")
def command() -> None:
    """Compare settings by paired runs, with confidence intervals.

    docs/how-to/compare-settings.md explains suites and reports; conf/ab has example suites.
    """


@command.command("run")
@click.argument("suite", type=click.Path(path_type=Path))
@_OUT
@queues_option
@click.option(
    "--simulate", is_flag=True, help="Run in the simulator instead of on a cluster of this machine."
)
@click.option("--master", metavar="URL", help="Run on this standalone cluster, such as spark://host:7077.")
@click.option("--on", "place", type=click.Choice(["ec2"]), help="Run on the cluster of `spark-sched ec2 up`.")
@stack_option
@region_option
@click.option(
    "--hours",
    type=click.IntRange(1, 47),
    default=8,
    show_default=True,
    help="On EC2: stop after this number of hours; repeat the command to continue.",
)
@_JSON
@click.pass_context
def run_command(
    context: click.Context,
    suite: Path,
    out: Path,
    queues: Path | None,
    simulate: bool,
    master: str | None,
    place: str | None,
    stack: str,
    region: str | None,
    hours: int,
    as_json: bool,
) -> None:
    """Run a suite's arms in blocks of paired runs, in random order.

    Every finished run is stored at once. After an interruption or a crash, repeat the command to continue
    without repeating finished runs. The test ends when all intervals are narrow enough, or when all blocks of
    the suite have run.

    \b
    Examples:
      spark-sched ab run conf/ab/deadlines.toml --out deadlines
      spark-sched ab run conf/ab/deadlines.toml --simulate --json
      spark-sched ab run conf/ab/deadlines.toml --simulate --queues conf/queues.toml
      spark-sched ab run conf/ab/deadlines.toml --on ec2 --out deadlines-ec2
    """
    if sum([simulate, master is not None, place is not None]) > 1:
        raise BadInputError("--simulate, --master and --on exclude each other: give one of them")
    if place is None:
        refuse_without("--on ec2", "stack", "region", "hours")
    with needing("ab"):
        import jinja2  # noqa: F401
        import matplotlib  # noqa: F401

        from spark_sched_lab.runs.ab.command import run_test
        from spark_sched_lab.runs.ab.suite import read_suite
    from spark_sched_lab.runs.clusters import ClusterError
    from spark_sched_lab.runs.paired.application import ArmError

    plan = read_suite(suite)
    if queues is not None:
        plan = replace(plan, arms=tuple(_in_queues(arm, queues) for arm in plan.arms))

    try:
        if place is None:
            document = run_test(plan, out, simulate=simulate, note=note, master_url=master)
        else:
            with needing("--on ec2"):
                from spark_sched_lab.runs.clusters.ec2 import Account
            from spark_sched_lab.runs.ab.ec2 import run_on_ec2

            document = run_on_ec2(plan, out, Account(region), stack, hours, note)
    except KeyboardInterrupt:
        click.echo("interrupted: finished runs are stored, repeat the command to continue", err=True)
        context.exit(EXIT_INTERRUPTED)
    except (ArmError, ClusterError) as error:
        raise Failure(f"{error}\nfinished runs are stored, repeat the command to continue") from None
    _publish(document, out, as_json)


def _in_queues(arm: Arm, queues: Path) -> Arm:
    """The arm with the tenants' queues; Spark's own scheduling has none."""
    return (
        arm
        if arm.stock
        else replace(arm, properties=tuple(with_queues(dict(arm.properties), queues).items()))
    )


@command.command("report")
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False), metavar="DIR")
@click.option(
    "--against",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Folder of another test of the same suite: also report how well the orders of the arms agree.",
)
@_JSON
def report_command(directory: Path, against: Path | None, as_json: bool) -> None:
    """Report the runs of a folder, also while its test is running.

    Writes report.html and results.json into the folder.

    \b
    Examples:
      spark-sched ab report deadlines
      spark-sched ab report deadlines --against deadlines-simulated --json
    """
    with needing("ab"):
        from spark_sched_lab.runs.ab.analysis import order_agreement
        from spark_sched_lab.runs.ab.command import report

        document = report(directory)
        if against is not None:
            document["kendall_tau"] = order_agreement(document, report(against))
    _publish(document, directory, as_json)


def _publish(document: dict[str, Any], out: Path, as_json: bool) -> None:
    click.echo(f"report: {out / 'report.html'}", err=True)
    if as_json:
        echo_json(document)
    else:
        _print(document)
    if not document["results_equal"]:
        raise Failure("results differ between arms: a setting changes what the workload computes")


def _print(document: dict[str, Any]) -> None:
    from rich import box

    from spark_sched_lab.runs.ab.page import HEADINGS, table

    console = wide_console(160)
    title = f"{document['suite']}: {document['blocks']} blocks"
    shown = aligned_table(HEADINGS[:1], HEADINGS[1:], title=title, box=box.SIMPLE, pad_edge=False)
    for row in table(document):
        shown.add_row(*row)
    console.print(shown)
    if "cost" in document:
        cost = document["cost"]
        click.echo(
            f"cost: {cost['dollars']:.2f} dollars at {cost['dollars_per_hour']:.2f} per hour, of which runs"
        )
        for arm, row in cost["arms"].items():
            click.echo(f"  {arm}: {row['dollars']:.4f}")
    click.echo(document["verdict"]["text"])
    if document["recommended"]:
        click.echo(document["recommended"]["text"])
    if "kendall_tau" in document:
        click.echo(f"Kendall's τ between the orders of the arms: {document['kendall_tau']:.2f}.")
