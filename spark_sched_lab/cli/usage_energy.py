"""The energy part of ``spark-sched usage``: its document and its table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_sched.terminal import group_table

if TYPE_CHECKING:
    from spark_sched_lab.usage import EnergyStatement


def energy_document(statement: EnergyStatement) -> dict[str, Any]:
    """The statement in joules, for ``--json`` and ``--out``."""
    from spark_sched_lab.usage import KINDS

    def columns(joules: dict[str, float]) -> dict[str, float]:
        found = {f"{kind}_j": round(joules[kind], 3) for kind in KINDS}
        return {**found, "total_j": round(sum(joules.values()), 3)}

    return {
        "by": list(statement.by),
        "energy_j": round(statement.energy_j, 3),
        "idle_j": round(statement.idle_j, 3),
        "total": columns({kind: statement.total_j(kind) for kind in KINDS}),
        "rows": [
            {**dict(zip(statement.by, row.group, strict=True)), **columns(row.joules)}
            for row in statement.rows
        ],
        "hosts": [
            {
                "host": host.host,
                "type": host.type,
                "on_s": host.on_s,
                "energy_j": round(host.energy_j, 3),
                "idle_j": round(host.idle_j, 3),
            }
            for host in statement.hosts
        ],
    }


def print_energy(document: dict[str, Any]) -> None:
    """The table of a document of `energy_document`, in kilojoules."""
    from rich.console import Console

    from spark_sched_lab.usage import KINDS

    console = Console(highlight=False)
    total, energy_j = document["total"], document["energy_j"]
    if not energy_j:
        console.print("no host was on")
        return
    lost_j = sum(total[f"{kind}_j"] for kind in KINDS if kind not in ("run", "held"))
    console.print(
        f"{total['run_j'] / energy_j:.1%} of {energy_j / 1e3:,.1f} kJ ran tasks to their end, "
        f"{total['held_j'] / energy_j:.1%} went to held slots, {lost_j / energy_j:.1%} to copies, evictions, "
        f"failures and cancelled work, {document['idle_j'] / energy_j:.1%} to unused slots."
    )
    shown = [kind for kind in KINDS if total[f"{kind}_j"]]
    table = group_table("kilojoules", document["by"], (*shown, "total", "share"))
    for row in document["rows"]:
        cells = [str(row[name]) or "-" for name in document["by"]]
        cells += [f"{row[f'{kind}_j'] / 1e3:,.2f}" for kind in (*shown, "total")]
        table.add_row(*cells, f"{row['total_j'] / energy_j:.1%}")
    blank = [""] * (len(document["by"]) - 1 + len(shown))
    idle_j = document["idle_j"]
    table.add_row("(idle)", *blank, f"{idle_j / 1e3:,.2f}", f"{idle_j / energy_j:.1%}", style="dim")
    console.print(table)
