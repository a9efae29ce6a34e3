"""Statements 7.1 to 7.4 of the thesis, and what every rule promises."""

from __future__ import annotations

import random
from collections import Counter
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from spark_sched.policies.eviction import PreemptionRule, RunningIndex, named_rule
from spark_sched.policies.eviction.rules import PRODUCTION
from spark_sched_lab.evictions import ServerGroup, TaskTable, simulate_priorities

VICTIMS = ("MRS", "RND", "LRS")


def bursts(seed, count=1_500, slots=60):
    """Bursts of tasks of four priorities; in a burst there are more tasks than slots."""
    rng = np.random.default_rng(seed)
    begin = rng.uniform(0, 6_000, 12)
    arrival = np.sort(np.concatenate([rng.uniform(0, 6_000, count // 2), rng.choice(begin, count // 2)]))
    arrival = np.sort(arrival + rng.uniform(0, 60, count))
    priority = rng.choice([0, 1, 4, 9], count, p=[0.45, 0.15, 0.35, 0.05])
    return TaskTable(arrival, priority.astype(float), 150 * rng.exponential(1.0, count), np.zeros(count))


SERVERS = (ServerGroup("s", 4, 8.0, 0.0, 15),)


def run(seed, victims, *, resume=False, observer=None):
    rule = PreemptionRule(victims=victims, resume=resume)
    return simulate_priorities(bursts(seed), SERVERS, rule, seed=seed, observer=observer)


@pytest.fixture(scope="module")
def sums():
    """NE and NET over seeds."""
    found: Counter[tuple[str, str, bool]] = Counter()
    for seed in range(8):
        for victims in VICTIMS:
            for resume in (False, True):
                summary = run(seed, victims, resume=resume).summary()
                for metric in ("NE", "NET"):
                    found[metric, victims, resume] += summary[metric]
    return found


@given(st.integers(0, 100_000), st.sampled_from(VICTIMS), st.booleans())
def test_7_1_evicted_tasks_are_scheduled_before_others_of_their_class(seed, victims, resume):
    workload = bursts(seed, count=250)
    waiting_evicted: set[int] = set()
    evicted: set[int] = set()

    def observe(what, at_s, task):
        if what == "evict":
            waiting_evicted.add(task)
            evicted.add(task)
        elif what == "start":
            waiting_evicted.discard(task)
            if task not in evicted:
                mine = workload.priority[task]
                assert not any(workload.priority[other] == mine for other in waiting_evicted)

    few = (ServerGroup("s", 2, 1.0, 0.0, 5, cores=5),)
    rule = PreemptionRule(victims=victims, resume=resume)
    simulate_priorities(workload, few, rule, seed=seed, observer=observe)
    assume(evicted)


@pytest.mark.parametrize("resume", [False, True])
def test_7_2_mrs_evicts_more_tasks_than_rnd_and_rnd_than_lrs(sums, resume):
    assert sums["NET", "MRS", resume] >= sums["NET", "RND", resume] >= sums["NET", "LRS", resume]


def test_7_3_mrs_prefers_tasks_not_evicted_before_and_lrs_those_that_were():
    shares = {}
    for victims in VICTIMS:
        states = [s for seed in range(4) for s in run(seed, victims).states if s[0] and s[1]]
        shares[victims] = np.mean([before for *_, before in states])
        expected = np.mean([evicted / (evicted + fresh) for evicted, fresh, _ in states])
        if victims == "RND":
            assert shares[victims] == pytest.approx(expected, abs=0.05)  # equation 7.4
    assert shares["MRS"] < shares["RND"] < shares["LRS"]


def test_7_4_without_resume_worse_victims_mean_more_evictions(sums):
    assert sums["NE", "MRS", False] <= sums["NE", "RND", False] <= sums["NE", "LRS", False]


def test_7_4_with_resume_the_number_of_evictions_hardly_depends_on_the_victims(sums):
    counts = [sums["NE", victims, True] for victims in VICTIMS]
    assert max(counts) <= 1.05 * min(counts)


class Running(NamedTuple):
    task: int
    priority: int
    level: int


def victim_among(rule, priority, running):
    """The choice by a look at every running task, in the order of their starts."""
    lower = [r for r in running if r.priority < priority]
    if not lower or rule.victims == "none":
        return None
    if rule.powerful and priority in PRODUCTION:
        level = min(r.level for r in lower)
        lower = [r for r in lower if r.level == level]
    lowest = min(r.priority for r in lower)
    lower = [r.task for r in lower if r.priority == lowest]
    return lower[-1 if rule.victims == "MRS" else 0]


@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "remove", "victim"]), st.integers(0, 11), st.integers(0, 2)),
        max_size=60,
    ),
    st.sampled_from(["MRS", "LRS", "none"]),
    st.booleans(),
)
def test_the_index_chooses_as_the_function_does(steps, victims, powerful):
    rule = PreemptionRule(victims=victims, powerful=powerful)
    index = RunningIndex(rule, 3, random.Random(1))
    running: list[Running] = []
    for number, (what, priority, level) in enumerate(steps):
        if what == "add":
            index.add(number, priority, level)
            running.append(Running(number, priority, level))
        elif what == "remove" and running:
            gone = running.pop(priority % len(running))
            index.remove(gone.task, gone.priority, gone.level)
        else:
            assert index.victim(priority) == victim_among(rule, priority, running)


