"""``spark-sched usage``: who used the executors' slot time, and for what."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from spark_sched.cli.common import echo_json, needing
from spark_sched.errors import BadInputError, did_you_mean
from spark_sched.plain_text import cell
from spark_sched.terminal import group_table, say
from spark_sched_lab.cli.trace_input import each_log, say_report
from spark_sched_lab.cli.usage_energy import energy_document, print_energy
from spark_sched_lab.cli.usage_live import live_document, print_live
from spark_sched_lab.cli.usage_table import slot_columns, slot_table

if TYPE_CHECKING:
    from rich.console import Console

    from spark_sched_lab.traces.read_report import ReadReport
    from spark_sched_lab.usage import GroupBy, Statement, Usage

OWNERS: tuple[GroupBy, ...] = ("user", "class", "name")
_GROUPS: tuple[GroupBy, ...] = (*OWNERS, "stage", "executor", "queue")
Group = TypeVar("Group", bound=str)
_EVICTIONS_SHOWN = 10
_HOST_AND_PORT = re.compile(r"(?:[\w.-]+|\[[\da-fA-F:]+\]):\d{1,5}(?:/|$)")
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*([^\d\s/]*)")


@click.command("usage")
@click.argument("sources", metavar="LOG...|URL", nargs=-1, required=True)
@click.option(
    "--by",
    "by_text",
    default="name",
    show_default=True,
    metavar="user,class,name,stage,executor,queue",
    help="Group the rows by one of these, or by several, separated by commas. stage and executor are for "
    "logs, queue for a URL and for event logs of applications with queues.",
)
@click.option("--rate", metavar="PRICE", help="Price of a slot-hour with its currency, such as 0.04EUR.")
@click.option(
    "--energy",
    "profile_path",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="PROFILE.toml",
    help="Charge energy by this power profile of the hosts, such as conf/energy/thesis.toml.",
)
@click.option(
    "--measured",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.toml",
    help="Measured energy of a host, as `spark-sched energy` writes it; needs --energy; repeatable.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Also write the rows to FILE.csv or FILE.parquet; with --energy, the rows of the energy. In a CSV "
    "file a name that a spreadsheet would take for a formula begins with '.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(
    sources: tuple[str, ...],
    by_text: str,
    rate: str | None,
    profile_path: Path | None,
    measured: tuple[Path, ...],
    out: Path | None,
    as_json: bool,
) -> None:
    """Charge the executors' slot time, and their hosts' energy, to users, classes or jobs.

    A LOG is the file that spark.sched.events.path named, or a Spark event log (a file, a rolling directory or
    a folder). The file records which slots were held idle. The event log of an attached application records
    only for how long slots were held for each job. The rows and the idle time add up to the slot time that
    the executors offered.

    A URL such as http://localhost:4040, or localhost:4040, is the UI of a live application with spark_sched.
    There the rows by class, by user and by queue include all jobs, and the rows by name, or by several
    groups, only jobs that have not ended.
    docs/how-to/charge-slot-time.md explains the columns.

    \b
    Examples:
      spark-sched usage events.jsonl
      spark-sched usage events.jsonl --by user,class --rate 0.04EUR
      spark-sched usage event-logs/ --by user --out usage.csv --json
      spark-sched usage localhost:4040 --by user
      spark-sched usage events.jsonl --energy conf/energy/thesis.toml --by name,stage
    """
    price, currency = _price(rate)
    if out is not None and out.suffix not in (".csv", ".parquet"):
        raise BadInputError(f"--out is {str(out)!r} but must end with .csv or .parquet")
    if measured and profile_path is None:
        raise BadInputError("--measured needs --energy PROFILE.toml, which divides the energy among the rows")
    if any(map(_is_address, sources)):
        _live(sources, groups_of(by_text, _GROUPS), price, currency, profile_path, out, as_json)
        return
    by = groups_of(by_text, _GROUPS)
    logs = [Path(source) for source in sources]
    with needing("usage"):
        from spark_sched_lab.usage import account, account_energy, read_profile
    profile = None if profile_path is None else read_profile(profile_path, measured)
    read = [found for path in logs for found in _read(path)]
    usages = _with_queues([usage for usage, _ in read], by, by_text, sources)
    statement = account(usages, by)
    document = {
        **_document(statement, price, currency),
        "unended_attempts": sum(each.outcome == "unknown" for usage in usages for each in usage.attempts),
        "unread_lines": sum(report.bad_rows for _, report in read),
        "truncated": [file for _, report in read for file in report.truncated],
        "not_used": _sums(report.notes for _, report in read),
        "missing": _sums(report.missing for _, report in read),
        "attempts": sum(len(usage.attempts) for usage in usages),
        "unlisted_executors": sum(usage.unlisted for usage in usages),
    }
    if profile is not None:
        document["energy"] = energy_document(account_energy(usages, profile, by))
        on = {host["host"] for host in document["energy"]["hosts"]}
        for host in sorted(profile.measured_j.keys() - on):
            say(f"note: no executor was on host {host!r}, whose energy was measured")
    if out is not None:
        _write(out, document.get("energy", document)["rows"])
    for _, report in read:
        say_report(report)
    if as_json:
        echo_json(document)
        return
    _print(document)
    if profile is not None:
        print_energy(document["energy"])


def _with_queues(
    usages: list[Usage], by: Sequence[GroupBy], by_text: str, sources: Sequence[str]
) -> list[Usage]:
    """The usages, which say what queues jobs were in if that is asked for. Raises BadInputError if not."""
    if "queue" in by and not any(owner.queue for usage in usages for owner in usage.owners.values()):
        raise BadInputError(
            f"--by is {by_text!r} but no job of {' '.join(sources)} was in a queue: give the Spark event log "
            f"of an application with queues, or use some of {', '.join(_GROUPS[:-1])}"
        )
    return usages


def _sums(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return dict(sorted(total.items()))


def _is_address(source: str) -> bool:
    """Whether it names an application's UI as `spark-sched top` takes it: a URL, or a host with a port.

    A file of that name is a log.
    """
    return "://" in source or (_HOST_AND_PORT.match(source) is not None and not Path(source).exists())


def _live(
    sources: tuple[str, ...],
    by: tuple[str, ...],
    price: float | None,
    currency: str,
    profile_path: Path | None,
    out: Path | None,
    as_json: bool,
) -> None:
    if len(sources) > 1:
        raise BadInputError(f"LOG...|URL is {' '.join(sources)!r} but must be logs, or one URL alone")
    if profile_path is not None:
        raise BadInputError(
            "--energy needs the times of attempts, which a live application does not report: give a log"
        )
    document = live_document(sources[0], by, price, currency)
    if out is not None:
        with needing("usage"):
            import pyarrow  # noqa: F401
        _write(out, document["rows"])
    if as_json:
        echo_json(document)
    else:
        print_live(document)


def groups_of(text: str, legal: tuple[Group, ...]) -> tuple[Group, ...]:
    """The groups that ``--by`` names, out of the legal ones."""
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in legal:
            raise BadInputError(
                f"--by is {text!r}{did_you_mean(name, legal)} but must name some of {', '.join(legal)}"
            )
    if len(set(names)) < len(names):
        raise BadInputError(f"--by is {text!r} but must name each group once")
    return tuple(legal[legal.index(name)] for name in names)


def _price(text: str | None) -> tuple[float | None, str]:
    if text is None:
        return None, ""
    match = _RATE.fullmatch(text.strip())
    if match is None:
        raise BadInputError(f"--rate is {text!r} but must be a number and a currency, such as 0.04EUR")
    return float(match[1]), match[2]


def _read(path: Path) -> list[tuple[Usage, ReadReport]]:
    """The applications of the logs under a path, each with the report of its unusable rows."""
    from spark_sched_lab.traces import open_trace
    from spark_sched_lab.traces.read_report import ReadReport
    from spark_sched_lab.usage import is_recorded, usage_of_event_log, usage_of_recorded

    def usage(log: Path, progress: Callable[[int], None]) -> tuple[Usage, ReadReport]:
        if log.is_file() and is_recorded(log):
            report = ReadReport()
            return usage_of_recorded(log, progress, report), report
        reader = open_trace(log, "spark_eventlog", progress=progress)
        return usage_of_event_log(reader.read()), reader.report

    return each_log(path, usage)


def _document(statement: Statement, price: float | None, currency: str) -> dict[str, Any]:
    from spark_sched_lab.usage import KINDS

    rows = [
        {
            **dict(zip(statement.by, row.group, strict=True)),
            "jobs": len(row.jobs),
            **slot_columns(row.slot_ms, price),
            "held_at_most_slot_s": _at_most_s(row.held_at_most_ms),
            "caused_evicted_slot_s": row.caused_ms / 1000 if statement.has_causes else None,
        }
        for row in statement.rows
    ]
    return {
        "schema": 1,
        "by": list(statement.by),
        "capacity_slot_s": statement.capacity_ms / 1000,
        "idle_slot_s": statement.idle_ms / 1000,
        "excess_slot_s": statement.excess_ms / 1000,
        "held_is_recorded": statement.has_holds,
        "rate_per_slot_hour": price,
        "currency": currency or None,
        "total": slot_columns({kind: statement.total_ms(kind) for kind in KINDS}, price),
        "rows": rows,
        "evictions": [
            {
                **dict(zip(statement.by, each.group, strict=True)),
                **{f"caused_by_{k}": v for k, v in zip(statement.by, each.caused_by, strict=True)},
                "evicted_slot_s": each.slot_ms / 1000,
            }
            for each in statement.caused
        ],
    }


def _at_most_s(held_ms: float | None) -> float | None:
    """JSON and tables of numbers have no infinity."""
    return None if held_ms is None or math.isinf(held_ms) else round(held_ms / 1000, 3)


def _write(out: Path, rows: list[dict[str, Any]]) -> None:
    import pyarrow as pa
    from pyarrow import csv, parquet

    table = pa.Table.from_pylist([_cells(row) for row in rows] if out.suffix == ".csv" else rows)
    temporary = out.with_name(f".{out.name}.part")
    try:
        if out.suffix == ".csv":
            csv.write_csv(table, temporary)
        else:
            parquet.write_table(table, temporary)
        temporary.replace(out)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise BadInputError(f"{str(out)!r} cannot be written ({error.strerror}): check the folder") from None


def _cells(row: dict[str, Any]) -> dict[str, Any]:
    """For a spreadsheet, which takes some texts for formulas."""
    return {column: cell(value) if isinstance(value, str) else value for column, value in row.items()}


def _print(document: dict[str, Any]) -> None:
    from rich.console import Console

    from spark_sched_lab.usage import KINDS

    console = Console(highlight=False)
    offered = document["capacity_slot_s"]
    run, held = (document["total"][f"{kind}_slot_s"] for kind in ("run", "held"))
    if offered == 0 and not document["attempts"]:
        console.print("no executor offered any slot")
        return
    used = document["total"]["total_slot_s"]
    if not document["attempts"] and not used:
        console.print(f"No task ran: {offered:,.0f} slot-seconds were idle.")
        return
    if offered == 0:
        console.print(f"{document['attempts']:,} attempts ran, each for less than 1 ms.")
        return
    wasted = used - run - held
    console.print(
        f"{run / offered:.1%} of {offered:,.0f} slot-seconds ran tasks to their end"
        + (" or to the log's, " if document["unended_attempts"] else ", ")
        + (f"{held / offered:.1%} were held idle, " if document["held_is_recorded"] else "")
        + f"{wasted / offered:.1%} were lost to copies, evictions, failures and cancelled work."
    )
    console.print(slot_table(document, KINDS, offered))
    _print_evictions(console, document["evictions"], document["by"])
    if not document["held_is_recorded"]:
        console.print("note: the log does not record held slots: they count as idle")
    if document["unended_attempts"]:
        console.print(
            f"note: {document['unended_attempts']:,} attempts have no end in the log: they count as run "
            "until their stage or the log ends"
        )
    if document["unlisted_executors"]:
        console.print(
            f"note: {document['unlisted_executors']:,} executors are not listed in the log: their slots are "
            "those that attempts took at once, so more may have been idle"
        )
    if document["excess_slot_s"]:
        excess = document["excess_slot_s"] / offered
        console.print(
            f"note: attempts overlap by {excess:.2%} of what their executors offered", highlight=False
        )


def _print_evictions(console: Console, evictions: list[dict[str, Any]], by: Sequence[str]) -> None:
    """The groups that lost slot time, and the groups that caused it: the ten greatest sums."""
    if not evictions:
        return
    both = (*by, *(f"evicted for {name}" for name in by))
    table = group_table("evictions", both, ["slot-seconds"])
    for row in evictions[:_EVICTIONS_SHOWN]:
        cells = [str(row[name]) or "-" for name in (*by, *(f"caused_by_{name}" for name in by))]
        table.add_row(*cells, f"{row['evicted_slot_s']:,.1f}")
    console.print(table)
    if len(evictions) > _EVICTIONS_SHOWN:
        console.print(f"{len(evictions) - _EVICTIONS_SHOWN:,} more are in --json")
