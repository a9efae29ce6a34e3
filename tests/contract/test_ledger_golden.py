"""Golden sequences: the simulator's ledger and the JVM's (LedgerGoldenSuite.scala) must decide alike."""

from __future__ import annotations

import gzip
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from ledger_steps import StepRunner, fields_of, rule_of

from spark_sched_lab.enforce.ledger import UNBOUNDED, IdleLimits, Rule

GOLDEN = Path(__file__).parents[2] / "protocol" / "golden"
HAND_WRITTEN = sorted(GOLDEN.glob("*.json"))
GENERATED = sorted(GOLDEN.glob("*.json.gz"))
# Every field is read as it is written: a default that changes must not change what a golden file says.
RULE_FIELDS = set(fields_of(Rule()))
# Fields that came later: a file without them means what it did before.
ABSENT = {"first_gap_ms": None, "pool": None, "deadline": "pareto"}


def _load(path: Path) -> dict[str, Any]:
    data = path.read_bytes()
    return json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)


def _rules(document: dict[str, Any]) -> dict[str, Rule]:
    base = {**ABSENT, **document["base_rule"]}
    assert set(base) == RULE_FIELDS
    rules = {}
    for name, changes in document["rules"].items():
        rules[name] = rule_of({**base, **changes})
    return rules


def _play(document: dict[str, Any], sequence: dict[str, Any]) -> None:
    runner = StepRunner(_rules(document), IdleLimits(**document.get("idle_limits", asdict(UNBOUNDED))))
    ledger = runner.ledger
    for number, step in enumerate(sequence["steps"], start=1):
        where = f"step {number}: {json.dumps(step, ensure_ascii=False)}"
        outcome = runner.run(step)
        seen = {
            "answer": outcome.answer,
            "keep": outcome.answer,
            "reason": outcome.reason,
            "told": outcome.calls,
            "holds": runner.holds(),
            "deadlines": runner.deadlines(),
        }
        for field, wanted in step.get("expect", {}).items():
            if field == "counters":
                found: Any = {name: getattr(ledger.counters, name) for name in wanted}
            elif field == "job_idle_costs_ms":
                found = {job: ledger.idle_cost_ms(step["now_ms"], job) for job in wanted}
            elif field == "job_held_idle_ms":
                found = {job: ledger.held_idle_ms(step["now_ms"], job) for job in wanted}
            elif field == "job_predicted_idle_ms":
                found = {job: ledger.predicted_idle_ms(job) for job in wanted}
            elif field == "idle_cost_ms":
                found = ledger.idle_cost_ms(step["now_ms"])
            elif field == "held_idle_ms":
                found = ledger.held_idle_ms(step["now_ms"])
            else:
                found = seen[field]
            assert found == wanted, f"{where}\n  {field} is {found!r}, not {wanted!r}"
        assert ledger.violations() == [], where


def _cases() -> list[Any]:
    return [
        pytest.param(document, sequence, id=f"{path.stem}: {sequence['title']}")
        for path in HAND_WRITTEN
        for document in [_load(path)]
        for sequence in document["sequences"]
    ]


@pytest.mark.parametrize(("document", "sequence"), _cases())
def test_the_ledger_decides_as_written(document: dict[str, Any], sequence: dict[str, Any]) -> None:
    _play(document, sequence)


@pytest.mark.parametrize("path", GENERATED, ids=lambda path: path.name)
def test_the_ledger_decides_as_generated(path: Path) -> None:
    document = _load(path)
    assert len(document["sequences"]) >= 100
    for sequence in document["sequences"]:
        _play(document, sequence)


def test_every_hand_written_sequence_expects_something_and_says_where_from() -> None:
    assert HAND_WRITTEN
    for path in HAND_WRITTEN:
        for sequence in _load(path)["sequences"]:
            assert sequence["source"], sequence["title"]
            assert any("expect" in step for step in sequence["steps"]), sequence["title"]
