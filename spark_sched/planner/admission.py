"""What the plan would do with a job that has not come yet: chances of its deadline, and whom it would delay.

The policy itself is asked, with the job beside those that are there. The answer is the plan's: starts by
expected free slots, runtimes by history (3Sigma §3.2 and §4.3). Nothing is reserved by asking.
"""

from __future__ import annotations

import bisect
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from spark_sched.errors import BadInputError
from spark_sched.policies import Plan, Policy
from spark_sched.policies.three_sigma.jobs import runtime_of
from spark_sched.policies.three_sigma.policy import ThreeSigmaPolicy
from spark_sched.policies.three_sigma.present import ThreeSigmaMemory
from spark_sched.predict import Forecast, JobAttributes, RuntimeDistribution, RuntimeHistory
from spark_sched.state import DurationSummary, JobView, Snapshot, StageView

__all__ = ["Asked", "answer"]

#: The chance at which a deadline counts as one that would be met.
CONFIDENCE = 0.95
_KEY = "asked"


@dataclass(frozen=True, slots=True)
class Asked:
    """A job that may come: ``tasks`` of its widest stage, and its deadline in ms from now, if it has one."""

    name: str
    tasks: int
    deadline_ms: int | None
    user: str | None
    job_class: str | None
    priority: int

    @classmethod
    def from_text(cls, text: str) -> Asked:
        """From JSON. Raises BadInputError where a field is missing or wrong."""
        try:
            raw = json.loads(text)
            deadline = raw["deadline_ms"]
            asked = cls(
                str(raw["name"]),
                int(raw["tasks"]),
                None if deadline is None else int(deadline),
                raw["user"],
                raw["class"],
                int(raw["priority"]),
            )
        except (TypeError, ValueError, KeyError) as error:
            raise BadInputError(f"the question {text[:200]!r} cannot be read: {error}") from None
        if asked.tasks < 1:
            raise BadInputError(f"tasks is {asked.tasks} but must be a whole number from 1")
        if asked.deadline_ms is not None and asked.deadline_ms < 1:
            raise BadInputError(f"deadline is {asked.deadline_ms} ms from now but must lie in the future")
        return asked


def answer(
    policy: Policy,
    history: RuntimeHistory,
    snapshot: Snapshot,
    forecasts: Mapping[str, Forecast],
    now_ms: int,
    memory: Any,
    asked: Asked,
) -> dict[str, Any]:
    """The answer as a JSON object (see `spark_sched.api.admission.Admission`); times in s from now.

    ``memory`` is the policy's. Raises BadInputError for a policy that plans no starts.
    """
    if not isinstance(policy, ThreeSigmaPolicy):
        raise BadInputError(
            f"spark.sched.planner.policy is {policy.name!r}, which plans no start times: choose 3sigma "
            "to ask for admission"
        )
    forecast = history.foresee(
        JobAttributes(
            submit_s=now_ms / 1000.0,
            user=asked.user,
            name=asked.name,
            job_class=asked.job_class,
            priority=asked.priority,
            slots=asked.tasks,
        )
    )
    runtime = runtime_of(forecast, point=policy.options.point)
    question = _Question(policy, snapshot, forecasts, forecast, runtime, asked, now_ms, memory)
    before = question.plan_without()
    wait_s, plan = question.start_s(asked.deadline_ms)
    # Without history the policy plans with a runtime that fits every job: no figure for people.
    known = forecast.runtime is not None
    probability = None
    if known and asked.deadline_ms is not None:
        probability = 0.0 if wait_s is None else _chance(runtime, asked.deadline_ms / 1000.0 - wait_s)
    return {
        "probability": probability,
        "start_s": wait_s,
        "earliest_deadline_s": question.earliest_s() if known else None,
        "confidence": CONFIDENCE,
        "runtime_s": np.atleast_1d(runtime.quantile([0.5, CONFIDENCE])).tolist() if known else None,
        "runtime_source": forecast.runtime_source if known else "no history",
        "delays": _delays(snapshot, before, plan),
    }


