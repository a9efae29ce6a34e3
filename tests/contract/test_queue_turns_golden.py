"""Golden sequences: the simulator's queues and the driver's (QueueTurnsSuite.scala) must take turns alike."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spark_sched_lab.enforce.queues import QueueTurns

GOLDEN = Path(__file__).parents[2] / "protocol" / "golden" / "queues" / "turns.json"
SEQUENCES = json.loads(GOLDEN.read_text(encoding="utf-8"))["sequences"]


@pytest.mark.parametrize("sequence", SEQUENCES, ids=lambda sequence: sequence["title"])
def test_queues_take_turns_as_written(sequence: dict[str, Any]) -> None:
    turns = QueueTurns()
    turns.put(tuple(sequence["weights"]))
    for number, step in enumerate(sequence["steps"], start=1):
        if step["op"] == "started":
            turns.started(step["queue"])
        elif step["op"] == "ended":
            turns.stopped(step["queue"], step["ran_ms"], step["now_ms"])
        elif step["op"] == "plan":
            turns.put(tuple(step["weights"]))
        else:
            assert step["op"] == "next"
            assert min(step["waiting"], key=turns.of) == step["expect"], f"step {number}: {step}"
    assert any(step["op"] == "next" for step in sequence["steps"])
