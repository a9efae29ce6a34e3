"""Golden sequences: the simulator and the driver (QueueUsageSuite.scala) keep tenants' queues alike."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from queue_steps import Steps
from queue_walk import generate

FOLDER = Path(__file__).parents[2] / "protocol" / "golden" / "queues"
BY_HAND = json.loads((FOLDER / "tree.json").read_text())["sequences"]
RANDOM = json.loads(gzip.decompress((FOLDER / "tree-random.json.gz").read_bytes()))["sequences"]


def play(sequence: dict[str, Any]) -> None:
    steps = Steps(sequence["tree"])
    for number, step in enumerate(sequence["steps"], start=1):
        assert steps.run(step) == step.get("expect"), f"step {number}: {step}"
        assert steps.usage.violations() == []


@pytest.mark.parametrize("sequence", BY_HAND, ids=[each["title"] for each in BY_HAND])
def test_by_hand(sequence: dict[str, Any]) -> None:
    play(sequence)


def test_generated() -> None:
    for sequence in RANDOM:
        play(sequence)


def test_the_file_is_what_its_tool_writes() -> None:
    assert generate(3)["sequences"] == RANDOM[:3]
