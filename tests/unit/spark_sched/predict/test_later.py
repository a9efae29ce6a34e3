"""Jobs that have yet to arrive, drawn from those that came of late."""

from __future__ import annotations

import numpy as np
import pytest

from spark_sched.predict.later import Kind, LaterArrivals

KIND = Kind(0, 7)
SAMPLES = 64


def seen(count: int, lasted_ms: int, slot_ms: float = 100.0) -> LaterArrivals:
    later = LaterArrivals()
    later.lasted_ms(0)
    for number in range(count):
        later.arrive(lasted_ms * number // count, KIND, slot_ms, 2.0)
    return later


@pytest.mark.parametrize("per_s", [1, 40, 100, 1_000])
def test_work_keeps_coming_at_the_rate_seen_however_much_it_is(per_s: int) -> None:
    """In the minute after one, until the rush ends."""
    (found,) = seen(60 * per_s, 60_000).draw(60_000, SAMPLES, 60_000.0, lambda kind: True)
    comes = np.isfinite(found.release_ms) & (found.release_ms < 60_000.0)
    work = np.where(comes, found.work, 0.0).sum(axis=1)
    # Half of the samples have it for the whole minute.
    assert np.quantile(work, 0.8) == pytest.approx(6_000.0 * per_s, rel=0.02)
    assert work.max() < 1.05 * 6_000.0 * per_s
    assert np.quantile(work, 0.1) < 0.3 * 6_000.0 * per_s


def test_a_rush_lasts_as_long_again_in_half_of_the_samples() -> None:
    (found,) = seen(6_000, 60_000).draw(60_000, SAMPLES, 600_000.0, lambda kind: True)
    last_ms = np.where(np.isfinite(found.release_ms), found.release_ms, 0.0).max(axis=1)
    assert np.median(last_ms) == pytest.approx(60_000.0, rel=0.25)


def test_few_arrivals_say_little_about_the_rate() -> None:
    def spread(count: int) -> float:
        (found,) = seen(count, 60_000).draw(60_000, SAMPLES, 6_000.0, lambda kind: True)
        first = np.where(np.isfinite(found.release_ms[:, 0]), found.release_ms[:, 0], 60_000.0)
        work = np.where(found.release_ms < 6_000.0, found.work, 0.0).sum(axis=1) / (100.0 * count)
        assert first.min() >= 0.0
        return float(work.std() / max(work.mean(), 1e-9))

    assert spread(4) > 2.0 * spread(400)


def test_many_arrivals_just_after_the_start_say_nothing_yet() -> None:
    assert seen(2_000, 2_000).draw(19_999, SAMPLES, 60_000.0, lambda kind: True) == []


def test_kinds_behind_everybody_are_left_out_and_draws_do_not_jitter() -> None:
    later = seen(60, 60_000)
    assert later.draw(60_000, SAMPLES, 60_000.0, lambda kind: kind != KIND) == []
    (first,), (second,) = (later.draw(60_000, SAMPLES, 60_000.0, lambda kind: True) for _ in range(2))
    assert np.array_equal(first.release_ms, second.release_ms)
    assert np.array_equal(first.work, second.work)
