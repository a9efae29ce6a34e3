"""What remains of a stage or a job when it ends: all that a predictor may learn from."""

from __future__ import annotations

from dataclasses import dataclass

from spark_sched.state.snapshot import DurationSummary


@dataclass(frozen=True, slots=True)
class StageSummary:
    """A stage that ended. ``completed`` is false for a failed or cancelled one."""

    job: str
    job_name: str
    stage: str
    name: str
    index: int
    tasks: int
    completed: bool
    ended_ms: int
    durations: DurationSummary


@dataclass(frozen=True, slots=True)
class JobSummary:
    """A job that ended as ``ended`` or ``idle``.

    A stage ends only when the slower twins of its copied tasks are gone, which may be after its job:
    ``stages`` are those still active whose tasks were all done. ``cut_short`` says that another one still
    had tasks to do.
    """

    job: str
    name: str
    marked: bool
    outcome: str
    started_ms: int
    ended_ms: int
    cut_short: bool
    stages: tuple[StageSummary, ...] = ()
