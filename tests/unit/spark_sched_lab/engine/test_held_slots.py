"""Who may take a held slot in the simulator: whoever the ledger's own answer lets (Algorithm 1, line 19)."""

from __future__ import annotations

import pytest

from spark_sched_lab.enforce.ledger import Ledger
from spark_sched_lab.simulator import ClusterSpec, JobSpec, NodeSpec, StageSpec, simulate

HOLDS_FROM_MS, HOLDS_UNTIL_MS, ASKS_MS = 1_000, 5_000, 2_000
# No budget ends the holds.
UNBOUNDED = {"spark.sched.reservation.idleShare": "1", "spark.sched.limits.idleShare": "1"}


def started_ms(priority: int, *, holder: int = 5) -> int:
    """When the only task of a job starts that asks while another one holds both slots."""
    pause_ms = HOLDS_UNTIL_MS - HOLDS_FROM_MS
    stages = (StageSpec((HOLDS_FROM_MS,) * 2), StageSpec((1_000,) * 2, parents=(0,), delay_ms=pause_ms))
    jobs = (
        JobSpec("holder", 0, stages, priority=holder, marked=True),
        JobSpec("asker", ASKS_MS, (StageSpec((1_000,)),), priority=priority),
    )
    cluster = ClusterSpec((NodeSpec("a", 2),))
    result = simulate(cluster, jobs, "reservation", settings=UNBOUNDED, check=True)
    return result.jobs["first_launch_ms"][result.jobs["job"].index("asker")]


@pytest.mark.parametrize(
    ("priority", "wanted_ms"),
    [
        pytest.param(9, ASKS_MS, id="a higher priority"),
        pytest.param(5, HOLDS_UNTIL_MS + 1_000, id="a later equal"),
        pytest.param(1, HOLDS_UNTIL_MS + 1_000, id="a lower priority"),
    ],
)
def test_a_held_slot_goes_to_a_higher_priority_alone(priority: int, wanted_ms: int) -> None:
    assert started_ms(priority) == wanted_ms


@pytest.mark.parametrize("priority", [1, 5, 9])
@pytest.mark.parametrize("answer", [True, False])
def test_the_ledgers_answer_is_what_happens(
    priority: int, answer: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def may_launch(self: Ledger, job: str, executor: str, already_taken: int = 0, slots: int = 1) -> bool:
        asked.append(executor)
        return answer

    monkeypatch.setattr(Ledger, "may_launch", may_launch)
    assert started_ms(priority) == (ASKS_MS if answer else HOLDS_UNTIL_MS + 1_000)
    assert set(asked) == {"a"}
