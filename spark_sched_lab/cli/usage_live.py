"""``spark-sched usage URL``: the slot time that a live application's jobs have used so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from spark_sched.errors import BadInputError
from spark_sched_lab.cli.usage_table import slot_columns, slot_table

if TYPE_CHECKING:
    from spark_sched.view.usage import LiveRow


def live_document(url: str, by: Sequence[str], price: float | None, currency: str) -> dict[str, Any]:
    """The JSON document. Raises BadInputError where nothing answers, or a live job has no such group."""
    from spark_sched.view.http import fetch_status
    from spark_sched.view.usage import LIVE_GROUPS, LIVE_KINDS, live_usage

    other = next((name for name in by if name not in LIVE_GROUPS), None)
    if other is not None:
        raise BadInputError(
            f"--by is {','.join(by)!r} but a live application does not add up slot time by {other}: use some "
            f"of {', '.join(LIVE_GROUPS)}, or its event log"
        )
    status = fetch_status(url)
    if "queue" in by and not status.queues:
        raise BadInputError(
            f"--by is {','.join(by)!r} but the application has no queues (spark.sched.queues): use some of "
            f"{', '.join(name for name in LIVE_GROUPS if name != 'queue')}"
        )
    found = live_usage(status, by)

    def row(of: LiveRow) -> dict[str, Any]:
        at_most = of.held_at_most_ms / 1000 if of.held_at_most_ms else None
        return {"jobs": of.jobs, **slot_columns(of.slot_ms, price), "held_at_most_slot_s": at_most}

    return {
        "schema": 1,
        "live": True,
        "at_ms": status.now_ms,
        "application": status.application.id,
        "mode": status.mode,
        "by": list(by),
        "rate_per_slot_hour": price,
        "currency": currency or None,
        "total": slot_columns({kind: found.total_ms(kind) for kind in LIVE_KINDS}, price),
        "ended": None if found.ended is None else row(found.ended),
        "rows": [{**dict(zip(by, each.group, strict=True)), **row(each)} for each in found.rows],
    }


def print_live(document: dict[str, Any]) -> None:
    """The document as a table, with notes on what it leaves out."""
    from rich.console import Console

    from spark_sched.view.usage import LIVE_KINDS

    console = Console(highlight=False)
    total, ended = document["total"], document["ended"]
    used = total["total_slot_s"]
    if not used:
        console.print("no job has used any slot time yet")
        return
    console.print(
        f"{used:,.0f} slot-seconds so far: {total['run_slot_s'] / used:.1%} ran tasks, "
        f"{total['held_slot_s'] / used:.1%} were held idle, "
        f"{(total['copies_slot_s'] + total['evicted_slot_s']) / used:.1%} went to copies and evictions."
    )
    console.print(slot_table(document, LIVE_KINDS, used))
    if ended is not None:
        console.print(
            "note: a live application divides the slot time of ended jobs by class, by user or by queue "
            "alone (--by class, --by user, --by queue): its event log divides all"
        )
    console.print(
        "note: run includes what failed or was cancelled, and idle slots are not added up: the event log "
        "distinguishes these"
    )
    if document["mode"] == "shadow":
        console.print("note: in shadow mode held slots are what would have been held")
