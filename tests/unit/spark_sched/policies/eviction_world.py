"""A cluster whose tasks the policy ``priority-evictions`` may evict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from spark_sched.config import validate
from spark_sched.policies import Plan, PolicySettings, create
from spark_sched.predict import Forecast
from spark_sched.predict.tasks.pilots import StageTimes, TaskForecast
from spark_sched.protocol.events import (
    ExecutorAdded,
    JobStarted,
    StageStarted,
    TaskEnded,
    TaskLaunched,
)
from spark_sched.state import ClusterState


class World:
    """Four slots; task n of a low-priority job starts at its n-th time."""

    def __init__(
        self, *launched_ms: int, slots: int = 4, restartable: bool = True, evictions: int = 0
    ) -> None:
        self.state = ClusterState()
        self.state.apply(ExecutorAdded(0, "e", "h", slots))
        self.job("low", 0, tasks=10, restartable=restartable)
        for task, at_ms in enumerate(launched_ms):
            self.launch("low", task, at_ms, evictions)

    def job(self, key: str, priority: int, tasks: int, **more: Any) -> None:
        self.state.apply(JobStarted(0, key, key, None, priority, None, None, None, True, True))
        self.state.apply(StageStarted(0, key, f"{key}.0", "s", 0, tasks, None, True, False, **more))

    def launch(self, key: str, task: int, at_ms: int, evictions: int = 0) -> None:
        self.state.apply(TaskLaunched(at_ms, key, f"{key}.0", task, task, "e", False, evictions))

    def end(
        self, key: str, task: int, at_ms: int, outcome: str = "killed", evicted_for: str | None = None
    ) -> None:
        self.state.apply(
            TaskEnded(at_ms, key, f"{key}.0", task, task, "e", at_ms, outcome, False, evicted_for)
        )

    def plan(
        self,
        now_ms: int,
        forecasts: Mapping[str, Forecast] | None = None,
        memory: Any = None,
        **options: str,
    ) -> tuple[Plan, Any]:
        given = {f"spark.sched.policy.priority-evictions.{name}": text for name, text in options.items()}
        policy = create("priority-evictions", PolicySettings.from_config(validate(given)))
        snapshot = self.state.snapshot()
        return policy.decide(snapshot, forecasts or {}, now_ms, np.random.default_rng(1), memory)

    def victims(
        self, now_ms: int, forecasts: Mapping[str, Forecast] | None = None, **options: str
    ) -> list[int]:
        plan, _ = self.plan(now_ms, forecasts, **options)
        return [task for entry in plan.jobs for task in entry.victims]


def siblings(*ended_ms: int) -> dict[str, Forecast]:
    """The low-priority job's tasks that ended took these times."""
    return {"low": TaskForecast(times={0: StageTimes(dict(enumerate(ended_ms, 100)), frozenset())})}
