"""The status document of a live application, read and printed for people."""

from spark_sched.view.status import (
    Application,
    ClassStatus,
    EndForecast,
    ExecutorStatus,
    HeldFor,
    JobOrder,
    JobSlots,
    JobStatus,
    JobTimes,
    MarksInForce,
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
    "JobOrder",
    "JobSlots",
    "JobStatus",
    "JobTimes",
    "MarksInForce",
    "PlanStatus",
    "PlannerStatus",
    "SlotTimes",
    "StageStatus",
    "Status",
    "StoryEntry",
]
