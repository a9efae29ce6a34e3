"""The background of a run: the same for every setting of a block and workload."""

from __future__ import annotations

import numpy as np

from spark_sched_lab.runs.ab.suite import Suite
from spark_sched_lab.runs.workloads.background import BackgroundJob, draw_batch, trace_fit

#: The longest sleeping background task, in multiples of the mean, so that no single task determines the
#: length of a run.
_LONGEST_IN_MEANS = 4.0


def background_jobs(suite: Suite, seed: int) -> list[BackgroundJob]:
    """The background's jobs in the order of arrival. Raises ValueError for a suite without a background."""
    what = suite.background
    if what is None:
        raise ValueError("the suite has no background")
    rng = np.random.default_rng([seed, 4])
    if what.batch is not None:
        return draw_batch(trace_fit(), what.batch, rng)
    gaps_s = rng.exponential(what.gap_ms / 1000, what.jobs)
    times_ms = rng.exponential(what.mean_ms, (what.jobs, what.tasks))
    times_ms = np.clip(times_ms, 1, _LONGEST_IN_MEANS * what.mean_ms)
    return [
        BackgroundJob(number, round(float(arrival_s), 3), tuple(int(ms) for ms in row))
        for number, (arrival_s, row) in enumerate(zip(np.cumsum(gaps_s) - gaps_s[0], times_ms, strict=True))
    ]
