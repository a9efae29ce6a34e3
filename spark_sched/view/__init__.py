"""What people see of a live application: its status document, read and printed."""

from spark_sched.view.status import (
    Application,
    ClassStatus,
    EndForecast,
    ExecutorStatus,
    HeldFor,
    JobSlots,
    JobStatus,
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
    "JobSlots",
    "JobStatus",
    "PlanStatus",
    "PlannerStatus",
    "SlotTimes",
    "StageStatus",
    "Status",
    "StoryEntry",
]
