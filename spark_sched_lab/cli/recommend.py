"""``spark-sched recommend``: executors, slots and priorities out of recorded history."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spark_sched.cli.common import echo_json, needing
from spark_sched.errors import BadInputError
from spark_sched.plain_text import plain
from spark_sched.terminal import group_table
from spark_sched_lab.cli.trace_input import each_log, say_report
from spark_sched_lab.cli.usage import OWNERS, groups_of

if TYPE_CHECKING:
    from spark_sched_lab.sizing import Advice, Group, LoggedApplication, Statistics


@click.command("recommend")
@click.argument("logs", metavar="LOG...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--by",
    "by_text",
    default="name",
    show_default=True,
    metavar="user,class,name",
    help="Group the jobs by one of these, or by several, separated by commas.",
)
@click.option(
    "--deviations",
    default=2.0,
    show_default=True,
    metavar="C",
    help="Chebyshev's c: at least 1 - 1/c² of the recorded values are below mean + c standard deviations.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(logs: tuple[Path, ...], by_text: str, deviations: float, as_json: bool) -> None:
    """Recommend executors, slots and priorities from an application's history.

    A LOG is a Spark event log (a file, a rolling directory or a folder), or the file that
    spark.sched.events.path named. All logs count as runs of one application. Each recommendation has its
    reason. If the logs do not record a statistic, the command names it and leaves out the recommendation that
    needs it. docs/how-to/size-an-application.md explains the numbers.

    \b
    Examples:
      spark-sched recommend event-logs/
      spark-sched recommend event-logs/ --by user,class --deviations 3
      spark-sched recommend event-logs/ --json
    """
    by = groups_of(by_text, OWNERS)
    if not 1 < deviations <= 100:
        raise BadInputError(f"--deviations is {deviations:g} but must be above 1 and at most 100")
    with needing("recommend"):
        from spark_sched_lab.sizing import measure, read_application, recommend
    every = [application for path in logs for application in each_log(path, read_application)]
    applications = [application for application in every if application.usage.attempts]
    if not applications:
        raise BadInputError(f"{every[0].log} has no task: give the log of an application that ran some")
    found = measure(applications, by)
    advice = recommend(applications, found, deviations)
    document = _document(applications, found, advice, deviations)
    for application in every:
        say_report(application.report)
    if as_json:
        echo_json(document)
        return
    if len(every) > len(applications):
        click.echo(
            f"note: {len(every) - len(applications)} of {len(every)} logs have no task and are left out"
        )
    _print(found, advice, document)


def _document(
    applications: list[LoggedApplication], found: Statistics, advice: Advice, deviations: float
) -> dict[str, Any]:
    from spark_sched_lab.evictions.wasc import coverage

    statement = found.statement
    offered_ms = statement.capacity_ms

    def share(slot_ms: int) -> float | None:
        return slot_ms / offered_ms if offered_ms else None

    return {
        "schema": 1,
        "logs": [str(application.log) for application in applications],
        "applications": sorted({application.name for application in applications} - {""}),
        "deviations": deviations,
        "coverage": coverage(deviations),
        "by": list(found.by),
        "busy_slots": _busy(found, deviations),
        "idle_share": share(statement.idle_ms),
        "held_share": share(statement.total_ms("held")) if statement.has_holds else None,
        "attempts": found.attempts,
        "attempts_without_cpu_time": found.unseen,
        "missing": dict(sum((Counter(each.report.missing) for each in applications), Counter())),
        "groups": [_row(group, found, deviations) for group in found.groups],
        "recommendations": [
            {
                "setting": one.setting,
                "group": None if one.group is None else dict(zip(found.by, one.group, strict=True)),
                "value": one.value,
                "recorded": one.recorded or None,
                "reason": one.reason,
            }
            for one in advice.settings
        ],
        "left_out": advice.left_out,
        "properties": advice.properties,
    }


def _busy(of: Statistics | Group, deviations: float) -> dict[str, Any]:
    busy = of.busy
    return {
        "seconds": busy.seconds,
        "mean": busy.mean,
        "deviation": busy.deviation,
        "most": busy.most,
        "bound": busy.bound(deviations),
    }


def _row(group: Group, found: Statistics, deviations: float) -> dict[str, Any]:
    cpu = group.cpu
    return {
        **dict(zip(found.by, group.group, strict=True)),
        "jobs": group.jobs,
        "slot_s": group.slot_s,
        "slot_s_per_job": group.demand_s,
        "wait_s": group.wait_s,
        "priorities": list(group.priorities),
        "busy_slots": _busy(group, deviations),
        "cpu_per_run_time": None
        if cpu is None
        else {
            "tasks": cpu.tasks,
            "mean": cpu.mean,
            "deviation": cpu.deviation,
            "cpu_s_per_task": cpu.mean_demand_s,
        },
    }


def _print(found: Statistics, advice: Advice, document: dict[str, Any]) -> None:
    from rich.console import Console

    console = Console()

    def say(text: str) -> None:
        console.print(plain(text), highlight=False, markup=False, soft_wrap=True)

    if len(document["applications"]) > 1:
        say(f"note: these are logs of different applications: {', '.join(document['applications'])}")
    busy = document["busy_slots"]
    idle, held = (
        "not recorded" if document[key] is None else f"{document[key]:.1%}"
        for key in ("idle_share", "held_share")
    )
    say(
        f"{busy['mean']:.1f} ± {busy['deviation']:.1f} slots were busy at once; idle slot time: {idle}, "
        f"held idle: {held}."
    )
    numbers = ("jobs", "slot-s/job", "busy slots", "bound", "CPU/run time", "wait s")
    table = group_table("groups", found.by, numbers)
    for row in document["groups"]:
        own, cpu = row["busy_slots"], row["cpu_per_run_time"]
        table.add_row(
            *(row[name] or "-" for name in found.by),
            f"{row['jobs']:,}",
            f"{row['slot_s_per_job']:,.1f}",
            f"{own['mean']:.1f} ± {own['deviation']:.1f}",
            f"{own['bound']:.1f}",
            "not recorded" if cpu is None else f"{cpu['mean']:.2f} ± {cpu['deviation']:.2f}",
            "not recorded" if row["wait_s"] is None else f"{row['wait_s']:,.1f}",
        )
    console.print(table)
    for one in advice.settings:
        whose = "" if one.group is None else f" for {', '.join(filter(None, one.group)) or '-'}"
        was = f" (recorded: {one.recorded})" if one.recorded else ""
        say(f"\n{one.setting} {one.value}{whose}{was}\n  {one.reason}.")
    if advice.left_out:
        say("\nleft out")
        for sentence in advice.left_out:
            say(f"  {sentence}")
    if advice.properties:
        say("\n# spark-defaults.conf")
        for name, value in advice.properties.items():
            say(f"{name} {value}")
