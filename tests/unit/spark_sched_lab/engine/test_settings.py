"""Each setting changes a simulated run, or is refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from spark_sched.config import ALL, keys
from spark_sched.errors import BadInputError
from spark_sched_lab.engine.settings import APPLIED, applied
from spark_sched_lab.simulator import ClusterSpec, JobSpec, Result, StageSpec, simulate, uniform_nodes


class Trial(NamedTuple):
    """Two values of a setting, beside which settings they differ, and on which job they show."""

    one: str
    other: str
    beside: Mapping[str, str] = MappingProxyType({})
    front: Mapping[str, Any] = MappingProxyType({})


LEVEL = {"spark.sched.reservation.isolation": "0.5", "spark.sched.copies.enabled": "false"}
PARETO = {**LEVEL, "spark.sched.reservation.deadline": "pareto"}
HELD = {"spark.sched.reservation.firstGap": "30s", "spark.sched.reservation.gap": "30s"}
TRIALS = {
    keys.RESERVATION_ENABLED: Trial("true", "false"),
    keys.RESERVATION_ISOLATION: Trial("1", "0"),
    keys.RESERVATION_MIN_PRIORITY: Trial("10", "11"),
    keys.RESERVATION_DEADLINE: Trial("pareto", "fixed", LEVEL),
    keys.RESERVATION_MAX_HOLD: Trial("10min", "100ms"),
    keys.RESERVATION_GAP: Trial("10s", "100ms"),
    keys.RESERVATION_FIRST_GAP: Trial("1s", "0s"),
    keys.RESERVATION_IDLE_SHARE: Trial("1", "0", {**HELD, "spark.sched.limits.idleBurst": "1s"}),
    keys.RESERVATION_PRE_RESERVE_THRESHOLD: Trial("0", "1"),
    keys.RESERVATION_ALPHA: Trial("1.1", "20", PARETO),
    keys.RESERVATION_ALPHA_WEIGHT: Trial("0", "1000", PARETO),
    keys.RESERVATION_LOOKAHEAD: Trial("job", "stage"),
    keys.COPIES_ENABLED: Trial("true", "false"),
    keys.COPIES_MIN_TASK_TIME: Trial("100ms", "1min"),
    keys.COPIES_MIN_SLOWDOWN: Trial("0", "1000"),
    keys.LIMITS_IDLE_SHARE: Trial("1", "0", {**HELD, "spark.sched.limits.idleBurst": "1s"}),
    keys.LIMITS_IDLE_BURST: Trial("0s", "1min", HELD),
    keys.LIMITS_IDLE_WAITING_COST: Trial("1", "100", {**HELD, "spark.sched.limits.idleBurst": "1s"}),
    keys.LIMITS_MAX_PRIORITY: Trial("10", "-1"),
    keys.LIMITS_MAX_ISOLATION: Trial("1", "0", front={"isolation": 1.0}),
    keys.QUEUES: Trial("", '{"default":"q","queues":[{"queue":"q","ceiling":"50 %"}]}'),
}


def run(settings: dict[str, str], **front: Any) -> Result:
    """A marked job that narrows and widens, pauses twice and has stragglers, among others of low priority."""
    stages = [
        StageSpec((800, 900, 1000, 1100, 1200, 6000)),
        StageSpec((500, 3_000), parents=(0,)),
        StageSpec((900,) * 8, parents=(1,)),
        StageSpec((700, 800, 900, 5000), parents=(2,), delay_ms=1_500, part=1),
        StageSpec((1000,) * 4, parents=(3,), delay_ms=3_000, part=2),
    ]
    job = JobSpec(
        "front", 500, tuple(stages), marked=True, dag_known="next stage", **{"priority": 10, **front}
    )
    others = [JobSpec(f"back-{n}", 200 * n, (StageSpec((700 + 90 * n,) * 3),)) for n in range(40)]
    jobs = sorted([job, *others], key=lambda each: each.submit_ms)
    return simulate(ClusterSpec(uniform_nodes(4, 2)), jobs, "reservation", settings=settings, check=True)


def told(result: Result) -> Any:
    return list(result.rows()), result.totals


@pytest.mark.parametrize("key", TRIALS, ids=lambda key: key.name)
def test_a_setting_changes_a_run(key: Any) -> None:
    trial = TRIALS[key]
    one = told(run({**trial.beside, key.name: trial.one}, **trial.front))
    other = told(run({**trial.beside, key.name: trial.other}, **trial.front))
    assert one != other


def test_every_setting_that_is_applied_is_tried() -> None:
    assert {*TRIALS, keys.PLANNER_SOLVER} == {*APPLIED}


def test_the_solver_is_that_of_the_setting() -> None:
    with pytest.raises(BadInputError, match=r"spark\.sched\.planner\.solver is 'nosuch'"):
        simulate(
            ClusterSpec(uniform_nodes(1, 1)),
            [JobSpec("j", 0, (StageSpec((1,)),))],
            "3sigma",
            settings={"spark.sched.planner.solver": "nosuch"},
        )


@pytest.mark.parametrize("key", [key for key in ALL if key not in APPLIED], ids=lambda key: key.name)
def test_a_setting_that_does_nothing_is_refused_by_name(key: Any) -> None:
    text = key.default or {"spark.sched.job.priority": "3", "spark.sched.job.deadline": "1000"}.get(key.name)
    text = text or {"spark.sched.job.isolation": "0.5", "spark.sched.job.copies": "never"}.get(key.name, "x")
    with pytest.raises(BadInputError) as refused:
        run({key.name: text})
    assert str(refused.value).startswith(f"{key.name} is {text!r} but does nothing in the simulator: ")


def test_marks_are_lowered_to_the_limits() -> None:
    given = {"spark.sched.limits.maxPriority": "4", "spark.sched.limits.maxIsolation": "0.25"}
    capped = run(given, isolation=0.9)
    assert told(capped) == told(run({}, priority=4, isolation=0.25))


def test_of_an_applications_properties_the_run_gets_those_that_it_applies() -> None:
    options = {"spark.sched.reservation.gap": "2s", "spark.sched.policy.fair.poolBy": "user"}
    assert applied({**options, "spark.sched.ui.hosts": "*", "spark.app.name": "a"}) == options


def test_an_option_of_another_policy_is_refused_by_name() -> None:
    with pytest.raises(BadInputError, match=r"spark\.sched\.policy\.fair\.poolBy is 'user' but does nothing"):
        run({"spark.sched.policy.fair.poolBy": "user"})
