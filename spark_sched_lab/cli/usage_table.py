"""Slot time by group: the columns of its documents, and its table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from spark_sched.terminal import group_table

if TYPE_CHECKING:
    from rich.table import Table


def slot_columns(slot_ms: Mapping[str, int], price: float | None) -> dict[str, Any]:
    """Slot time by kind and in total, in slot-seconds, and its cost at a price per slot-hour."""
    cells: dict[str, Any] = {f"{kind}_slot_s": ms / 1000 for kind, ms in slot_ms.items()}
    cells["total_slot_s"] = sum(slot_ms.values()) / 1000
    if price is not None:
        cells["cost"] = round(price * cells["total_slot_s"] / 3600, 6)
    return cells


def slot_table(document: dict[str, Any], kinds: Iterable[str], whole_s: float) -> Table:
    """The rows of a document of slot time, each with its share of ``whole_s`` slot-seconds."""
    by, ended = document["by"], document.get("ended")
    columns: dict[str, Callable[[dict[str, Any]], str]] = {"jobs": lambda row: f"{row['jobs']:,}"}
    for kind in kinds:
        if document["total"][f"{kind}_slot_s"]:
            columns[kind] = lambda row, kind=kind: f"{row[f'{kind}_slot_s']:,.1f}"  # type: ignore[misc]
    if any(row["held_at_most_slot_s"] is not None for row in (*document["rows"], *filter(None, [ended]))):
        columns["held by eq. 4"] = _at_most
    if document.get("evictions"):
        columns["evicted for it"] = lambda row: f"{row['caused_evicted_slot_s'] or 0.0:,.1f}"
    columns["total"] = lambda row: f"{row['total_slot_s']:,.1f}"
    columns["share"] = lambda row: f"{row['total_slot_s'] / whole_s:.1%}"
    if document["rate_per_slot_hour"] is not None:
        columns[f"cost {document['currency'] or ''}".strip()] = lambda row: f"{row['cost']:,.2f}"
    table = group_table("slot-seconds", by, columns)
    for row in document["rows"]:
        table.add_row(*(str(row[name]) or "-" for name in by), *(cell(row) for cell in columns.values()))
    blank = [""] * (len(by) - 1)
    if ended is not None:
        table.add_row("(ended jobs)", *blank, *(cell(ended) for cell in columns.values()), style="dim")
    if "idle_slot_s" in document:
        idle = {"total_slot_s": document["idle_slot_s"]}
        cells = (columns[name](idle) if name in ("total", "share") else "" for name in columns)
        table.add_row("(idle)", *blank, *cells, style="dim")
    return table


def _at_most(row: dict[str, Any]) -> str:
    at_most_s = row["held_at_most_slot_s"]
    return "-" if at_most_s is None else f"≤ {at_most_s:,.1f}"
