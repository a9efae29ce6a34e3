"""Shared by the benchmarks of forecasts: runs of recurring programs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spark_sched_lab.simulator import StageSpec


def stages_in_a_row(rng: np.random.Generator, widths: Sequence[int], run_ms: float) -> tuple[StageSpec, ...]:
    """A stage of each width after the one before; task times vary by lognormal factors of ``run_ms``."""
    return tuple(
        StageSpec(
            [max(1, int(run_ms * np.exp(0.3 * rng.normal()))) for _ in range(width)],
            parents=(nth - 1,) if nth else (),
        )
        for nth, width in enumerate(widths)
    )
