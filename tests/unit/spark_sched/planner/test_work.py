"""A cycle's work grows with the jobs that changed since the last one, not with all jobs."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from spark_sched.planner.log import make_log
from spark_sched.planner.loop import PlannerLoop
from spark_sched.planner.process import make_loop
from spark_sched.policies.base import JobPlan
from spark_sched.predict.runtimes.active import RuntimeHistory
from spark_sched.protocol.events import parse_batch
from spark_sched.state import mutable

#: Policies whose decision on a job follows from the job alone, so that it stays while the job does.
_BY_JOB = ["fifo", "priority", "reservation", "tuned-reservation", "fair", "priority-evictions"]


class Application:
    """A driver whose jobs each have one stage of three tasks and one of them running; all on one executor."""

    def __init__(self, policy: str, jobs: int) -> None:
        self._policy = policy
        self._version = self._now_ms = self._tasks = 0
        self.plan = ""
        self.loop: PlannerLoop = make_loop(self, make_log(io.StringIO()))  # type: ignore[arg-type]
        self._jobs = [f"j{number}" for number in range(jobs)]
        events = [self._event("executor_added", executor="e", host="h", slots=3 * jobs)]
        for number, job in enumerate(self._jobs):
            events += self._begin(job, number)
        self.tell(events, reset=True)

    def _begin(self, job: str, number: int) -> Iterator[dict[str, Any]]:
        # Every other one is unmarked, has no name that recurs, and is forecast by the runs of others.
        yield self._event(
            "job_started", job=job, name=f"n{number}" if number % 2 else job, priority=number % 3,
            copies=True, marked=True,
        )  # fmt: skip
        yield self._event(
            "stage_started", job=job, stage=f"{number}.0", name="p", index=0, tasks=3, last=True,
            barrier=False,
        )  # fmt: skip
        yield self._task(job, number, 0, "task_launched")

    def _task(self, job: str, number: int, index: int, kind: str, **more: Any) -> dict[str, Any]:
        return self._event(
            kind, job=job, stage=f"{number}.0", task=10 * number + index, index=index, executor="e",
            copy=False, **more,
        )  # fmt: skip

    def run_of_another_name(self) -> None:
        """A job comes, runs and ends: all learn of its run."""
        job, number = "short", 10**6
        events = [*self._begin(job, number)]
        for index in range(3):
            events += [self._task(job, number, index, "task_launched")] if index else []
            events.append(self._task(job, number, index, "task_ended", duration_ms=5, outcome="success"))
        events.append(self._event("stage_ended", job=job, stage=f"{number}.0", completed=True))
        events.append(self._event("job_ended", job=job, outcome="ended"))
        self.tell(events)

    def change(self, jobs: int) -> None:
        """A task of each of some jobs ends and another one starts."""
        step = len(self._jobs) // jobs
        events = []
        for number in range(0, step * jobs, step):
            job = self._jobs[number]
            events.append(self._task(job, number, 0, "task_ended", duration_ms=5, outcome="success"))
            events.append(self._task(job, number, 1, "task_launched"))
        self.tell(events)

    def tell(self, events: list[dict[str, Any]], *, reset: bool = False) -> None:
        self._version += len(events)
        head = {"schema": 1, "version": self._version, "reset": reset, "dropped": 0, "now_ms": self._now_ms}
        self.loop._take(parse_batch(json.dumps({**head, "events": events})))
        self.loop._plan()
        assert self.loop.counters.plans_failed == 0
        assert not self.loop.state.ignored

    def _event(self, kind: str, **fields: Any) -> dict[str, Any]:
        return {"type": kind, "time_ms": self._now_ms, **fields}

    # ---- as a Driver ----

    def config(self) -> str:
        return json.dumps({"spark.sched.planner.policy": self._policy})

    def submit_plan(self, text: str) -> str:
        self.plan = text
        return "accepted"

    def settings_taken(self) -> None: ...

    def policies_known(self, names: list[str]) -> None: ...


@pytest.fixture
def count(monkeypatch: pytest.MonkeyPatch) -> Callable[[], dict[str, int]]:
    """What was made since the last call."""
    made: dict[str, int] = {}

    def counted(owner: type, method: str, what: str) -> None:
        inner = getattr(owner, method)

        def outer(*given: Any, **named: Any) -> Any:
            made[what] = made.get(what, 0) + 1
            return inner(*given, **named)

        monkeypatch.setattr(owner, method, outer)

    counted(mutable.JobState, "view", "job views")
    counted(mutable.StageState, "view", "stage views")
    counted(mutable.ExecutorState, "view", "executor views")
    counted(RuntimeHistory, "forecast", "forecasts")
    counted(JobPlan, "__init__", "entries")

    def take() -> dict[str, int]:
        found = dict(made)
        made.clear()
        return found

    return take


@pytest.mark.parametrize("policy", _BY_JOB)
def test_work_grows_with_the_jobs_that_changed(policy: str, count: Callable[[], dict[str, int]]) -> None:
    found = []
    for jobs in (50, 200):
        application = Application(policy, jobs)
        # The first run that ends is news for all jobs, and later ones are not.
        application.run_of_another_name()
        texts = application.loop._plans.texts
        count()
        written = texts.made
        application.change(10)
        made = count()
        found.append({**made, "texts": texts.made - written})
        assert made["job views"] == made["stage views"] == made["forecasts"] == 10
        assert made["executor views"] == 1
        application.run_of_another_name()
        assert "forecasts" not in count()
    assert found[0] == found[1]


@pytest.mark.parametrize("policy", ["las", "uwfq", "slearn", "3sigma"])
def test_views_and_forecasts_are_made_of_jobs_that_changed(
    policy: str, count: Callable[[], dict[str, int]]
) -> None:
    application = Application(policy, 100)
    application.run_of_another_name()
    count()
    application.change(10)
    made = count()
    assert made["job views"] == made["forecasts"] == 10
