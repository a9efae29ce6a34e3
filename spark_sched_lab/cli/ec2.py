"""``spark-sched ec2``: a cluster on EC2 for ``ab run --on ec2``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import click

from spark_sched.cli.app import Failure
from spark_sched.cli.common import echo_json, needing, note, region_option, stack_option
from spark_sched.terminal import EXIT_INTERRUPTED
from spark_sched_lab.runs.clusters import ClusterError

_HOURS_A_DAY = 24


@click.group("ec2")
def command() -> None:
    """Bring up a Spark standalone cluster on EC2, and remove it.

    Needs an AWS account and its credentials; docs/how-to/test-on-ec2.md explains each step.
    """


@command.command("up")
@click.argument("suite", type=click.Path(path_type=Path))
@stack_option
@region_option
@click.option("--bucket", required=True, help="Your S3 bucket, for the package and the results.")
@click.option("--master-type", default="m6i.xlarge", show_default=True, help="Instance type of the master.")
@click.option("--worker-type", default="m6i.2xlarge", show_default=True, help="Instance type of workers.")
@click.option("--spot", is_flag=True, help="Spot instances as workers. The master is on demand.")
@click.option(
    "--price",
    "prices",
    multiple=True,
    metavar="NAME=DOLLARS",
    help="Dollars per hour; give it for master, worker and nat, the NAT gateway.",
)
@click.option(
    "--budget",
    type=click.FloatRange(min=1),
    required=True,
    help="The account's budget in dollars per month; AWS sends an e-mail at 80 % of it.",
)
@click.option("--email", required=True, help="Address for that e-mail.")
@click.option(
    "--wheel",
    type=click.Path(path_type=Path),
    metavar="FILE",
    required=True,
    help="The wheel of spark_sched that the nodes install; `python -m build` makes one.",
)
def up_command(
    suite: Path,
    stack: str,
    region: str | None,
    bucket: str,
    master_type: str,
    worker_type: str,
    spot: bool,
    prices: tuple[str, ...],
    budget: float,
    email: str,
    wheel: Path,
) -> None:
    """Bring up a cluster that fits an A/B suite; the same command again changes or reuses it.

    Prints the cost per hour first. Then waits until all nodes run.

    \b
    Examples:
      spark-sched ec2 up deadlines.toml --bucket my-bucket --budget 50 --email me@example.com \\
        --price master=M --price worker=W --price nat=N --wheel spark_sched-0.1.0-py3-none-any.whl
    """
    with needing("ec2"):
        from spark_sched_lab.runs.ab.suite import read_suite
        from spark_sched_lab.runs.clusters import ec2
        from spark_sched_lab.runs.paired.live import worker_needs
    plan = read_suite(suite)
    known = ec2.read_prices(prices, {"master": master_type, "worker": worker_type})
    slots, memory_gb = worker_needs(plan.cluster, plan.arms)
    spec = ec2.StackSpec(
        stack,
        bucket,
        master_type,
        worker_type,
        plan.cluster.workers,
        slots,
        memory_gb,
        spot,
        budget,
        email,
        known,
        wheel,
    )
    account = ec2.Account(region)
    per_hour = known.per_hour(spec.workers)
    note(
        f"estimate: {per_hour:.2f} dollars per hour ({per_hour * _HOURS_A_DAY:.2f} a day) until "
        f"`spark-sched ec2 down --stack {stack}`, without disks, data transfer and S3"
    )
    with _failures(f"stack {stack} may still come up and cost money: run `up` again or `down`"):
        found = ec2.bring_up(account, spec, note)
    click.echo(f"{found.name}: {found.workers} workers, master {found.outputs['MasterId']}")


@command.command("status")
@stack_option
@region_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def status_command(stack: str, region: str | None, as_json: bool) -> None:
    """Print the stack's state, the reason for a failure, and the cost per hour."""
    with needing("ec2"):
        from spark_sched_lab.runs.clusters import ec2
        from spark_sched_lab.runs.clusters.ec2.stack import failure
    with _failures("nothing was changed"):
        account = ec2.Account(region)
        found = ec2.find_stack(account, stack)
        reason = failure(account, stack) if found and not found.usable else ""
    document = {
        "stack": stack,
        "region": account.region,
        "status": found.status if found else None,
        "reason": reason.strip(" ()"),
        "outputs": dict(found.outputs) if found else {},
        "dollars_per_hour": round(found.dollars_per_hour, 6) if found and found.usable else None,
    }
    if as_json:
        echo_json(document)
    elif found is None:
        click.echo(f"{stack}: no such stack in {account.region}")
    else:
        click.echo(f"{stack}: {found.status}{reason}")
        if found.usable:
            click.echo(f"{found.workers} workers, {found.dollars_per_hour:.2f} dollars per hour")


@command.command("down")
@stack_option
@region_option
def down_command(stack: str, region: str | None) -> None:
    """Remove the cluster; harmless if there is none. Your bucket and its files stay."""
    with needing("ec2"):
        from spark_sched_lab.runs.clusters import ec2
    with _failures(f"stack {stack} may still exist and cost money: run `down` again"):
        gone = ec2.take_down(ec2.Account(region), stack, note)
    click.echo(f"{stack}: removed" if gone else f"{stack}: there is no such stack")


@contextlib.contextmanager
def _failures(interrupted: str) -> Iterator[None]:
    try:
        yield
    except ClusterError as error:
        raise Failure(str(error)) from None
    except KeyboardInterrupt:
        note(f"interrupted: {interrupted}")
        raise click.exceptions.Exit(EXIT_INTERRUPTED) from None
