"""Replay the ledger steps of a recorded driver in the simulator's ledger.

A driver with ``spark.testing.schedLedgerSteps=FILE`` writes what its ledger was asked and did
(``schedcore.ledger.RecordedLedger``):

    python tools/ledger_replay.py FILE|FOLDER...
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ledger_steps import StepRunner, rule_of

from spark_sched_lab.enforce.ledger import IdleLimits, Ledger, Rule

_COUNTERS = (
    "holds", "holds_used", "holds_expired", "holds_overridden", "holds_given_way", "holds_over_budget",
    "pre_reserved", "copies_launched", "copies_won", "copies_wasted_ms", "predicted_idle_slot_ms",
)  # fmt: skip


@dataclass
class Replay:
    """What came of a recording.

    Attributes:
        steps: how many of each operation were replayed.
        difference: the first step where the two ledgers differ, with both; None if there is none.
    """

    steps: Counter[str] = field(default_factory=Counter)
    difference: str | None = None


def state_of(ledger: Ledger, now_ms: int | None) -> str:
    """As ``RecordedLedger.stateOf``: holds with their deadlines, in order, then what the ledger counts."""
    parts = [
        f"{job} on {executor}: {slots} until {deadline_ms}"
        for job, executor, slots, deadline_ms in ledger.holds()
    ]
    parts.append(" ".join(str(getattr(ledger.counters, name)) for name in _COUNTERS))
    times = () if now_ms is None else (ledger.held_idle_ms(now_ms), ledger.idle_cost_ms(now_ms))
    return "; ".join([*parts, " ".join(map(str, times))])


def replay(lines: Iterable[Mapping[str, Any]]) -> Replay:
    """Play a recording's lines: the seed and the budgets, then rules and steps."""
    each = iter(lines)
    head = next(each)
    rules: dict[str, Rule] = {}
    runner = StepRunner(rules, IdleLimits(**head["idle_limits"]), head["seed"])
    found, state = Replay(), ""
    for line in each:
        if "op" not in line:
            rules[line["rule"]] = rule_of(line["fields"])
            continue
        found.steps[line["op"]] += 1
        outcome = runner.run(line)
        after = state_of(runner.ledger, line.get("now_ms"))
        wanted = {
            "answer": line.get("answer"),
            "reason": line.get("reason", ""),
            "told": line.get("told", []),
            "state": line.get("state", state),
        }
        seen = {
            "answer": outcome.answer if "answer" in line else None,
            "reason": outcome.reason,
            "told": outcome.calls,
            "state": after,
        }
        if seen != wanted:
            number = found.steps.total()
            differs = [name for name in wanted if seen[name] != wanted[name]]
            found.difference = f"step {number}, {json.dumps(line)}: " + "; ".join(
                f"{name} is {seen[name]!r} here and was {wanted[name]!r} there" for name in differs
            )
            return found
        state = after
    return found


def lines_of(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a file that a driver wrote, or of several such, compressed."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        yield from map(json.loads, file)


def applications(lines: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """The recordings that follow each other, each with its first line."""
    found: list[dict[str, Any]] = []
    for line in lines:
        if "seed" in line and found:
            yield found
            found = []
        found.append(line)
    if found:
        yield found


def main() -> None:
    parser = argparse.ArgumentParser(description="Replay a driver's ledger steps in the simulator's ledger.")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="or a folder of them")
    total, recordings, differences = Counter[str](), 0, 0
    given: list[Path] = parser.parse_args().files
    for path in (each for file in given for each in (sorted(file.iterdir()) if file.is_dir() else [file])):
        try:
            for lines in applications(lines_of(path)):
                found = replay(lines)
                total += found.steps
                recordings += 1
                if found.difference is not None:
                    differences += 1
                    print(f"{path}: {found.difference}")
        except json.JSONDecodeError as error:  # its driver was killed while it wrote
            differences += 1
            print(f"{path} ends within a line: {error}")
    print(f"{recordings} recordings, {total.total()} steps, {differences} with a difference: {dict(total)}")
    raise SystemExit(1 if differences else 0)


if __name__ == "__main__":
    main()
