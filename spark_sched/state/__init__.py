"""The cluster's state from events, and its immutable snapshots."""

from spark_sched.state.cluster import ClusterState, InvariantError, Summary
from spark_sched.state.mutable import DurationSums
from spark_sched.state.snapshot import (
    DurationSummary,
    EndedJob,
    ExecutorView,
    JobMarks,
    JobView,
    Preferred,
    RunningTask,
    Snapshot,
    StageView,
)
from spark_sched.state.summary import JobSummary, StageSummary

__all__ = [
    "ClusterState",
    "DurationSummary",
    "DurationSums",
    "EndedJob",
    "ExecutorView",
    "InvariantError",
    "JobMarks",
    "JobSummary",
    "JobView",
    "Preferred",
    "RunningTask",
    "Snapshot",
    "StageSummary",
    "StageView",
    "Summary",
]
