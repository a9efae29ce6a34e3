"""Which slots a job's next tasks fit: against brute force, and on random sequences."""

from __future__ import annotations

import random
from itertools import product

from hypothesis import given
from hypothesis import strategies as st
from ledger_rules import RULES, rules
from ledger_steps import StepRunner
from ledger_walk import Walk

from spark_sched_lab.enforce import ledger_fit
from spark_sched_lab.enforce.ledger_state import LedgerJob

SOURCES = st.randoms(use_true_random=False)
ACTIONS = st.integers(0, 120)


def _jobs(walk: Walk) -> list[LedgerJob]:
    return list(walk.runner.ledger._jobs.values())


@given(rng=SOURCES, actions=ACTIONS)
def test_the_invariants_hold_where_slots_must_fit(rng: random.Random, actions: int) -> None:
    walk = Walk(rng, shapes=True)
    for _ in range(actions):
        walk.step()
        assert walk.runner.ledger.violations() == [], walk.steps
    walk.end()
    assert walk.runner.ledger.held_slots == 0


@given(rng=SOURCES, actions=ACTIONS)
def test_a_slot_that_no_next_task_fits_is_released_at_once(rng: random.Random, actions: int) -> None:
    walk = Walk(rng, shapes=True)
    for _ in range(actions):
        walk.step()
        expect = walk.steps[-1].get("expect", {})
        if expect.get("reason") == "next stage needs other slots":
            assert not expect["keep"]
        if expect.get("reason") != "next stage":
            continue
        job, executor = next((t[1], t[3]) for t in expect["told"] if t[0] == "held")
        j = next(j for j in _jobs(walk) if j.key == job)
        at = walk.runner.ledger._executors[executor]
        if ledger_fit.shaped(j) and j.stages:
            shapes = [s.shape for s in j.demand.successors.values() if s.ready]
            assert any(ledger_fit.fits(shape, at) for shape in shapes), walk.steps


@given(
    cluster=st.lists(st.tuples(st.integers(1, 5), st.integers(0, 5)), min_size=1, max_size=4),
    size=st.integers(1, 4),
    tasks=st.integers(1, 5),
)
def test_no_smaller_number_of_other_slots_serves_the_next_tasks(
    cluster: list[tuple[int, int]], size: int, tasks: int
) -> None:
    """``cluster`` has the slots of each executor and on how many the job's tasks run."""
    executors = [(slots, min(own, slots)) for slots, own in cluster]
    runner = StepRunner(rules(RULES))
    runner.run({"op": "job_started", "job": "j", "marked": False, "rule": "high"})
    for number, (slots, _) in enumerate(executors):
        runner.run({"op": "executor_added", "executor": f"e{number}", "slots": slots})
    wide = sum(own for _, own in executors) + 1
    stage = {"job": "j", "stage": "1.0", "index": 0, "tasks": wide, "next_tasks": None, "now_ms": 0}
    shape = [size, size, 0]
    runner.run(
        {"op": "stage_started", **stage, "last": False, "barrier": False, "vertex": "1",
         "successors": [["2", tasks * size, True, shape]]}
    )  # fmt: skip
    places = [f"e{number}" for number, (_, own) in enumerate(executors) for _ in range(own)]
    for task, executor in enumerate(places):
        launch = {"task": task, "stage": "1.0", "index": task, "executor": executor, "copy": False}
        runner.run({"op": "task_launched", **launch, "now_ms": 0})
    ledger = runner.ledger
    j = ledger._jobs["j"]
    found = ledger_fit.claims(j, ledger._executors, 0)
    room = sum(slots // size for slots, _ in executors)
    hosted = min(tasks, room)
    ways = [range(slots // size + 1) for slots, _ in executors]
    best = min(
        sum(max(0, k * size - own) for k, (_, own) in zip(way, executors, strict=True))
        for way in product(*ways)
        if sum(way) == hosted
    )
    assert hosted * size - sum(found.taken.values()) == best
