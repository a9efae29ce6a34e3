"""The cluster's state from events, and its immutable snapshots."""

from spark_sched.state.cluster import ClusterState, InvariantError, Summary
from spark_sched.state.snapshot import (
    DurationSummary,
    ExecutorView,
    JobView,
    PhaseView,
    RunningTask,
    Snapshot,
)
from spark_sched.state.summary import JobSummary, PhaseSummary

__all__ = [
    "ClusterState",
    "DurationSummary",
    "ExecutorView",
    "InvariantError",
    "JobSummary",
    "JobView",
    "PhaseSummary",
    "PhaseView",
    "RunningTask",
    "Snapshot",
    "Summary",
]
