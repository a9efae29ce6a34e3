"""Options of policies: declared beside each one, read from ``spark.sched.policy.*``."""

from __future__ import annotations

import pytest

from spark_sched.config import validate
from spark_sched.errors import BadInputError
from spark_sched.policies import PolicySettings, available, check_options, create, kind_of
from spark_sched.policies.three_sigma.policy import ThreeSigmaPolicy


def settings(policy: str, **given: str) -> PolicySettings:
    return PolicySettings.from_config(
        validate({f"spark.sched.policy.{policy}.{key}": text for key, text in given.items()})
    )


def test_the_window_is_the_options() -> None:
    usual = create("3sigma", settings("3sigma"))
    fine = create("3sigma", settings("3sigma", firstStep="500ms", window="5min"))
    assert isinstance(usual, ThreeSigmaPolicy)
    assert isinstance(fine, ThreeSigmaPolicy)
    assert usual.options.grid.starts_ms[1] == 5_000
    assert usual.options.grid.starts_ms[-1] > 2.5 * 3_600_000
    assert fine.options.grid.starts_ms[1] == 500
    assert 150_000 < fine.options.grid.starts_ms[-1] < 300_000


@pytest.mark.parametrize("name", ["slearn", "gs-las"])
def test_the_first_queue_is_the_option(name: str) -> None:
    """Without one it is the value from which adaptation starts."""
    reach_ms = [
        create(name, given)._adapted.queues.threshold_ms(0)  # type: ignore[attr-defined]
        for given in (
            settings(name),
            settings(name, firstQueue="auto"),
            settings(name, firstQueue="3s"),
            settings("3sigma", firstQueue="3s"),
        )
    ]
    assert reach_ms == [1_000, 1_000, 3_000, 1_000]


@pytest.mark.parametrize(
    ("key", "text", "words"),
    [
        ("3sigma.window", "1s", r"policy\.3sigma\.window is 1000 ms but must be at least 5000 ms"),
        ("3sigma.firstStep", "0s", r"firstStep is '0s' but must be a time .*, at least 1ms"),
        (
            "slearn.firstQuue",
            "1s",
            r"firstQuue is not an option of the policy 'slearn' \(did you mean 'firstQueue'",
        ),
        ("fifo.window", "1s", r"not an option of the policy 'fifo': it has no options"),
        ("slern.firstQueue", "1s", r"the policy 'slern' is unknown \(did you mean 'slearn'"),
        (
            "fair.poolBy",
            "uesr",
            r"poolBy is 'uesr' but must be one of job, user, class \(did you mean 'user'",
        ),
        ("fair.weights", "ann=0", r"weights is 'ann=0' but must be names with a number"),
        ("window", "1s", r"write spark\.sched\.policy\.POLICY\.OPTION"),
    ],
)
def test_a_wrong_option_is_refused_with_one_sentence(key: str, text: str, words: str) -> None:
    with pytest.raises(BadInputError, match=words):
        check_options(validate({f"spark.sched.policy.{key}": text}))


@pytest.mark.parametrize("name", available())
def test_every_default_is_a_value_and_every_option_is_explained(name: str) -> None:
    options = kind_of(name).options
    options.read(name, {option.key(name).name: option.default for option in options.declared})
    assert all(option.doc and option.value.wanted for option in options.declared)
