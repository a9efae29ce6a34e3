"""Ledgers of drivers, as they were recorded: the simulator's ledger takes the same steps."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from ledger_replay import applications, lines_of, replay

GOLDEN = Path(__file__).parents[2] / "protocol" / "golden" / "applications"
RECORDED = [lines for path in sorted(GOLDEN.glob("*.jsonl.gz")) for lines in applications(lines_of(path))]


def test_the_simulators_ledger_does_what_the_drivers_did() -> None:
    assert len(RECORDED) >= 50
    steps = Counter[str]()
    for number, lines in enumerate(RECORDED):
        found = replay(lines)
        assert found.difference is None, f"application {number}: {found.difference}"
        steps += found.steps
    for op in ("may_launch", "task_launched", "task_ended", "rule_changed", "stage_started", "pick_copy"):
        assert steps[op] >= 100, steps


def _changed(line: dict[str, Any], what: str) -> dict[str, Any]:
    if what == "answer":
        return {**line, "answer": not line["answer"]}
    if what == "told":
        return {**line, "told": line["told"][1:]}
    return {**line, "state": line["state"].replace("until 1", "until 2", 1)}


@pytest.mark.parametrize("what", ["answer", "told", "state"])
def test_a_recording_that_says_something_else_is_found(what: str) -> None:
    lines = list(RECORDED[0])
    fits = {
        "answer": lambda line: line.get("op") == "may_launch",
        "told": lambda line: "told" in line,
        "state": lambda line: "until 1" in line.get("state", ""),
    }
    at = next(i for i, line in enumerate(lines) if fits[what](line))
    lines[at] = _changed(lines[at], what)
    difference = replay(lines).difference
    assert difference is not None
    assert f": {what} is " in difference
