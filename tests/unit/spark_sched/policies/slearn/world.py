"""One policy and what it sees, for tests that tell it what happened event by event."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from spark_sched.config import validate
from spark_sched.policies import JobPlan, PilotSet, Plan, PolicySettings, create
from spark_sched.predict import Forecast, forecasts
from spark_sched.predict.tasks.history import TaskHistory
from spark_sched.predict.tasks.pilots import TaskTimePredictor
from spark_sched.protocol.events import (
    Event,
    ExecutorAdded,
    JobStarted,
    StageStarted,
    TaskEnded,
    TaskLaunched,
)
from spark_sched.state import ClusterState, Snapshot

SETTINGS = PolicySettings.from_config(validate({}))


class World:
    """One policy, the state and the predictor that it sees; a plan is asked for at each instant. Queues are
    the paper's."""

    def __init__(self, policy: str = "slearn", history: TaskHistory | None = None) -> None:
        named = validate({f"spark.sched.policy.{policy}.firstQueue": "1000s"})
        self.policy = create(policy, PolicySettings.from_config(named))
        self.state = ClusterState()
        self.times = TaskTimePredictor(None, history)
        self.rng = np.random.default_rng(1)
        self.now = 0
        self.memory: Any = None
        self._numbers = 0
        self.tell(ExecutorAdded(0, "e", "h", 100))

    def tell(self, *events: Event) -> None:
        for event in events:
            ended = self.state.apply(event)
            self.times.observe(event)
            if ended is not None:
                self.times.learn(ended)
            self.state.version += 1

    def job(self, key: str, tasks: int, name: str = "n", slots_per_task: int = 1) -> None:
        self.tell(
            JobStarted(self.now, key, name, "u", 0, None, None, None, True, False),
            StageStarted(
                self.now, key, f"{key}.0", "p", 0, tasks, None, True, False, slots_per_task=slots_per_task
            ),
        )

    def run(
        self, key: str, index: int, ms: int, outcome: str = "success", copy: bool = False, stage: int = 0
    ) -> None:
        self._numbers += 1
        where = key, f"{key}.{stage}", self._numbers, index, "e"
        self.tell(TaskLaunched(self.now, *where, copy), TaskEnded(self.now + ms, *where, ms, outcome, copy))

    def plan(self) -> Plan:
        snapshot = self.state.snapshot()
        return self.decide(snapshot, forecasts(self.times, snapshot))

    def decide(self, snapshot: Snapshot, known: Mapping[str, Forecast]) -> Plan:
        plan, self.memory = self.policy.decide(snapshot, known, self.now, self.rng, self.memory)
        return plan

    def of(self, key: str) -> JobPlan:
        return next(entry for entry in self.plan().jobs if entry.job == key)

    def pilots(self, key: str) -> PilotSet:
        found = self.of(key).pilots
        assert found is not None
        return found
