"""What holds for the ledger whatever happens to it, on plausible sequences and on calls in any order."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from ledger_rules import IDLE_LIMITS, IDLE_RULES, RULES, WAITING_LIMITS, WAITING_RULES, rules
from ledger_steps import OPERATIONS, StepRunner
from ledger_walk import Walk

# Hypothesis draws every choice of the walk, so that a failing sequence shrinks.
SOURCES = st.randoms(use_true_random=False)
ACTIONS = st.integers(0, 120)
LONG_AFTER_MS = 10**12


def _walk(rng: random.Random, actions: int) -> Walk:
    walk = Walk(rng)
    for _ in range(actions):
        walk.step()
    return walk


@given(rng=SOURCES, actions=ACTIONS)
def test_the_invariants_hold_after_every_step(rng: random.Random, actions: int) -> None:
    walk = Walk(rng)
    for _ in range(actions):
        walk.step()
        assert walk.runner.ledger.violations() == [], walk.steps


@given(rng=SOURCES, actions=ACTIONS)
def test_every_hold_ends(rng: random.Random, actions: int) -> None:
    """Nothing leaks: long after the last event all is free, without any help from jobs or executors."""
    ledger = _walk(rng, actions).runner.ledger
    held = ledger.held_slots
    assert ledger.expire(LONG_AFTER_MS) is (held > 0)
    assert ledger.holds() == []
    assert ledger.held_slots == 0
    assert ledger.next_wake_ms(LONG_AFTER_MS) is None


@given(rng=SOURCES, actions=ACTIONS)
def test_a_job_that_ended_holds_nothing_and_gets_nothing(rng: random.Random, actions: int) -> None:
    walk = _walk(rng, actions)
    for job in list(walk.jobs):
        walk.do("job_ended", job=job, now_ms=walk.now_ms)
        assert walk.runner.ledger.held_by(job) == 0
    assert walk.runner.holds() == {}
    for task in list(walk.running):
        walk.do("task_ended", task=task, success=True, now_ms=walk.now_ms + 5)
        assert walk.runner.holds() == {}, walk.steps


@given(rng=SOURCES, actions=ACTIONS)
def test_the_idle_held_time_is_the_sum_over_the_holds(rng: random.Random, actions: int) -> None:
    walk = _walk(rng, actions)
    walk.now_ms += 123
    began: list[tuple[str, str, int]] = []
    total_ms = 0
    now_ms = 0
    for step in walk.steps:
        now_ms = step.get("now_ms", now_ms)
        for told in step.get("expect", {}).get("told", []):
            if told[0] == "held":
                began.append((told[1], told[3], now_ms))
            else:
                # Slots of one executor are interchangeable: which of them ends does not change the sum.
                hold = next(h for h in began if h[:2] == (told[1], told[2]))
                began.remove(hold)
                total_ms += now_ms - hold[2]
    total_ms += sum(walk.now_ms - since_ms for _, _, since_ms in began)
    assert walk.runner.ledger.held_idle_ms(walk.now_ms) == total_ms


@given(rng=SOURCES, actions=ACTIONS)
def test_the_idle_held_time_of_all_jobs_is_the_sum_over_the_jobs(rng: random.Random, actions: int) -> None:
    walk = _walk(rng, actions)
    # Plays the walk again to see what each job had when it ended.
    runner = StepRunner(rules())
    ledger = runner.ledger
    ended_ms = 0
    for step in walk.steps:
        if step["op"] == "job_ended":
            ended_ms += ledger.held_idle_ms(step["now_ms"], step["job"])
        runner.run(step)
    by_job = [ledger.held_idle_ms(walk.now_ms, job) for job in walk.jobs]
    assert ended_ms + sum(by_job) == ledger.held_idle_ms(walk.now_ms)


@given(rng=SOURCES, actions=ACTIONS)
def test_holds_and_their_ends_balance_for_every_reason(rng: random.Random, actions: int) -> None:
    walk = _walk(rng, actions)
    walk.end()
    told = [t for step in walk.steps for t in step.get("expect", {}).get("told", [])]
    reasons = [t[3] for t in told if t[0] == "freed"]
    counters = walk.runner.ledger.counters
    assert counters.holds == sum(1 for t in told if t[0] == "held") == len(reasons)
    assert counters.holds_used == reasons.count("used")
    assert counters.holds_expired == reasons.count("expired")
    assert counters.holds_overridden == reasons.count("overridden")


@given(rng=SOURCES, actions=ACTIONS)
def test_a_refused_job_never_outranks_all_that_is_held(rng: random.Random, actions: int) -> None:
    """Algorithm 1, line 19: only holds of equal or higher priority keep a job from a free slot."""
    walk = _walk(rng, actions)
    ledger = walk.runner.ledger
    for executor in walk.slots:
        for job in [*walk.jobs, "nobody"]:
            rule = ledger.rule_of(job)
            free = walk.free_slots(executor)
            others = [h for h in ledger.holds() if h[1] == executor and h[0] != job]
            above = [h for h in others if rule is None or _priority(ledger, h[0]) >= rule.priority]
            if not above and free > 0:
                assert ledger.may_launch(job, executor)


@given(rng=SOURCES, actions=st.integers(0, 250))
def test_holding_between_actions_costs_at_most_the_burst_and_the_share_in_any_interval(
    rng: random.Random, actions: int
) -> None:
    walk = Walk(rng, rules=IDLE_RULES, limits=IDLE_LIMITS, punctual=True)
    ledger = walk.runner.ledger
    capacity_ms, most_slots, before_ms = 0, 0, walk.now_ms
    # By job, and by None for all: the least that cost exceeded its share by, of all moments so far.
    least: dict[str | None, float] = {}
    for _ in range(actions):
        slots = sum(walk.slots.values())
        walk.step()
        # Executors come and go at the end of a step.
        capacity_ms += slots * (walk.now_ms - before_ms)
        before_ms = walk.now_ms
        most_slots = max(most_slots, slots, sum(walk.slots.values()))
        for job in [None, *walk.jobs]:
            share = IDLE_LIMITS.share if job is None else IDLE_LIMITS.job_share
            ahead_ms = ledger.idle_cost_ms(walk.now_ms, job) - share * capacity_ms
            least[job] = min(ahead_ms, least.get(job, ahead_ms))
            assert ahead_ms - least[job] <= IDLE_LIMITS.burst_ms * most_slots + 1e-6, (job, walk.steps)
        for job in [job for job in least if job is not None and job not in walk.jobs]:
            del least[job]
        assert ledger.violations() == []


@given(rng=SOURCES, actions=st.integers(0, 250), cost=st.sampled_from((1.0, 1.5, 4.0)))
def test_while_others_wait_holding_between_actions_costs_at_most_a_part_of_that(
    rng: random.Random, actions: int, cost: float
) -> None:
    """In any interval in which others wait all the time it is 1/w of it; elsewhere waiting counts w times."""
    limits = replace(WAITING_LIMITS, waiting_cost=cost)
    walk = Walk(rng, rules=WAITING_RULES, limits=limits, punctual=True, crowded=True)
    ledger = walk.runner.ledger
    # By job, and by None for all: what was held and the capacity so far, each as of the last step.
    sums: dict[str | None, _Spending] = {}
    most_slots, before_ms, waited = 0, walk.now_ms, _others_wait(walk)
    for _ in range(actions):
        slots = sum(walk.slots.values())
        walk.step()
        most_slots = max(most_slots, slots, sum(walk.slots.values()))
        for job in [None, *walk.jobs]:
            share = limits.share if job is None else limits.job_share
            spent = sums.setdefault(job, _Spending())
            earned_ms = share * slots * (walk.now_ms - before_ms)
            spent.add(ledger.idle_cost_ms(walk.now_ms, job), earned_ms, cost if waited else 1.0)
            burst_ms = limits.burst_ms * most_slots
            assert spent.most_ms <= burst_ms + 1e-6, (job, walk.steps)
            assert spent.most_waited_ms <= burst_ms / cost + 1e-6, (job, walk.steps)
        for job in [job for job in sums if job is not None and job not in walk.jobs]:
            del sums[job]
        before_ms, waited = walk.now_ms, _others_wait(walk)
        assert ledger.violations() == []


@dataclass
class _Spending:
    """How far the cost of holds exceeded their share: at the end of any interval so far, at most."""

    cost_ms: int = 0
    ahead_ms: float = 0.0
    waited_ms: float = 0.0  # of intervals in which others waited all the time, at the share 1/w
    most_ms: float = 0.0
    most_waited_ms: float = 0.0

    def add(self, cost_ms: int, earned_ms: float, weight: float) -> None:
        spent_ms = cost_ms - self.cost_ms
        self.cost_ms = cost_ms
        self.ahead_ms = max(0.0, self.ahead_ms + weight * spent_ms - earned_ms)
        self.most_ms = max(self.most_ms, self.ahead_ms)
        self.waited_ms = max(0.0, self.waited_ms + spent_ms - earned_ms / weight) if weight > 1.0 else 0.0
        self.most_waited_ms = max(self.most_waited_ms, self.waited_ms)


def _others_wait(walk: Walk) -> bool:
    """Whether fewer attempts of a stage run than tasks are left; jobs that pause have no stage."""
    running = Counter(stage for stage, _, _, _ in walk.running.values())
    return any(len(p.done) + running[name] < p.tasks for name, p in walk.stages.items())


@given(rng=SOURCES, actions=ACTIONS)
def test_without_limits_nothing_is_over_budget(rng: random.Random, actions: int) -> None:
    assert _walk(rng, actions).runner.ledger.counters.holds_over_budget == 0


def _priority(ledger: Any, job: str) -> int:
    rule = ledger.rule_of(job)
    assert rule is not None
    return int(rule.priority)


KEYS = st.sampled_from(["a", "b", "c"])
INDEX = st.integers(0, 4)
ARGUMENTS: dict[str, st.SearchStrategy[Any]] = {
    "executor": KEYS,
    "job": KEYS,
    "stage": KEYS,
    "slots": st.integers(0, 3),
    "free": st.integers(0, 3),
    "rank": INDEX,
    "arrival": INDEX,
    "marked": st.booleans(),
    "rule": st.sampled_from(sorted(RULES)),
    "index": INDEX,
    "tasks": st.integers(1, 5),
    "next_tasks": st.none() | st.integers(1, 8),
    "last": st.booleans(),
    "barrier": st.booleans(),
    "already_taken": st.integers(0, 2),
    "task": st.integers(0, 5),
    "copy": st.booleans(),
    "success": st.booleans(),
    "vertex": KEYS,
    "ready": st.booleans(),
}


@st.composite
def _anything(draw: st.DrawFn) -> list[dict[str, Any]]:
    now_ms = 0
    steps = []
    for _ in range(draw(st.integers(1, 40))):
        now_ms += draw(st.integers(0, 500))
        op = draw(st.sampled_from(sorted(OPERATIONS)))
        drawn = {name: draw(ARGUMENTS[name]) for name in OPERATIONS[op] if name != "now_ms"}
        steps.append({"op": op, **drawn, "now_ms": now_ms})
    return steps


@given(steps=_anything())
def test_calls_in_any_order_raise_nothing(steps: list[dict[str, Any]]) -> None:
    """Spark's callbacks come late, twice and for things long gone; the scheduler must not fall over them."""
    runner = StepRunner(rules())
    for step in steps:
        runner.run(step)
    runner.ledger.expire(LONG_AFTER_MS)
    assert runner.ledger.held_slots == 0
