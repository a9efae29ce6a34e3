"""When a tuned level moves: not on noise, and soon when the runs are far from the goal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from spark_sched.policies.tuning.evidence import ERROR, exceeds, interval
from spark_sched.policies.tuning.steps import CAP, MOST_RUNS, Goal, StepRule, Tuned

LOSS = Goal(0.05, 0.0, False, "{mean:.1f} % ({low:.1f} to {high:.1f}) idle, goal {goal:g} %", 100.0)
SLOWDOWN = Goal(1.5, 1.0, True, "slowdown {mean:.2f} ({low:.2f} to {high:.2f}), goal {goal:g}", 1.0)
HISTORIES = 2_000

Draw = Callable[[np.random.Generator, tuple[int, int]], np.ndarray[Any, Any]]

#: Counted values whose mean is the goal, 1 / CAP, distributed in different ways.
AT_THE_GOAL: dict[str, Draw] = {
    "all alike": lambda rng, shape: 1.0 / CAP + 1e-9 * rng.standard_normal(shape),
    "symmetric": lambda rng, shape: rng.uniform(0.0, 2.0 / CAP, shape),
    "skewed": lambda rng, shape: rng.beta(0.5, 0.5 * (CAP - 1.0), shape),
    "mostly nothing, now and then very much": lambda rng, shape: rng.random(shape) < 1.0 / CAP,
}


def rule(goal: Goal = LOSS, **more: Any) -> StepRule:
    given = {"lowest": 0.0, "highest": 1.0, "step": 0.2, "runs": 5, "band": 0.2} | more
    return StepRule(goal, **given)


def runs_until_step(rule: StepRule, values: list[float], level: float = 0.6) -> tuple[int, Tuned]:
    tuned = rule.start(level)
    for count, value in enumerate(values, 1):
        tuned = rule.after(tuned, value)
        if tuned.steps:
            return count, tuned
    return 0, tuned


@pytest.mark.parametrize("name", AT_THE_GOAL)
def test_noise_at_the_goal_moves_a_level_in_at_most_one_history_of_twenty(name: str) -> None:
    values = AT_THE_GOAL[name](np.random.default_rng(1), (HISTORIES, MOST_RUNS)).astype(float)
    up = exceeds(values, 1.0 / CAP).any(axis=1)
    down = exceeds(1.0 - values, 1.0 - 1.0 / CAP).any(axis=1)  # without the band, which makes it rarer
    assert np.mean(up | down) <= ERROR


def test_the_interval_holds_after_every_number_of_runs_at_once() -> None:
    rng = np.random.default_rng(2)
    missed = 0
    for _ in range(40):
        values = rng.beta(0.5, 1.0, 30)
        found = [interval(values[:count]) for count in (5, 10, 20, 30)]
        missed += any(not low <= 1.0 / 3.0 <= high for low, high in found)
    assert missed <= 4


def test_the_interval_has_the_mean_inside_and_narrows() -> None:
    values = np.full(60, 0.4)
    few, many = interval(values[:5]), interval(values)
    assert few[0] < many[0] < 0.4 < many[1] < few[1]


def test_the_rule_steps_exactly_when_the_evidence_excludes_the_goal() -> None:
    rng = np.random.default_rng(3)
    stepped = 0
    for _ in range(8):
        counted = rng.beta(1.0, 1.0, 25)  # half of the cap: above the goal
        first, _ = runs_until_step(rule(), [LOSS.cap * value for value in counted])
        shown = np.flatnonzero(exceeds(counted, 1.0 / CAP)[4:])
        assert first == (5 + shown[0] if len(shown) else 0)
        stepped += bool(first)
    assert stepped > 0


@pytest.mark.parametrize(
    ("goal", "value", "level", "within"),
    [
        (LOSS, 0.15, 0.4, 5),
        (LOSS, 0.10, 0.4, 8),
        (LOSS, 0.0, 0.8, 18),
        (SLOWDOWN, 3.0, 0.8, 5),
        (SLOWDOWN, 1.0, 0.4, 18),
    ],
)
def test_a_level_far_off_moves_within_few_runs(goal: Goal, value: float, level: float, within: int) -> None:
    count, tuned = runs_until_step(rule(goal), [value] * 20)
    assert 5 <= count <= within
    assert tuned.level == pytest.approx(level)


def test_one_disturbed_run_counts_with_a_multiple_of_the_goal_only() -> None:
    count, _ = runs_until_step(rule(), [0.04, 0.9, 0.04, 0.04, 0.04, 0.04, 0.04, 0.04])
    assert count == 0


@pytest.mark.parametrize("runs", [5, 12])
def test_there_are_at_least_so_many_runs_between_two_steps(runs: int) -> None:
    tuned, ended = rule(runs=runs).start(1.0), []
    for count in range(1, 40):
        before, tuned = tuned, rule(runs=runs).after(tuned, 0.5)
        if tuned.steps > before.steps:
            ended.append(count)
    assert ended[:3] == [runs, 2 * runs, 3 * runs]


def test_between_the_goal_and_the_band_below_it_nothing_moves() -> None:
    assert runs_until_step(rule(), [0.045] * MOST_RUNS)[0] == 0
    assert runs_until_step(rule(band=0.0), [0.03] * MOST_RUNS)[0] > 0


def test_a_step_back_is_half_as_long_and_the_bounds_hold() -> None:
    tuned, levels = rule(lowest=0.3, highest=0.9).start(1.0), []
    for value in [0.5] * 15 + [0.0] * 90:
        before, tuned = tuned, rule(lowest=0.3, highest=0.9).after(tuned, value)
        if tuned.steps > before.steps:
            levels.append(tuned.level)
    assert levels[:5] == pytest.approx([0.7, 0.5, 0.3, 0.4, 0.6])
    assert max(levels) == 0.9
    assert "its highest" in tuned.why


def test_steps_do_not_become_too_small_to_matter() -> None:
    tuned, sizes = rule().start(0.5), []
    for _ in range(6):
        steps, value = tuned.steps, 0.5 if tuned.step >= 0 else 0.0
        while tuned.steps == steps:
            tuned = rule().after(tuned, value)
        sizes.append(abs(tuned.step))
    assert sizes == pytest.approx([0.2, 0.1, 0.05, 0.05, 0.05, 0.05])


def test_evidence_is_bounded_and_begins_anew() -> None:
    tuned = rule().start(0.5)
    for _ in range(MOST_RUNS - 1):
        tuned = rule().after(tuned, 0.045)
    assert len(tuned.values) == MOST_RUNS - 1
    assert rule().after(tuned, 0.045).values == ()


def test_a_step_says_what_it_follows_from() -> None:
    _, tuned = runs_until_step(rule(), [0.10, 0.12, 0.11, 0.09, 0.12, 0.11, 0.10, 0.12])
    said = tuned.why
    assert said.startswith("P 0.6 -> 0.4 after ")
    assert said.endswith(" idle, goal 5 %")
    assert rule().after(tuned, 0.05).why.startswith(f"{said}; P 0.4 after 1 run: 5.0 % (")
