"""What a job holds for its next stages: against brute force, and on random DAGs in the simulator."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from ledger_rules import rules
from ledger_steps import StepRunner

from spark_sched_lab.enforce.ledger_demand import lacking
from spark_sched_lab.simulator import ClusterSpec, JobSpec, StageSpec, simulate, uniform_nodes

NO_COPIES = {"spark.sched.copies.enabled": "false"}


def _least(edges: Sequence[tuple[int, Sequence[Any]]], have: dict[str, int]) -> int:
    """The least number of held slots with which some way of handing slots over serves every successor."""
    parents = sorted(have)
    ways = [list(_ways(have[p], sum(p in of for _, of in edges))) for p in parents]
    best = sum(need for need, _ in edges)
    for way in product(*ways):
        got = [0] * len(edges)
        for p, shares in zip(parents, way, strict=True):
            to = (i for i, (_, of) in enumerate(edges) if p in of)
            for i, slots in zip(to, shares, strict=True):
                got[i] += slots
        best = min(best, sum(max(0, need - slots) for (need, _), slots in zip(edges, got, strict=True)))
    return best


def _ways(slots: int, readers: int) -> Iterator[tuple[int, ...]]:
    """All ways of dividing slots among readers."""
    if readers == 0:
        yield ()
    elif readers == 1:
        yield (slots,)
    else:
        for first in range(slots + 1):
            for others in _ways(slots - first, readers - 1):
                yield (first, *others)


@st.composite
def _graphs(draw: st.DrawFn) -> tuple[list[tuple[int, list[str]]], dict[str, int]]:
    have = {name: draw(st.integers(0, 4)) for name in "abc"[: draw(st.integers(1, 3))]}
    edges = [
        (draw(st.integers(0, 5)), sorted(draw(st.sets(st.sampled_from(sorted(have))))))
        for _ in range(draw(st.integers(1, 4)))
    ]
    return edges, have


@given(graph=_graphs())
def test_no_smaller_number_of_held_slots_serves_all_successors(
    graph: tuple[list[tuple[int, list[str]]], dict[str, int]],
) -> None:
    edges, have = graph
    stages: Any = edges
    assert lacking(stages, have.__getitem__) == _least(edges, have)


def _tree(rng: random.Random) -> JobSpec:
    """Up to six stages; each reads at most one other, whose slots suffice for all that read it."""
    stages: list[StageSpec] = []
    free: list[int] = []  # slots that each stage can still hand over
    for number in range(rng.randint(2, 6)):
        parent = rng.choice([*range(number), None])
        most = 3 if parent is None else free[parent]
        if most == 0:
            parent, most = None, 3
        tasks = rng.randint(1, most)
        if parent is not None:
            free[parent] -= tasks
        free.append(tasks)
        times = [rng.randrange(200, 2_000, 100) for _ in range(tasks)]
        stages.append(StageSpec(times, parents=() if parent is None else (parent,)))
    return JobSpec("job", 0, tuple(stages), priority=10)


def _end_ms(job: JobSpec, *others: JobSpec) -> int:
    slots = sum(stage.tasks for stage in job.stages if not stage.parents)
    cluster = ClusterSpec(uniform_nodes(1, slots))
    result = simulate(
        cluster, [job, *others], "reservation", settings=NO_COPIES, until_ms=100_000, check=True
    )
    ends = dict(zip(result.jobs["job"], result.jobs["end_ms"], strict=True))
    return int(ends["job"])


@given(rng=st.randoms(use_true_random=False))
def test_where_parents_hand_over_enough_background_changes_nothing(rng: random.Random) -> None:
    job = _tree(rng)
    # Each of its tasks is longer than any of the job's, so that a lost slot would be missed.
    background = JobSpec("background", 0, (StageSpec([3_000] * 60),))
    assert _end_ms(job, background) == _end_ms(job)


@given(rng=st.randoms(use_true_random=False))
def test_all_inputs_of_a_reader_share_its_need_whichever_end_before_it_is_known(rng: random.Random) -> None:
    tasks = [rng.randint(1, 4) for _ in range(rng.randint(1, 4))]
    done = [rng.randint(0, m) for m in tasks]
    done[-1] = min(done[-1], tasks[-1] - 1)
    need = rng.randint(1, 8)
    runner = StepRunner(rules())
    runner.run({"op": "executor_added", "executor": "e", "slots": 40})
    runner.run({"op": "job_started", "job": "j", "marked": False, "rule": "no_copies"})
    started = {
        "op": "stage_started", "job": "j", "next_tasks": None, "next_at_most": need, "last": False,
        "barrier": False, "now_ms": 0,
    }  # fmt: skip
    launched = {"op": "task_launched", "executor": "e", "copy": False, "now_ms": 0}
    for number, m in enumerate(tasks):
        runner.run({**started, "stage": f"{number}.0", "index": number, "tasks": m})
        for index in range(m):
            task = 10 * number + index
            runner.run({**launched, "task": task, "stage": f"{number}.0", "index": index})
    for number, (m, ended) in enumerate(zip(tasks, done, strict=True)):
        for index in range(ended):
            runner.run({"op": "task_ended", "task": 10 * number + index, "success": True, "now_ms": 1_000})
        if ended == m:
            runner.run({"op": "stage_ended", "stage": f"{number}.0", "now_ms": 1_000})
    active = [number for number, (m, ended) in enumerate(zip(tasks, done, strict=True)) if ended < m]
    runner.run({
        "op": "next_learned", "stage": f"{rng.choice(active)}.0", "vertex": "q", "slots": need, "ready": True,
        "inputs": [f"{number}.0" for number in range(len(tasks))], "now_ms": 1_100,
    })  # fmt: skip
    left = sum(tasks) - sum(done)
    assert min(need, sum(tasks)) - left <= runner.ledger.held_slots <= max(0, need - left)


def test_a_stage_that_grows_reserves_the_same_beside_an_independent_branch() -> None:
    grows = (StageSpec([1_000, 10_000]), StageSpec([1_000] * 4, parents=(0,)))
    beside = (StageSpec([1_000, 10_000]), StageSpec([20_000] * 2), StageSpec([1_000] * 4, parents=(0,)))
    # Each of six slots is busy with background until 6 s, so that two of them come in time.
    others = [JobSpec("background", 0, (StageSpec([6_000] * 40),))]
    for stages, end_ms in ((grows, 11_000), (beside, 20_000)):
        job = JobSpec("job", 0, stages, priority=10)
        result = simulate(
            ClusterSpec(uniform_nodes(1, 6)),
            [job, *others],
            "reservation",
            settings={**NO_COPIES, "spark.sched.reservation.preReserveThreshold": "0.4"},
            check=True,
        )
        assert result.totals["prereserved_total"] == 2
        ends = dict(zip(result.jobs["job"], result.jobs["end_ms"], strict=True))
        assert ends["job"] == end_ms
        starts = sorted(
            start
            for job_number, stage, start in zip(
                result.tasks["job"], result.tasks["stage"], result.tasks["start_ms"], strict=True
            )
            if job_number == 0 and stage == len(stages) - 1
        )
        assert starts == [10_000] * 4
