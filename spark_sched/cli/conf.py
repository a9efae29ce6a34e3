"""``spark-sched conf``: the properties that attach the scheduler."""

from __future__ import annotations

from pathlib import Path

import click

from spark_sched.attach import build, find_spark
from spark_sched.attach.properties import DOORS, Door, attached_properties
from spark_sched.cli.common import (
    DEFAULT_MASTER,
    check_properties,
    echo_json,
    parse_assignments,
    queues_option,
    with_watched_queues,
)
from spark_sched.config import check_inner_master, format_properties
from spark_sched.files import write_whole

_COMMENT = "Attaches spark_sched to an unmodified Spark: spark-submit --properties-file THIS-FILE …"
_PODS = "Class path and Python are paths of this machine: a driver in a pod needs those of its image."
_SPARK = "Compiled for Spark {version} at {home} ({source})."


@click.command("conf")
@click.option(
    "--master", default=DEFAULT_MASTER, show_default=True, metavar="INNER", help="Master to run on."
)
@click.option(
    "--door",
    type=click.Choice(DOORS),
    default="plugin",
    show_default=True,
    help="Attach by a plugin and leave the master as it is, or by spark-sched: before the master.",
)
@click.option("--set", "assignments", multiple=True, metavar="K=V", help="Another property; repeatable.")
@queues_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--class-path", is_flag=True, help="Print only the path of the bridge's jar.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write to this file instead of standard output.",
)
def command(
    master: str,
    door: Door,
    assignments: tuple[str, ...],
    queues: Path | None,
    as_json: bool,
    class_path: bool,
    out: Path | None,
) -> None:
    """Print the properties that run an application on INNER under spark_sched.

    INNER is local, local[N], local[*], local[N,F], local-cluster[executors,cores,memory_mb],
    spark://host:port[,host:port], yarn or k8s://https://host:port. If the bridge has not been compiled yet,
    this compiles it first, for the Spark of SPARK_HOME, else for the installed pyspark.

    With --door plugin a master that the program or spark-submit sets is attached, too. Other plugins belong
    into the same list: --set spark.plugins=com.example.Plugin keeps them.

    spark-submit reads its properties file twice, so pass a file, not a pipe such as <(…) of bash.

    \b
    Examples:
      spark-sched conf --master 'local-cluster[2,2,1024]' --out sched.conf
      spark-submit --properties-file sched.conf app.py
      spark-sched conf --master spark://host:7077 --set spark.sched.reservation.isolation=0.9
      spark-sched conf --master yarn --queues conf/queues.toml --out sched.conf
      spark-submit --driver-class-path "$(spark-sched conf --class-path)" --properties-file my.conf app.py
    """
    if class_path:
        click.echo(build())
        return
    given = with_watched_queues(parse_assignments("--set", assignments), queues)
    check_properties(given)
    spark = find_spark()
    attached = attached_properties(master, given, spark, door)
    comment = f"{_COMMENT}\n{_SPARK.format(version=spark.version, home=spark.home, source=spark.source)}"
    if check_inner_master(master)[1] == "k8s":
        comment += f"\n{_PODS}"
    if out is not None:
        write_whole(out, format_properties(attached, comment))
    if as_json:
        echo_json(attached)
    elif out is None:
        click.echo(format_properties(attached, comment), nl=False)
