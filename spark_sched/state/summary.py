"""What remains of a phase or a job when it ends: all that a predictor may learn from."""

from __future__ import annotations

from dataclasses import dataclass

from spark_sched.state.snapshot import DurationSummary

__all__ = ["JobSummary", "PhaseSummary"]


@dataclass(frozen=True, slots=True)
class PhaseSummary:
    """A phase that ended. ``completed`` is false for a failed or cancelled one."""

    job: str
    job_name: str
    phase: str
    name: str
    index: int
    tasks: int
    completed: bool
    ended_ms: int
    durations: DurationSummary


@dataclass(frozen=True, slots=True)
class JobSummary:
    """A job that ended as ``ended`` or ``idle``.

    A phase ends only when the slower twins of its copied tasks are gone, which may be after its job:
    ``phases`` are those still active whose tasks were all done. ``cut_short`` says that another one still
    had tasks to do.
    """

    job: str
    name: str
    marked: bool
    outcome: str
    started_ms: int
    ended_ms: int
    cut_short: bool
    phases: tuple[PhaseSummary, ...] = ()
