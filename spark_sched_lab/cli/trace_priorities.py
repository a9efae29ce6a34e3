"""``spark-sched trace priorities``: the thesis' priority scheduling with evictions on a trace."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from spark_sched.cli.common import echo_json, needing, refuse_without, seed_option
from spark_sched.errors import BadInputError, did_you_mean
from spark_sched.terminal import aligned_table, counting_bar
from spark_sched_lab.cli.trace_input import reading, say_report

if TYPE_CHECKING:
    from spark_sched_lab.evictions import TaskTable
    from spark_sched_lab.evictions.settings import EvictionSetup

#: What the table shows of `PriorityResult.summary`.
_COLUMNS = {
    "V": "V, s", "WE": "WE, cpu·s", "E_kwh": "E, kWh", "NE_priority": "evicted", "NE_memory": "for mem.",
    "NET": "tasks", "max_evictions": "most", "dropped": "dropped",
}  # fmt: skip


@click.command("priorities")
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--setting",
    "settings",
    multiple=True,
    metavar="S",
    help="S1 to S11 of the thesis' table 6.2; repeatable.",
)
@click.option(
    "--rule",
    "rules",
    multiple=True,
    metavar="NAME",
    help="Rule such as mrs5, wasp, hybrid or priced-slots, with memory limits; repeatable.",
)
@click.option(
    "--slots", default="SC3", show_default=True, metavar="NAME", help="Slots for --rule: SC1 to SC4 or WASC."
)
@click.option(
    "--demand", "factor", default=1.0, show_default=True, metavar="X", help="Multiply all CPU demands by X."
)
@click.option("--format", "format_", metavar="NAME", help="The input's format; found from its content.")
@seed_option("simulation")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def priorities(
    path: Path,
    settings: tuple[str, ...],
    rules: tuple[str, ...],
    slots: str,
    factor: float,
    format_: str | None,
    seed: int,
    as_json: bool,
) -> None:
    """Simulate priority scheduling with evictions: the tasks of a trace on the thesis' 125 servers.

    Tasks arrive with their job. Their CPU and memory requests are fractions of the largest server; a task
    without a CPU request counts as 1, a whole such server (see --demand). Without --setting and --rule all
    settings S1 to S11 run. docs/explanation/evictions.md has the rules and the metrics.

    \b
    Examples:
      spark-sched trace priorities google2011/ --setting S1 --setting S3
      spark-sched trace priorities workload.parquet --rule mrs5 --rule hybrid --slots WASC --json
    """
    if not rules:
        refuse_without("--rule", "slots")
    with needing("trace"):
        import pyarrow  # noqa: F401
    from spark_sched_lab.evictions.workloads import HIGHEST_FACTOR

    if not 0.0 < factor <= HIGHEST_FACTOR:
        raise BadInputError(f"--demand is {factor:g} but must be a number above 0, at most {HIGHEST_FACTOR}")
    arms = _arms(settings, rules, slots)
    from spark_sched_lab.evictions import table_of_trace

    with reading(path, format_, None) as reader:
        table = table_of_trace(reader.read())
    table = replace(table, demand=table.demand * factor)
    runs = [{"name": name, **_run(name, arm, table, seed)} for name, arm in arms.items()]
    if as_json:
        echo_json({"path": str(path), "tasks": len(table), "seed": seed, "runs": runs})
    else:
        _print(path, table, runs)
    say_report(reader.report)


def _arms(settings: tuple[str, ...], rules: tuple[str, ...], slots: str) -> dict[str, EvictionSetup]:
    from spark_sched.policies.eviction import named_rule
    from spark_sched_lab.evictions import thesis_servers
    from spark_sched_lab.evictions.settings import SETTINGS, EvictionSetup

    for name in settings:
        if name not in SETTINGS:
            raise BadInputError(
                f"setting {name!r} is unknown{did_you_mean(name, SETTINGS)}: use one of {', '.join(SETTINGS)}"
            )
    count = sum(kind.count * kind.slots for kind in thesis_servers(slots))
    for name in rules:
        named_rule(name).check(count)
    chosen = settings if settings or rules else tuple(SETTINGS)
    return {name: SETTINGS[name] for name in chosen} | {
        name: EvictionSetup(name, slots, memory=True) for name in rules
    }


def _run(name: str, arm: EvictionSetup, table: TaskTable, seed: int) -> dict[str, Any]:
    from spark_sched.policies.eviction import named_rule
    from spark_sched_lab.evictions import simulate_priorities, thesis_servers

    with counting_bar("tasks") as show:
        result = simulate_priorities(
            table,
            thesis_servers(arm.configuration, memory=arm.memory),
            named_rule(arm.rule),
            memory_eviction=arm.memory_eviction,
            seed=seed,
            progress=lambda left, second: show(name, left, len(table)),
        )
    return {
        "rule": arm.rule,
        "slots": arm.configuration,
        "memory_eviction": arm.memory_eviction if arm.memory else None,
        **result.summary(),
    }


def _print(path: Path, table: TaskTable, runs: list[dict[str, Any]]) -> None:
    title = f"{path}: {len(table):,} tasks"
    shown = aligned_table([""], _COLUMNS.values(), title=title, box=None, pad_edge=False)
    shown.caption = "evicted: evictions for priority; tasks: that were evicted so; most: of one task"
    for run in runs:
        memory = run["memory_eviction"] or "no memory limit"
        shown.add_row(
            f"{run['name']}: {run['rule']}, {run['slots']}, {memory}",
            *[_number(run[key]) for key in _COLUMNS],
        )
    Console().print(shown)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 or value == int(value) else f"{value:.4g}"