class _Question:
    def __init__(
        self,
        policy: ThreeSigmaPolicy,
        snapshot: Snapshot,
        forecasts: Mapping[str, Forecast],
        forecast: Forecast,
        runtime: RuntimeDistribution,
        asked: Asked,
        now_ms: int,
        memory: ThreeSigmaMemory | None,
    ) -> None:
        self._policy = policy
        self._snapshot = snapshot
        self._forecasts = forecasts
        self._runtime = runtime
        self._with = {**forecasts, _KEY: forecast}
        self._view = _view(asked, now_ms, len(snapshot.jobs))
        self._now_ms = now_ms
        self._memory = memory

    def plan_without(self) -> Plan:
        return self._decide(self._snapshot, self._forecasts)

    def start_s(self, deadline_ms: int | None) -> tuple[float | None, Plan]:
        """When the job would start, in s from now (None: not in the window), and the plan with it."""
        deadline = None if deadline_ms is None else self._now_ms + deadline_ms
        view = replace(self._view, deadline_ms=deadline)
        jobs = MappingProxyType({**self._snapshot.jobs, _KEY: view})
        plan = self._decide(replace(self._snapshot, jobs=jobs), self._with)
        entry = next(entry for entry in plan.jobs if entry.job == _KEY)
        if entry.start_ms is None:
            return None, plan
        return max(0.0, (entry.start_ms - self._now_ms) / 1000.0), plan

    def earliest_s(self) -> float | None:
        """The earliest deadline that would be met with `CONFIDENCE`; None: by no start of the window.

        Candidates are the runtime's quantile after each start; one counts if the plan starts the job by then.
        """
        starts_s = self._policy.options.grid.starts_ms / 1000.0
        longest_s = float(self._runtime.quantile(CONFIDENCE))
        # In whole ms, and never below the quantile.
        deadlines_ms = [int(np.ceil((start + longest_s) * 1000.0)) for start in starts_s.tolist()]

        def met(number: int) -> bool:
            wait_s, _ = self.start_s(deadlines_ms[number])
            left_s = -1.0 if wait_s is None else deadlines_ms[number] / 1000.0 - wait_s
            return wait_s is not None and _chance(self._runtime, left_s) >= CONFIDENCE - 1e-6

        # A later deadline is no harder to meet.
        found = bisect.bisect_left(range(len(deadlines_ms)), True, key=met)
        return None if found == len(deadlines_ms) else deadlines_ms[found] / 1000.0

    def _decide(self, snapshot: Snapshot, forecasts: Mapping[str, Forecast]) -> Plan:
        rng = np.random.default_rng(0)
        plan, _ = self._policy.decide(snapshot, forecasts, self._now_ms, rng, self._memory)
        return plan


def _chance(runtime: RuntimeDistribution, within_s: float) -> float:
    return float(runtime.cdf(within_s)) if within_s >= 0.0 else 0.0


def _view(asked: Asked, now_ms: int, arrival: int) -> JobView:
    stage = StageView(
        stage=_KEY, name="", index=0, tasks=asked.tasks, next_tasks=None, last=False, barrier=False,
        started_ms=now_ms, finished=0, durations=DurationSummary(0, None, 0.0), running=(),
    )  # fmt: skip
    return JobView(
        job=_KEY, name=asked.name, user=asked.user, priority=asked.priority, isolation=None, deadline_ms=None,
        job_class=asked.job_class, copies=True, marked=True, started_ms=now_ms, arrival=arrival,
        stages=(stage,), held=MappingProxyType({}), running_slots=0,
    )  # fmt: skip


def _delays(snapshot: Snapshot, before: Plan, after: Plan) -> list[dict[str, Any]]:
    """Jobs that would start later, lose their start or be preempted because of the job."""
    found = []
    entries = {entry.job: entry for entry in after.jobs}
    for old in before.jobs:
        new = entries[old.job]
        delay: dict[str, Any] | None = None
        if new.evict and not old.evict:
            delay = {"how": "preempted", "by_s": None}
        elif old.start_ms is not None and new.start_ms is None:
            delay = {"how": "no start", "by_s": None}
        elif old.start_ms is not None and new.start_ms is not None and new.start_ms > old.start_ms:
            delay = {"how": "later", "by_s": (new.start_ms - old.start_ms) / 1000.0}
        if delay is not None:
            found.append({"job": old.job, "name": snapshot.jobs[old.job].name, **delay})
    return found
