"""Policies that sort jobs by a key: the order kept job by job gives the very results of plans of all jobs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_sched.config import validate
from spark_sched.policies import Policy, PolicySettings, available, create
from spark_sched.policies.key_order import Moment, Place
from spark_sched_lab.engine.lanes import Lanes
from spark_sched_lab.engine.sorted_entries import Entry, SortedEntries
from spark_sched_lab.engine.workload import SchedulingChange
from spark_sched_lab.simulator import ClusterSpec, JobSpec, MarkChange, StageSpec, simulate, uniform_nodes

DEFAULTS = PolicySettings.from_config(validate({}))
FIFO = create("fifo", DEFAULTS)
KEYED = [name for name in available() if create(name, DEFAULTS).capabilities.key_order]


class Planned:
    """A policy without its key order: the simulator makes a plan of all jobs each time."""

    def __init__(self, policy: Policy) -> None:
        self.name = policy.name
        self.capabilities = replace(policy.capabilities, key_order=False)
        self.decide = policy.decide


@st.composite
def workloads(draw: st.DrawFn) -> list[JobSpec]:
    found, at_ms = [], 0
    for number in range(draw(st.integers(1, 12))):
        at_ms += draw(st.integers(0, 900))
        stages = []
        for index in range(draw(st.integers(1, 2))):
            times = draw(st.lists(st.integers(1, 2_000), min_size=1, max_size=6))
            stages.append(StageSpec(times, parents=tuple(range(index)), gang=draw(st.integers(0, 9)) == 0))
        changes: tuple[MarkChange, ...] = ()
        if draw(st.integers(0, 3)) == 0:
            first = draw(st.integers(0, 2_000))
            changes = (
                MarkChange(first, draw(st.integers(0, 3)), isolation=0.0, on_hold=draw(st.booleans())),
                MarkChange(first + draw(st.integers(0, 2_000)), 0, isolation=0.0),
            )
        user = draw(st.sampled_from((None, "ann", "bob")))
        isolation = draw(st.sampled_from((None, None, None, 0.0, 0.8)))
        found.append(
            JobSpec(f"j{number}", at_ms, tuple(stages), user=user, isolation=isolation, changes=changes)
        )
    return found


def options(policy: str) -> dict[str, str]:
    by_user = {"spark.sched.policy.fair.poolBy": "user", "spark.sched.policy.fair.weights": "ann=2"}
    return by_user if policy == "fair" else {}


@pytest.mark.parametrize("name", KEYED)
@pytest.mark.parametrize("pools", [False, True])
@given(jobs=workloads(), seed=st.integers(0, 3), change_ms=st.none() | st.integers(0, 9_000))
def test_results_are_those_of_plans_of_all_jobs(
    name: str, pools: bool, jobs: list[JobSpec], seed: int, change_ms: int | None
) -> None:
    """Also if an operator puts another policy in force: until its first plan the last ranks hold."""
    policy = create(name, PolicySettings.from_config(validate(options(name) if pools else {})))
    cluster = ClusterSpec(uniform_nodes(3, 1))
    changes = () if change_ms is None else (SchedulingChange(change_ms, policy=FIFO, plan_every_ms=5_000),)
    kept, planned = (
        simulate(
            cluster, jobs, each, predictor="oracle", seed=seed, until_ms=60_000,
            changes=changes,
        )
        for each in (policy, Planned(policy))
    )  # fmt: skip
    assert (kept.jobs, kept.tasks, kept.totals) == (planned.jobs, planned.tasks, planned.totals)


def test_the_last_launches_count_in_the_ranks_that_another_policy_finds() -> None:
    """Both jobs run on one of two slots, which the order need not be told while no slot is open."""
    jobs = [JobSpec("a", 0, (StageSpec([1_000, 1_000]),)), JobSpec("b", 0, (StageSpec([3_000, 1_000]),))]
    changes = (SchedulingChange(500, policy=FIFO, plan_every_ms=5_000),)
    result = simulate(ClusterSpec(uniform_nodes(2, 1)), jobs, create("fair", DEFAULTS), changes=changes)
    ends = sorted(zip(result.jobs["job"], result.jobs["end_ms"], strict=True))
    assert ends == [("a", 2_000), ("b", 3_000)]


# ---- the cost of a change, as a number of operations ----


class Counted(int):
    """A number that counts how often it is compared."""

    compared = 0

    def __lt__(self, other: Any) -> bool:
        Counted.compared += 1
        return int(self) < int(other)


def comparisons(entries: SortedEntries, entry: Entry) -> int:
    Counted.compared = 0
    entries.add(entry)
    assert entries.after(entry) is not None
    entries.remove(entry)
    return Counted.compared


def test_a_change_among_many_entries_compares_few_more_than_among_a_thousand() -> None:
    found = {}
    for count in (1_000, 128_000):
        entries = SortedEntries()
        entries.put([(Counted(2 * number),) for number in range(count)])
        found[count] = max(comparisons(entries, (Counted(at),)) for at in (1, count + 1, 2 * count - 3))
    # One halving more for each factor of two, in each of three searches of (at most) three comparisons.
    assert found[128_000] <= found[1_000] + 3 * 3 * 7


@given(st.lists(st.integers(0, 50), max_size=300))
def test_entries_are_those_of_a_sorted_list(numbers: list[int]) -> None:
    entries, plain = SortedEntries(), dict[int, Entry]()
    for number in numbers:
        if number in plain:
            entries.remove(plain.pop(number))
        else:
            plain[number] = (number,)
            entries.add(plain[number])
    assert list(entries) == [plain[number] for number in sorted(plain)]
    assert len(entries) == len(plain)


@pytest.mark.parametrize("name", KEYED)
def test_a_policy_is_told_only_of_jobs_that_changed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many jobs wait, an event updates the jobs whose tasks start or end, and no others."""
    told: list[int] = []
    placed: list[Place] = []
    policy = create(name, DEFAULTS)
    kind = type(policy.key_order(None))  # type: ignore[attr-defined]
    update = kind.update
    slots_changed = kind.slots_changed
    place = Lanes.place

    def counted(self: Any, changed: Any, gone: Any, moment: Moment) -> Any:
        told.append(len(changed))
        return update(self, changed, gone, moment)

    def counted_one(self: Any, job: Any, now_ms: int) -> Any:
        told.append(1)
        return slots_changed(self, job, now_ms)

    monkeypatch.setattr(kind, "update", counted)
    monkeypatch.setattr(kind, "slots_changed", counted_one)
    monkeypatch.setattr(Lanes, "place", lambda self, job: (placed.append(job.key), place(self, job)))

    def waiting(count: int) -> Iterator[JobSpec]:
        for number in range(count):
            yield JobSpec(f"j{number}", number // 50, (StageSpec([1_000 + number]),))

    for count in (100, 1_000):
        told.clear()
        placed.clear()
        result = simulate(ClusterSpec(uniform_nodes(2, 1)), waiting(count), policy, predictor="oracle")
        assert result.unfinished == 0
        assert sum(told) <= 4 * count  # its arrival, its start, its end; jobs of the first plan once more
        assert len(placed) <= 4 * count
