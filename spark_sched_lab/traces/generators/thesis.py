"""The thesis' workloads W-B … W-E (§9.3.4, tables 9.2 and 9.4): bursts of one-task jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from spark_sched.arrays import Floats
from spark_sched.errors import BadInputError, did_you_mean
from spark_sched_lab.traces.generators.arrivals import bursty, check_positive
from spark_sched_lab.traces.jobs import JobRecord, StageRecord, chunked
from spark_sched_lab.traces.tables import Trace, TraceMeta

#: Table 5.2, "% of tasks" by priority; classes of at most 0.01 % that it does not give (3, 5, 7) are left
#: out.
PRIORITY_PERCENT = {0: 23.29, 1: 12.78, 2: 0.39, 4: 59.94, 6: 1.28, 8: 1.10, 9: 1.19, 10: 0.01, 11: 0.01}
#: §5.1: production classes.
PRODUCTION = (9, 10, 11)

#: Figure 9.5: "60K task arrivals in 15 hours"; the low-load variants of table 9.4 have longer gaps instead.
_HOURS = 15.0
_TASKS = 60_000


@dataclass(frozen=True)
class _Workload:
    """A column of table 9.4: mean gaps in s, and in min between bursts."""

    synthetic: bool
    gap_s: float
    burst_gap_s: float
    between_bursts_min: float

    @property
    def mean_burst_s(self) -> float:
        """The mean length of a burst, which the table omits; this value gives 60,000 tasks in 15 h.

        Tasks = horizon / gap + (horizon / between) · burst / burst_gap. It comes out as 204 s for W-B and W-D
        and 252 s for W-C and W-E; bursts that run into each other are then seen 5.7 and 1.5 times an hour,
        where table 9.2 counts 6.5, 5.8 and 1.5.
        """
        horizon_s = _HOURS * 3600
        per_burst = (_TASKS - horizon_s / self.gap_s) / (horizon_s / (self.between_bursts_min * 60))
        return per_burst * self.burst_gap_s

    def arrivals_s(self, rng: np.random.Generator, hours: float, low: bool) -> Floats:
        """Times of the tasks; ``low``: the variant with longer gaps."""
        factor = _LOW if low else 1.0
        return bursty(
            rng,
            hours * 3600,
            mean_gap_s=self.gap_s * factor,
            burst_gap_s=self.burst_gap_s * factor,
            between_bursts_s=self.between_bursts_min * 60,
            mean_burst_s=self.mean_burst_s,
        )


WORKLOADS = {
    "W-B": _Workload(False, 6.0, 0.6, 6.0),
    "W-C": _Workload(False, 3.0, 0.15, 36.0),
    "W-D": _Workload(True, 6.0, 0.6, 6.0),
    "W-E": _Workload(True, 3.0, 0.15, 36.0),
}
#: Gaps of the low-load variants W-x_l, over those of W-x (8.0 / 6.0 and so on in table 9.4).
_LOW = 4.0 / 3.0


def thesis_workload(
    rng: np.random.Generator,
    *,
    workload: str = "W-D",
    low: bool = False,
    hours: float = _HOURS,
    source: Trace | None = None,
) -> Trace:
    """Jobs of one task each, with priority, CPU and memory usage (largest machine = 1).

    Arrivals: `arrivals.bursty` with the workload's means. ``low``: the variant with 25 % less load.

    - W-D, W-E (synthetic): priorities as in table 5.2; CPU and memory exponential with mean 0.01 (production:
      0.02), cut at 1; execution time exponential with mean 3,400 s (production: 27,200 s).
    - W-B, W-C (semi-synthetic): priority, CPU and memory and execution time are those of a finished task
      drawn uniformly from ``source`` (Google 2011's requests; its usage table would be nearer to the thesis).

    Raises:
        BadInputError: unknown workload, or a ``source`` that is missing, not needed, or has no finished task
            with requests.
    """
    if workload not in WORKLOADS:
        raise BadInputError(
            f"workload {workload!r} is unknown{did_you_mean(workload, WORKLOADS)}: use one of "
            f"{', '.join(WORKLOADS)}"
        )
    check_positive("hours", hours)
    column = WORKLOADS[workload]
    if column.synthetic and source is not None:
        raise BadInputError(f"workload {workload} samples no trace: leave --source out, or use W-B or W-C")
    submit_s = column.arrivals_s(rng, hours, low)
    count = len(submit_s)
    if column.synthetic:
        priority, cpus, memory, duration_s = _synthetic(rng, count)
    else:
        if source is None:
            raise BadInputError(
                f"workload {workload} samples tasks of a real trace and has none: "
                "give one with --source (google2011)"
            )
        priority, cpus, memory, duration_s = _sampled(rng, count, source)
    records = (
        JobRecord(
            f"{workload}-{i}",
            "finished",
            "malleable",
            [
                StageRecord(
                    tasks=1, mean_task_s=float(duration_s[i]), cpus=float(cpus[i]), memory=float(memory[i])
                )
            ],
            job_class="production" if priority[i] in PRODUCTION else None,
            priority=int(priority[i]),
            submit_s=float(submit_s[i]),
            runtime_s=float(duration_s[i]),
            slots=1,
        )
        for i in range(count)
    )
    name = workload + ("l" if low else "")
    meta = TraceMeta(
        "thesis",
        f"{name}, tables 9.2 and 9.4",
        cpu_unit="largest machine = 1",
        memory_unit="largest machine = 1",
        notes=("generated",),
        parameters={"workload": workload, "low": low, "hours": hours},
    )
    return Trace.from_chunks(chunked(records), meta)


_Columns = tuple[Any, Any, Any, Any]


def _synthetic(rng: np.random.Generator, count: int) -> _Columns:
    percent = np.array(list(PRIORITY_PERCENT.values()))
    priority = rng.choice(list(PRIORITY_PERCENT), size=count, p=percent / percent.sum())
    production = np.isin(priority, PRODUCTION)
    usage = np.where(production, 0.02, 0.01)
    cpus = np.minimum(1.0, rng.exponential(1.0, count) * usage)
    memory = np.minimum(1.0, rng.exponential(1.0, count) * usage)
    duration_s = rng.exponential(1.0, count) * np.where(production, 27_200.0, 3_400.0)
    return priority, cpus, memory, duration_s


def _sampled(rng: np.random.Generator, count: int, source: Trace) -> _Columns:
    finished = np.asarray(source.tasks.column("outcome").to_pylist(), dtype=object) == "finished"
    duration_s = source.tasks.column("duration_s").to_numpy()
    job_of = np.searchsorted(source.jobs.column("job").to_numpy(), source.tasks.column("job").to_numpy())
    first_stage = np.searchsorted(
        source.stages.column("job").to_numpy(), source.tasks.column("job").to_numpy()
    )
    stage_of = first_stage + source.tasks.column("stage").to_numpy()
    priority = source.jobs.column("priority").to_numpy().astype(float)[job_of]
    cpus = source.stages.column("cpus").to_numpy()[stage_of]
    memory = source.stages.column("memory").to_numpy()[stage_of]
    usable = np.flatnonzero(
        finished & np.isfinite(duration_s) & np.isfinite(priority) & np.isfinite(cpus) & np.isfinite(memory)
    )
    if not len(usable):
        raise BadInputError(
            f"{source.meta.source or 'the source'} has no finished task with priority and requests: "
            "give a trace that has them (google2011 with task_events)"
        )
    rows = rng.choice(usable, size=count)
    return priority[rows].astype(int), cpus[rows], memory[rows], duration_s[rows]
