"""The part of docs/reference/traces.md that is generated from the declarations of the columns."""

from __future__ import annotations

from spark_sched_lab.traces.readers import FORMATS
from spark_sched_lab.traces.tables import TABLES

REGENERATE = "python -m spark_sched_lab.traces.docs docs/reference/traces.md"
BEGIN = "<!-- made from the declarations: begin -->"
END = "<!-- made from the declarations: end -->"


def generated_section() -> str:
    """Formats and columns as Markdown tables, with the markers around them."""
    parts = [BEGIN, "", "## Formats", "", "| `--format` | input |", "|---|---|"]
    parts += [f"| `{name}` | {reader.title} |" for name, reader in sorted(FORMATS.items())]
    for table, columns in TABLES.items():
        parts += ["", f"## Table `{table}`", ""]
        parts += ["| column | type | unit | null | meaning |", "|---|---|---|---|---|"]
        parts += [
            f"| `{c.name}` | {c.type} | {c.unit} | {'yes' if c.nullable else ''} | {c.doc} |" for c in columns
        ]
    return "\n".join([*parts, "", END])


def with_section(page: str) -> str:
    """``page`` with its section generated again. Raises ValueError if it has no markers."""
    before, found, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (found and end):
        raise ValueError("the page has no generated section")
    return before + generated_section() + after


if __name__ == "__main__":
    import sys
    from pathlib import Path

    target = Path(sys.argv[1])
    target.write_text(with_section(target.read_text(encoding="utf-8")), encoding="utf-8")
