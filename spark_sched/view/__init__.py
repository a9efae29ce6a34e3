"""The status document of a live application, read and printed for people."""

from spark_sched.view.status import (
    Application,
    ClassStatus,
    EndForecast,
    ExecutorStatus,
    HeldFor,
    JobMarks,
    JobOrder,
    JobSlots,
    JobStatus,
    JobTimes,
    PlannerStatus,
    PlanStatus,
    SlotTimes,
    StageStatus,
    Status,
    StoryEntry,
)

__all__ = [
    "Application",
    "ClassStatus",
    "EndForecast",
    "ExecutorStatus",
    "HeldFor",
    "JobMarks",
    "JobOrder",
    "JobSlots",
    "JobStatus",
    "JobTimes",
    "PlanStatus",
    "PlannerStatus",
    "SlotTimes",
    "StageStatus",
    "Status",
    "StoryEntry",
]
