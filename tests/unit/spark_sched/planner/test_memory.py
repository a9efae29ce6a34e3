"""A planner that runs for months: what it remembers has bounds, under every policy."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import pytest

from spark_sched.planner import process as planner
from spark_sched.planner.log import make_log
from spark_sched.planner.loop import PlannerLoop
from spark_sched.policies import available, kind_of
from spark_sched.policies.slearn import gs
from spark_sched.predict import build
from spark_sched.predict.runtimes import active, predictor
from spark_sched.predict.stages import history
from spark_sched.predict.tasks import fading, pilots, speeds
from spark_sched.predict.tasks import history as task_history
from spark_sched.state import cluster

#: Options that fit the policies to jobs of seconds.
_SMALL = {"firstStep": "1s", "window": "1min"}
#: In place of thousands.
FEW = 30


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, bound in (
        (fading, "KINDS_KEPT"),
        (speeds, "EXECUTORS_KEPT"),
        (pilots, "STAGES_KEPT"),
        (task_history, "STAGES_LEARNED"),
        (history, "NAMES_KEPT"),
        (history, "MAX_STAGES"),
        (predictor, "LIVE_VALUES_KEPT"),
        (active, "LIVE_VALUES_KEPT"),
        (build, "LIVE_VALUES_KEPT"),
        (gs, "_COUNTED_KEPT"),
        (cluster, "ENDED_KEPT"),
        (cluster, "LATEST_KEPT"),
    ):
        monkeypatch.setattr(module, bound, FEW)


class Story:
    """A driver's side of an application on four slots, told batch by batch."""

    def __init__(self, policy: str) -> None:
        self._policy = policy
        self._events: list[dict[str, Any]] = []
        self._tasks = count()
        self._version = 0
        self._now_ms = 1_000_000
        self._say("executor_added", executor="0", host="a", slots=4)

    def short_jobs(self, jobs: int) -> Iterator[None]:
        """Each of a name and on an executor of its own; the executor is lost before the stage is over."""
        for number in range(jobs):
            job, executor = f"mark-{self._version}", f"e{self._version}"
            self._say("executor_added", executor=executor, host="b", slots=4)
            self._start(job, f"once-{number}-{self._version}", f"user-{self._version}")
            self._stage(job, 0, executor)
            self._say("job_ended", job=job, outcome="ended")
            yield

    def stream(self, stages: int, first: int) -> Iterator[None]:
        """One job that never ends; each batch is a stage with an index of its own."""
        if not first:
            self._start("stream", "stream", "root")
        for index in range(first, first + stages):
            self._stage("stream", index, "0")
            yield

    def _start(self, job: str, name: str, user: str) -> None:
        self._say(
            "job_started", job=job, name=name, user=user, priority=0, isolation=None, deadline_ms=None,
            copies=True, marked=True, **{"class": None},
        )  # fmt: skip

    def _stage(self, job: str, index: int, executor: str) -> None:
        key = f"{self._version}.0"
        self._say(
            "stage_started", job=job, stage=key, name="count", index=index, tasks=4, next_tasks=None,
            last=False, barrier=False,
        )  # fmt: skip
        for task in range(4):
            where = executor if task % 2 else "0"
            numbers = {"job": job, "stage": key, "task": next(self._tasks), "index": task, "executor": where}
            self._say("task_launched", **numbers, copy=False)
            self._now_ms += 50 + 10 * task
            self._say("task_ended", **numbers, duration_ms=50, outcome="success", copy=False)
        if executor != "0":
            self._say("executor_removed", executor=executor, reason="lost")
        self._say("stage_ended", job=job, stage=key, completed=True)

    def _say(self, kind: str, **fields: Any) -> None:
        self._version += 1
        self._events.append({"type": kind, "time_ms": self._now_ms, **fields})

    # ---- as a Driver ----

    def config(self) -> str:
        settings = {"planner.policy": self._policy, "planner.interval": "1ms"}
        for option in kind_of(self._policy).options.declared:
            if option.name in _SMALL:
                settings[f"policy.{self._policy}.{option.name}"] = _SMALL[option.name]
        return json.dumps({f"spark.sched.{key}": value for key, value in settings.items()})

    def policies_known(self, names: Sequence[str]) -> None: ...

    def settings_taken(self) -> None:
        pass

    def poll(self, max_events: int, timeout_ms: int) -> str:
        events, self._events = self._events, []
        batch = {"schema": 1, "version": self._version, "reset": False, "dropped": 0, "now_ms": self._now_ms}
        return json.dumps({**batch, "events": events})

    def submit_plan(self, text: str) -> str:
        return "accepted"

    def questions(self) -> str:
        return "[]"

    def answer(self, number: int, text: str) -> None:
        raise AssertionError("nobody asks")

    def alive(self) -> None:
        pass

    def stored_up_to(self, version: int, abandoned: int) -> None:
        pass


def entries(root: object) -> int:
    """Elements of all collections that can be reached from an object."""
    total, seen, waiting = 0, set[int](), [root]
    while waiting:
        value = waiting.pop()
        if id(value) in seen or isinstance(value, (type, ModuleType, FunctionType, MethodType, str, bytes)):
            continue
        seen.add(id(value))
        if isinstance(value, np.ndarray):
            total += value.size
        elif isinstance(value, Mapping):
            total += len(value)
            waiting += [*value.keys(), *value.values()]
        elif isinstance(value, (list, tuple, set, frozenset)) or type(value).__name__ == "deque":
            total += len(value)  # type: ignore[arg-type]
            waiting += value  # type: ignore[operator]
        slots = (name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ()))
        waiting += [getattr(value, name) for name in slots if hasattr(value, name)]
        waiting += getattr(value, "__dict__", {}).values()
    return total


def cycle(loop: PlannerLoop, story: Story, told: Iterator[None]) -> None:
    for _ in told:
        loop.cycle()


@pytest.mark.parametrize("policy", available())
def test_short_jobs_of_ever_new_names_and_users_leave_nothing(policy: str) -> None:
    story = Story(policy)
    loop = planner.make_loop(story, make_log(io.StringIO()))
    cycle(loop, story, story.short_jobs(450))  # the adaptive ratio keeps up to 101 scores of each
    before = entries(loop)
    cycle(loop, story, story.short_jobs(300))
    assert loop.counters.plans_failed == 0
    assert entries(loop) - before < 300


@pytest.mark.parametrize("policy", available())
def test_batches_of_a_stream_leave_nothing(policy: str) -> None:
    story = Story(policy)
    loop = planner.make_loop(story, make_log(io.StringIO()))
    cycle(loop, story, story.stream(150, 0))
    before = entries(loop)
    cycle(loop, story, story.stream(150, 150))
    assert loop.counters.plans_failed == 0
    assert entries(loop) - before < 150
