"""Typed events from the driver, and their JSON."""

from spark_sched.events.codec import (
    EVENT_TYPES,
    SCHEMA,
    decode_batch,
    decode_event,
)
from spark_sched.events.kinds import (
    Batch,
    Event,
    ExecutorAdded,
    ExecutorRemoved,
    JobCancelled,
    JobChanged,
    JobEnded,
    JobStarted,
    SchedulingChanged,
    ShortTasks,
    SlotFreed,
    SlotHeld,
    StageEnded,
    StageStarted,
    TaskEnded,
    TaskLaunched,
)

__all__ = [
    "EVENT_TYPES",
    "SCHEMA",
    "Batch",
    "Event",
    "ExecutorAdded",
    "ExecutorRemoved",
    "JobCancelled",
    "JobChanged",
    "JobEnded",
    "JobStarted",
    "SchedulingChanged",
    "ShortTasks",
    "SlotFreed",
    "SlotHeld",
    "StageEnded",
    "StageStarted",
    "TaskEnded",
    "TaskLaunched",
    "decode_batch",
    "decode_event",
]