@given(st.integers(0, 10_000), st.integers(1, 11))
def test_a_random_victim_is_of_the_lowest_priority(seed, priority):
    rng = random.Random(seed)
    rule = PreemptionRule(victims="RND")
    index = RunningIndex(rule, 1, rng)
    priorities = [rng.randrange(11) for _ in range(10)]
    for task, level in enumerate(priorities):
        index.add(task, level, 0)
    victim = index.victim(priority)
    if min(priorities) >= priority:
        assert victim is None
    else:
        assert priorities[victim] == min(priorities)


@given(
    st.integers(0, 1_000),
    st.sampled_from(
        [
            "mrs",
            "rnd",
            "lrs",
            "mrs2",
            "mrs2-keep",
            "wasp",
            "hybrid",
            "hybrid-gratis",
            "priced",
            "priced-slots",
            "fcfs",
        ]
    ),
    st.booleans(),
)
def test_no_task_is_lost_and_no_slot_is_used_twice(seed, name, resume):
    from dataclasses import replace

    rng = np.random.default_rng(seed)
    count = 60
    workload = TaskTable(
        np.sort(rng.uniform(0, 300, count)),
        rng.choice([0, 1, 4, 9], count).astype(float),
        rng.uniform(1, 100, count),
        rng.uniform(0, 0.4, count),
    )
    rule = named_rule(name, resume=resume)
    if rule.sticky_slots:
        rule = replace(rule, sticky_slots=2)
    running: set[int] = set()
    ended: Counter[int] = Counter()

    def observe(what, at_s, task):
        if what == "start":
            assert task not in running
            running.add(task)
            assert len(running) <= 8
        else:
            running.remove(task)
            ended[task] += what in ("end", "drop")

    servers = (ServerGroup("s", 2, 1.0, 1.0, 4, cores=2),)
    result = simulate_priorities(workload, servers, rule, seed=seed, observer=observe)
    assert not running
    assert set(ended.values()) == {1}
    assert len(ended) == count
    ended_s = np.isfinite(result.end_s)
    parts_s = sum(result.times_s.values())[ended_s]
    # The rest is the time in the queue.
    assert (parts_s <= result.response_s[ended_s] + 1e-9).all()
    if rule.limit is not None:
        assert result.priority_evictions.max() <= rule.limit
    if not rule.resume:
        assert (result.wasted[(result.priority_evictions + result.memory_evictions) == 0] == 0).all()
