"""How far a plan may be from the best one."""

from __future__ import annotations

import pytest

from spark_sched.protocol.plan import PlanQuality


@pytest.mark.parametrize(
    ("value", "bound", "gap"),
    [
        (6.0, 8.0, 0.25),
        (8.0, 8.0, 0.0),
        # A rounded value may exceed the bound, and where no value is possible there is nothing to miss.
        (8.1, 8.0, 0.0),
        (0.0, 0.0, 0.0),
        (-1.0, -0.5, 0.0),
        (6.0, None, None),
    ],
)
def test_the_gap_is_what_the_bound_leaves_open(value: float, bound: float | None, gap: float | None):
    quality = PlanQuality("highs", "feasible", value, bound, pending=3, options=9)
    assert quality.gap == gap
    assert quality.to_json()["gap"] == gap
