"""What policies keep beyond their planner: the same after a trip through JSON, and bounded."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import Any

import pytest

from spark_sched.config import validate
from spark_sched.policies import Policy, PolicySettings, create
from spark_sched.policies.base import LastingMemory
from spark_sched.policies.slearn.adaptive import AdaptiveRatio
from spark_sched.policies.slearn.doubts import Doubts
from spark_sched.policies.slearn.job_memory import GsMemory, JobMemory
from spark_sched.policies.tuning.policy import Tuning
from spark_sched.policies.tuning.steps import Tuned


def policy(name: str, **options: str) -> Policy:
    given = {f"spark.sched.policy.{name}.{option}": value for option, value in options.items()}
    return create(name, PolicySettings.from_config(validate(given)))


def kept(of: Policy, memory: Any, by: Policy | None = None) -> Any:
    """The memory of the next planner."""
    assert isinstance(of, LastingMemory)
    after = by or of
    assert isinstance(after, LastingMemory)
    return after.restored(json.loads(json.dumps(of.lasting(memory))))


def test_the_record_of_sampling_ratios_lasts_and_active_jobs_do_not() -> None:
    ratio = AdaptiveRatio()
    for n in range(350):
        ratio = ratio.next_job().ended(ratio.percent(), 1.0 + n / 100)
    memory = GsMemory({"a": JobMemory(5)}, ratio)
    found = kept(policy("slearn"), memory)
    assert found == GsMemory(ratio=ratio)
    assert {len(scores) for scores in ratio.scores.values()} <= set(range(102))


def test_doubts_last_for_policies_that_have_them() -> None:
    doubts = Doubts().came(("ana", "etl")).came((None, "x"))
    memory = GsMemory(doubts=doubts)
    assert kept(policy("slearn-bayes"), memory).doubts == doubts
    assert kept(policy("slearn-bayes"), memory, policy("slearn")).doubts is None
    assert kept(policy("slearn"), GsMemory(), policy("slearn-bayes")).doubts == Doubts()


def test_levels_of_recurring_jobs_last_as_long_as_their_goal() -> None:
    tuned = Tuned(0.6, 3, -0.1, (0.25, 0.5), "P 0.7 -> 0.6", "P 0.6 after 2 runs")
    memory = Tuning(MappingProxyType({("ana", "etl"): tuned}))
    of = policy("tuned-reservation", loss="0.1")
    assert kept(of, memory) == memory
    assert kept(of, memory, policy("tuned-reservation", loss="0.2")) == Tuning()
    lower = kept(of, memory, policy("tuned-reservation", loss="0.1", highest="0.5"))
    assert lower.jobs["ana", "etl"].level == 0.5


@pytest.mark.parametrize(
    "damaged", [{}, {"ratio": 3, "doubts": None}, {"ratio": {"started": "x", "scores": {}}}]
)
def test_a_damaged_memory_is_refused(damaged: dict[str, Any]) -> None:
    of = policy("slearn")
    assert isinstance(of, LastingMemory)
    with pytest.raises((ValueError, TypeError, KeyError, AttributeError)):
        of.restored(damaged)
