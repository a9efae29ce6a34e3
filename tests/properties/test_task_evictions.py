"""The rule that chooses victims among running tasks, on random clusters."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from spark_sched.policies.eviction.candidates import Candidates, Victim
from spark_sched.policies.eviction.tasks import Choice, SlotDemand, Terms, choose
from tests.properties.plain_evictions import choose as plain_choice

EXECUTORS = ("a", "b", "c")
ms = st.integers(0, 1_000).map(float)
victims = st.lists(
    st.builds(
        Victim,
        task=st.integers(0, 60),
        job=st.sampled_from(("low", "middle")),
        priority=st.integers(0, 2),
        executor=st.sampled_from(EXECUTORS),
        slots=st.sampled_from((1, 1, 1, 2)),
        elapsed_ms=ms,
        remaining_ms=ms.map(lambda value: value + 1.0),
        slowness=st.sampled_from((1.0, 1.0, 0.5)),
    ),
    max_size=14,
    unique_by=lambda victim: victim.task,
)
demands = st.lists(
    st.builds(
        SlotDemand,
        job=st.just("high"),
        priority=st.integers(0, 3),
        tasks=st.integers(1, 6),
        slots=st.sampled_from((1, 1, 1, 2, 3)),
        free=st.dictionaries(st.sampled_from(EXECUTORS), st.integers(1, 2), max_size=1),
        together=st.sampled_from((False, False, True)),
        named=st.lists(st.integers(0, 60), max_size=2, unique=True).map(tuple),
        powerful=st.booleans(),
    ),
    max_size=3,
).map(lambda found: sorted(found, key=lambda demand: -demand.priority))
terms = st.builds(
    Terms,
    worth=st.sampled_from((0.1, 1.0, 4.0, 1e9)),
    left_ms=st.fixed_dictionaries({"low": st.integers(0, 4_000), "middle": st.just(1e9)}),
)


def chosen(demands: list[SlotDemand], candidates: list[Victim], terms: Terms) -> Choice:
    running_ms = [victim.remaining_ms for victim in candidates for _ in range(victim.slots)]
    return choose(demands, Candidates.of(candidates), running_ms, terms)


@given(demands, victims, terms)
def test_each_demand_gets_victims_of_lower_priority_each_once_and_none_in_vain(
    demands: list[SlotDemand], candidates: list[Victim], terms: Terms
) -> None:
    choice = chosen(demands, candidates, terms)
    taken = [victim.task for found in choice.victims for victim in found]
    assert len(taken) == len(set(taken))
    for demand, found, waiting in zip(demands, choice.victims, choice.waiting, strict=True):
        assert 0 <= waiting <= demand.tasks
        assert all(victim.priority < demand.priority for victim in found)
        if demand.together:
            assert waiting in (0, demand.tasks)
        # The last victim on an executor may have a slot more than is wanted.
        served = demand.tasks - waiting
        assert sum(victim.slots for victim in found) <= served * (demand.slots + 1)


@given(demands, victims, terms)
def test_nobody_loses_more_than_it_may_or_than_the_wait_is_worth(
    demands: list[SlotDemand], candidates: list[Victim], terms: Terms
) -> None:
    demands = [replace(demand, named=()) for demand in demands]
    choice = chosen(demands, candidates, terms)
    lost_ms = {"low": 0.0, "middle": 0.0}
    for demand, found in zip(demands, choice.victims, strict=True):
        for victim in found:
            lost_ms[victim.job] += victim.lost_ms
            if demand.slots == 1:
                assert victim.lost_ms < terms.worth * victim.remaining_ms
    assert all(lost <= terms.left_ms[job] for job, lost in lost_ms.items())


@given(victims, st.integers(1, 5))
def test_a_task_that_is_nearly_done_is_a_victim_only_where_no_other_will_do(
    candidates: list[Victim], tasks: int
) -> None:
    candidates = [replace(victim, slots=1) for victim in candidates]
    demand = SlotDemand("high", 5, tasks, 1, {})
    free_of_charge = Terms(1e9, {"low": 1e9, "middle": 1e9})
    (found,) = chosen([demand], candidates, free_of_charge).victims
    if any(victim.nearly_done for victim in found):
        spared = [victim for victim in candidates if victim not in found]
        assert all(victim.nearly_done for victim in spared)
    assert len(found) == min(tasks, len(candidates))


def chosen_twice(demands: list[SlotDemand], candidates: list[Victim], terms: Terms) -> tuple[Choice, Choice]:
    """The choice, and the next plan's if nothing has happened since: it is given the first one's victims."""
    demands = [replace(demand, job=str(n), named=()) for n, demand in enumerate(demands)]
    first = chosen(demands, candidates, terms)
    again = [
        replace(demand, named=[victim.task for victim in found])
        for demand, found in zip(demands, first.victims, strict=True)
    ]
    return first, chosen(again, candidates, terms)


@given(demands, victims, terms)
def test_victims_of_the_plan_before_are_named_again(
    demands: list[SlotDemand], candidates: list[Victim], terms: Terms
) -> None:
    first, second = chosen_twice(demands, candidates, terms)
    for before, now in zip(first.victims, second.victims, strict=True):
        assert now[: len(before)] == before


@given(demands, victims, terms)
def test_the_next_plan_names_no_more_victims_for_tasks_of_one_slot(
    demands: list[SlotDemand], candidates: list[Victim], terms: Terms
) -> None:
    """For wider tasks one group of an executor's victims is tried, and the next plan may try another one."""
    demands = [replace(demand, slots=1) for demand in demands]
    first, second = chosen_twice(demands, candidates, terms)
    assert (second.victims, second.waiting) == (first.victims, first.waiting)


def test_a_slot_that_a_victim_leaves_over_goes_to_a_task_that_was_to_wait() -> None:
    """The second task waits until the short victim is worth its price, which then has room for both."""
    short = Victim(1, "low", 0, "a", 1, elapsed_ms=0.0, remaining_ms=1.0)
    wide = Victim(2, "low", 0, "b", 2, elapsed_ms=2.0, remaining_ms=9.0)
    terms = Terms(1.0, {"low": 1e9})
    choice = chosen([SlotDemand("high", 5, 4, 1, {})], [short, wide], terms)
    assert [victim.task for victim in choice.victims[0]] == [1, 2]
    assert choice.waiting == [1]


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[SlotDemand], list[Victim]]:
    """Demands of which some may take the same free slots, and victims on executors that differ in speed."""
    slowness = {executor: draw(st.sampled_from((1.0, 1.0, 0.5, 2.0))) for executor in EXECUTORS}
    running = sorted(draw(victims), key=lambda victim: victim.priority)
    shared = draw(st.dictionaries(st.sampled_from(EXECUTORS), st.integers(1, 3)))
    waiting = [replace(each, free=shared) if draw(st.booleans()) else each for each in draw(demands)]
    return waiting, [replace(victim, slowness=slowness[victim.executor]) for victim in running]


@given(clusters(), terms, st.lists(ms, max_size=5))
def test_the_choice_is_that_of_the_plain_rule_which_looks_at_every_candidate(
    cluster: tuple[list[SlotDemand], list[Victim]], terms: Terms, others_ms: list[float]
) -> None:
    waiting, running = cluster
    running_ms = [victim.remaining_ms for victim in running for _ in range(victim.slots)] + others_ms
    expected = plain_choice(waiting, running, running_ms, terms)
    assert choose(waiting, Candidates.of(running), running_ms, terms) == expected
