"""Golden sequences: the simulator and the driver (EnforcementGoldenSuite.scala) enforce plans alike."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from enforcement_rounds import Rounds

GOLDEN = Path(__file__).parents[2] / "protocol" / "golden" / "enforcement" / "random.json.gz"
SEQUENCES = json.loads(gzip.decompress(GOLDEN.read_bytes()))["sequences"]


def test_enforcement_decides_as_generated() -> None:
    for sequence in SEQUENCES:
        rounds = Rounds()
        for number, step in enumerate(sequence["steps"], start=1):
            told = rounds.run(step)
            assert told == step.get("expect", []), f"seed {sequence['seed']}, step {number}: {step}"


def _rules_of(sequence: dict[str, Any]) -> Iterator[str]:
    """Kinds of plan rules that decided something in a sequence."""
    shared: set[str] = set()
    queues: set[str] = set()
    victims: set[int] = set()
    powerful: set[str] = set()
    slowness: dict[str, float] = {}
    executors: list[str] = [step["executor"] for step in sequence["steps"] if step["op"] == "executor"]
    ranked = 0
    known: set[str] | None = None
    job_of = {step["stage"]: step["job"] for step in sequence["steps"] if step["op"] == "stage"}
    gangs = {step["stage"] for step in sequence["steps"] if step["op"] == "stage" and step["gang"]}
    for step in sequence["steps"]:
        if step["op"] == "plan":
            plan = step["plan"] or {"jobs": [], "ordered": False}
            shared = {job["job"] for job in plan["jobs"] if "share" in job}
            queues = {job["job"] for job in plan["jobs"] if "queue" in job}
            known = {job["job"] for job in plan["jobs"]} if plan.get("new_jobs_wait") else None
            ranked = len(plan["jobs"]) if plan["ordered"] and not queues else 0
            victims = {task for job in plan["jobs"] for task in job.get("victims", ())}
            powerful = {job["job"] for job in plan["jobs"] if "powerful" in job}
            slowness = plan.get("slowness", {})
            if victims - {decision[1] for decision in step.get("expect", []) if decision[0] == "evict"}:
                yield "victims that are spared"
        for decision in step.get("expect", []):
            word, who = decision[0], job_of.get(decision[1]) if len(decision) > 2 else None
            if word == "evict":
                yield "victims" if decision[1] in victims else "evictions"
            elif word == "again":
                yield "another round"
            elif word == "launch":
                reason = decision[4]
                yield {"open": "open slots", "pilot": "pilots", "spare": "spare"}.get(reason, reason)
                if decision[1] in gangs:
                    yield "gangs"
                if known is not None and who not in known and reason == "spare":
                    yield "new jobs on spare slots"
                if who in shared:
                    yield "shares"
                if who in queues:
                    yield "queues"
                before = executors[: executors.index(decision[3])]
                if who in powerful and any(
                    slowness.get(decision[3], 1.0) < slowness.get(e, 1.0) for e in before
                ):
                    yield "powerful"
                if ranked > 1:
                    yield "ranks"
            elif decision[2] == "its start has not come":
                yield "starts" if known is None or who in known else "new jobs wait"
            else:
                yield decision[2]


@pytest.fixture(scope="module")
def counts() -> Counter[str]:
    return Counter(kind for sequence in SEQUENCES for kind in set(_rules_of(sequence)))


def test_there_are_two_thousand_different_sequences() -> None:
    assert len({json.dumps(sequence["steps"]) for sequence in SEQUENCES}) >= 2000


@pytest.mark.parametrize(
    "kind",
    [
        "new jobs on spare slots", "new jobs wait",
        "starts", "shares", "pilots", "queues", "ranks", "spare", "evictions", "gangs",
        "victims", "victims that are spared", "powerful",
        "own hold", "override", "held for another job", "pilots first", "nothing spare", "evicted",
        "too few slots for all its tasks",
    ],
)  # fmt: skip
def test_each_kind_of_rule_decides_in_a_hundred_sequences(kind: str, counts: Counter[str]) -> None:
    assert counts[kind] >= 100


def test_some_rounds_ask_for_another_one(counts: Counter[str]) -> None:
    assert counts["another round"] > 0
