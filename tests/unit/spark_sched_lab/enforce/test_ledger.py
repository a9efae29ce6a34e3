"""The Python ledger's own details; what it decides is in protocol/golden."""

from __future__ import annotations

import math
from typing import Any

import pytest
from ledger_steps import OPERATIONS, StepRunner, rule_of

from spark_sched.config import keys, validate
from spark_sched.errors import BadInputError
from spark_sched.policies.reservation import reservation_deadline_s
from spark_sched_lab.enforce.ledger import Decision, Ledger, Rule
from spark_sched_lab.enforce.ledger_state import deadline_ms, round_half_up
from spark_sched_lab.enforce.rule import CopyAge, DeadlineRule
from tests.shape import estimate_shape


class Silent:
    """A listener that nobody asks."""

    def slot_held(self, job: str, stage: str, executor: str, deadline_ms: int, now_ms: int) -> None:
        pass

    def slot_freed(self, job: str, executor: str, reason: str, now_ms: int) -> None:
        pass


@pytest.mark.parametrize("isolation", [0.0, 0.05, 0.4, 0.9, 1 - 1e-12, 1.0])
@pytest.mark.parametrize("alpha", [1.01, 1.6, 3.0, 100.0])
@pytest.mark.parametrize("n_tasks", [1, 20, 100_000])
def test_the_fast_deadline_is_the_public_formula(isolation: float, alpha: float, n_tasks: int) -> None:
    expected_s = reservation_deadline_s(isolation, 0.25, alpha, n_tasks)
    assert deadline_ms(isolation, 250.0, alpha, n_tasks) == pytest.approx(1000 * expected_s, rel=1e-9)


@pytest.mark.parametrize(
    ("value", "rounded"), [(0.4, 0), (0.5, 1), (1.5, 2), (2.5, 3), (2.4999, 2), (1e12 + 0.5, 10**12 + 1)]
)
def test_times_are_rounded_as_the_jvm_does(value: float, rounded: int) -> None:
    assert round_half_up(value) == rounded


def test_a_stage_deadline_is_the_formula_at_the_shape_estimated_from_finished_and_running_tasks() -> None:
    rule = Rule(priority=10, isolation=0.7, shape=1.8, shape_weight=3.0, copies=False, deadline="pareto")
    ledger = Ledger(Silent())
    ledger.executor_added("e1", 4)
    ledger.job_started("fg", False, rule)
    ledger.stage_started("fg", "1.0", 0, 4, 4, False, False, 0)
    for task in range(4):
        ledger.task_launched(task, "1.0", task, "e1", False, 0)
    ledger.task_ended(0, True, 800)
    ledger.task_ended(1, True, 1100)
    alpha = estimate_shape([0.8, 1.1], [1.1, 1.1], 0.8, prior_alpha=1.8, prior_weight=3.0)
    expected_s = reservation_deadline_s(0.7, 0.8, alpha, 4)
    assert {deadline for *_, deadline in ledger.holds()} == {math.floor(1000 * expected_s + 0.5)}


@pytest.mark.parametrize(
    ("deadline", "scale_ms", "hold_s"),
    [
        ("calibrated", None, 60.0),
        ("calibrated", 1_000.0, 60.0),
        ("pareto", None, 60.0),
        ("pareto", 1_000.0, reservation_deadline_s(0.75, 1.0, 1.6, 1)),
    ],
)
def test_only_earlier_runs_tell_a_deadline_for_a_stage_of_one_task(
    deadline: DeadlineRule, scale_ms: float | None, hold_s: float
) -> None:
    rule = Rule(
        10, isolation=0.75, shape=1.6, shape_weight=1e6, scale_ms=scale_ms, max_hold_ms=60_000,
        copies=False, deadline=deadline,
    )  # fmt: skip
    ledger = Ledger(Silent())
    ledger.executor_added("e1", 2)
    ledger.job_started("fg", True, rule)
    ledger.stage_started("fg", "0.0", 0, 2, 1, False, False, 0)
    for task in range(2):
        ledger.task_launched(task, "0.0", task, "e1", False, 0)
    for task in range(2):
        ledger.task_ended(task, True, 1_000)
    ledger.stage_started("fg", "1.0", 1, 1, 2, False, False, 1_000)
    ledger.task_launched(2, "1.0", 0, "e1", False, 1_000)
    ((_, _, slots, until_ms),) = ledger.holds()
    assert (slots, until_ms) == (1, 1_000 + math.floor(1000 * hold_s + 0.5))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("isolation", 1.1),
        ("isolation", math.nan),
        ("pre_reserve_threshold", -0.1),
        ("shape", 1.0),
        ("shape_weight", -1.0),
        ("scale_ms", 0.0),
        ("max_hold_ms", -1),
        ("gap_ms", -1),
        ("copy_min_task_ms", -1),
        ("copy_min_slowdown", -0.5),
    ],
)
def test_a_rule_refuses_a_bad_value_by_name(field: str, value: float) -> None:
    with pytest.raises(BadInputError, match=rf"^{field} of a rule must be a number from .* not {value!r}$"):
        rule_of({field: value})


def test_a_rule_is_what_the_configuration_says_by_default() -> None:
    declared = validate({})
    assert Rule() == Rule(
        priority=0,
        isolation=declared[keys.RESERVATION_ISOLATION],
        pre_reserve_threshold=declared[keys.RESERVATION_PRE_RESERVE_THRESHOLD],
        shape=declared[keys.RESERVATION_ALPHA],
        shape_weight=declared[keys.RESERVATION_ALPHA_WEIGHT],
        scale_ms=None,
        max_hold_ms=declared[keys.RESERVATION_MAX_HOLD],
        gap_ms=declared[keys.RESERVATION_GAP],
        copies=declared[keys.COPIES_ENABLED],
        copy_age=CopyAge(declared[keys.COPIES_MIN_TASK_TIME], declared[keys.COPIES_MIN_SLOWDOWN]),
        whole_job=declared[keys.RESERVATION_LOOKAHEAD] == "job",
        stage_tasks=(),
        deadline=declared[keys.RESERVATION_DEADLINE],
    )


def test_an_ended_attempt_that_nobody_launched_is_an_answer_and_no_error() -> None:
    assert Ledger(Silent()).task_ended(7, True, 0) == Decision(False, "unknown task")


def test_questions_about_the_unknown_have_empty_answers() -> None:
    ledger = Ledger(Silent())
    assert ledger.held_on("x") == 0
    assert ledger.held_by("x") == 0
    assert ledger.rule_of("x") is None
    assert ledger.held_idle_ms(1000) == 0


@pytest.mark.parametrize(
    ("step", "sentence"),
    [
        ({"op": "expires", "now_ms": 0}, r"op is 'expires'.* \(did you mean 'expire'\?\)"),
        ({"op": "expire"}, "lacks now_ms"),
        ({"op": "job_started", "job": "a", "marked": True, "rule": "x"}, "rule 'x' is none of high"),
    ],
    ids=["an operation it has not", "a missing argument", "a rule nobody wrote"],
)
def test_a_wrong_step_is_refused_by_one_sentence(step: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadInputError, match=sentence):
        StepRunner({"high": Rule()}).run(step)


def test_every_operation_is_one_of_the_ledger() -> None:
    for op in OPERATIONS.keys() - {"look", "next_wake"}:
        assert callable(getattr(Ledger, op))
