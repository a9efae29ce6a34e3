"""Settings that fit policies to an application's scale of time."""

from __future__ import annotations

import pytest

from spark_sched.config import validate
from spark_sched.errors import BadInputError
from spark_sched.policies import PolicySettings, create
from spark_sched.policies.three_sigma.policy import SigmaPolicy


def settings(**given: str) -> PolicySettings:
    return PolicySettings.from_config(
        validate({f"spark.sched.planner.{key}": text for key, text in given.items()})
    )


def test_the_window_is_the_settings() -> None:
    usual, fine = create("3sigma", settings()), create("3sigma", settings(firstSlot="500ms", window="5min"))
    assert isinstance(usual, SigmaPolicy)
    assert isinstance(fine, SigmaPolicy)
    assert usual.options.grid.starts_ms[1] == 5_000
    assert fine.options.grid.starts_ms[1] == 500
    assert 150_000 < fine.options.grid.starts_ms[-1] < 300_000


def test_a_window_shorter_than_its_first_slot_is_refused() -> None:
    with pytest.raises(BadInputError, match="a window of 1000 ms in 24 slots from 5000 ms on"):
        create("3sigma", settings(window="1s"))


@pytest.mark.parametrize("name", ["slearn", "gs-las"])
def test_the_first_queue_is_the_settings(name: str) -> None:
    reach_ms = [
        create(name, given)._queues.threshold_ms(0)  # type: ignore[attr-defined]
        for given in (settings(), settings(firstQueue="3s"))
    ]
    assert reach_ms == [1_000_000, 3_000]
