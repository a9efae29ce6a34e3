"""Admission: the chance that a job not yet submitted meets its deadline, and the jobs that it would delay.

The policy makes a plan for the active jobs and the asked job together. The runtime comes from history. The
start comes from the plan if the policy plans starts (3Sigma §3.2 and §4.3). The end is corrected by the
errors of earlier forecasts, like the ends that the status shows for active jobs (`Outlook`). A query reserves
nothing.
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
from spark_sched.planner.outlook import Outlook
from spark_sched.policies import Plan, Policy
from spark_sched.policies.base import StartChooser
from spark_sched.predict import Forecast, JobAttributes, RuntimeDistribution, RuntimeHistory
from spark_sched.state import DurationSummary, JobMarks, JobView, Snapshot, StageView

#: The probability from which on a deadline counts as one that would be met.
CONFIDENCE = 0.95
#: Spark numbers the tasks of a stage with 32 bits.
_MOST_TASKS = 2**31 - 1
_KEY = "asked"


@dataclass(frozen=True, slots=True)
class Asked:
    """The job in question: ``tasks`` of its widest stage, and its deadline in ms from now, if any."""

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
        except (TypeError, ValueError, KeyError, OverflowError) as error:
            raise BadInputError(f"the question {text[:200]!r} cannot be read: {error}") from None
        if not 1 <= asked.tasks <= _MOST_TASKS:
            raise BadInputError(f"tasks is {asked.tasks} but must be a whole number from 1 to {_MOST_TASKS}")
        if asked.deadline_ms is not None and asked.deadline_ms < 1:
            raise BadInputError(f"deadline is {asked.deadline_ms} ms from now but must lie in the future")
        return asked


def answer(
    policy: Policy,
    history: RuntimeHistory,
    outlook: Outlook,
    snapshot: Snapshot,
    forecasts: Mapping[str, Forecast],
    now_ms: int,
    memory: Any,
    asked: Asked,
) -> dict[str, Any]:
    """The answer as a JSON object (see `spark_sched.api.admission.Admission`); times in s from now.

    ``memory`` is the policy's.
    """
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
    question = _Question(policy, outlook, snapshot, forecasts, forecast, asked, now_ms, memory)
    before = question.plan_without()
    case = question.case(asked.deadline_ms)
    runtime = forecast.runtime
    probability = None
    if case.end is not None and asked.deadline_ms is not None:
        probability = _chance(case, asked.deadline_ms / 1000.0)
    return {
        "probability": probability,
        "start_s": case.start_s,
        "earliest_deadline_s": question.earliest_s(),
        "confidence": CONFIDENCE,
        "runtime_s": None if runtime is None else np.atleast_1d(runtime.quantile([0.5, CONFIDENCE])).tolist(),
        "runtime_source": "no history" if runtime is None else forecast.runtime_source,
        "delays": _delays(snapshot, before, case.plan),
    }


@dataclass(frozen=True, slots=True)
class _Case:
    """The hypothetical plan with the job.

    Attributes:
        snapshot, plan: with it.
        start_s: in s from now; None: not in the window, or the policy plans no starts.
        end: seconds from now; None: unknown, or not in the window.
    """

    snapshot: Snapshot
    plan: Plan
    start_s: float | None
    end: RuntimeDistribution | None


@dataclass(frozen=True, slots=True)
class _Question:
    policy: Policy
    outlook: Outlook
    snapshot: Snapshot
    forecasts: Mapping[str, Forecast]
    forecast: Forecast
    asked: Asked
    now_ms: int
    memory: Any

    @property
    def starts_s(self) -> list[float] | None:
        """Starts from which the policy chooses; None: it plans no starts."""
        if not isinstance(self.policy, StartChooser):
            return None
        starts_s: list[float] = (self.policy.starts_ms(self.memory, self.snapshot.version) / 1000.0).tolist()
        return starts_s

    def plan_without(self) -> Plan:
        return self._decide(self.snapshot, self.forecasts)

    def case(self, deadline_ms: int | None) -> _Case:
        """The hypothetical plan with this deadline, in ms from now."""
        deadline = None if deadline_ms is None else self.now_ms + deadline_ms
        # After all present jobs: arrival ranks count ended jobs, too.
        arrival = 1 + max((view.arrival for view in self.snapshot.jobs.values()), default=-1)
        view = _view(self.asked, deadline, self.now_ms, arrival)
        snapshot = replace(self.snapshot, jobs=MappingProxyType({**self.snapshot.jobs, _KEY: view}))
        plan = self._decide(snapshot, {**self.forecasts, _KEY: self.forecast})
        start_ms = next(entry.start_ms for entry in plan.jobs if entry.job == _KEY)
        start_s = None if start_ms is None else max(0.0, (start_ms - self.now_ms) / 1000.0)
        reached = start_s is not None or self.starts_s is None
        return _Case(snapshot, plan, start_s, self._end(snapshot, plan, start_s or 0.0) if reached else None)

    def earliest_s(self) -> float | None:
        """The earliest deadline that would be met with `CONFIDENCE`; None: no start in the window
        meets any deadline, or the runtime is unknown.

        Candidates are the end's quantiles after each start; a candidate counts if the plan starts the job by
        that start.
        """
        case = self.case(None)
        starts_s = self.starts_s
        at_once = case.end if starts_s is None else self._end(case.snapshot, case.plan, 0.0)
        if at_once is None:
            return None
        longest_s = float(at_once.quantile(CONFIDENCE))
        if starts_s is None:
            return longest_s
        # In whole ms, and never below the quantile.
        deadlines_ms = [int(np.ceil((start + longest_s) * 1000.0)) for start in starts_s]

        def met(number: int) -> bool:
            case = self.case(deadlines_ms[number])
            return _chance(case, deadlines_ms[number] / 1000.0) >= CONFIDENCE - 1e-6

        # A later deadline is never harder to meet.
        found = bisect.bisect_left(range(len(deadlines_ms)), True, key=met)
        return None if found == len(deadlines_ms) else deadlines_ms[found] / 1000.0

    def _end(self, snapshot: Snapshot, plan: Plan, wait_s: float) -> RuntimeDistribution | None:
        # Not the runtime that policies plan with: without history that is a default, and for some policies a
        # single number.
        known = {**self.forecasts, _KEY: self.forecast}
        given = None
        if self.starts_s is not None:
            if self.forecast.runtime is None:
                return None
            given = self.forecast.runtime.later(wait_s)
        return self.outlook.of_newcomer(_KEY, snapshot, known, plan, self.now_ms, given)

    def _decide(self, snapshot: Snapshot, forecasts: Mapping[str, Forecast]) -> Plan:
        rng = np.random.default_rng(0)
        plan, _ = self.policy.decide(snapshot, forecasts, self.now_ms, rng, self.memory)
        return plan


def _chance(case: _Case, within_s: float) -> float:
    return 0.0 if case.end is None else float(case.end.cdf(within_s))


def _view(asked: Asked, deadline_ms: int | None, now_ms: int, arrival: int) -> JobView:
    stage = StageView(
        stage=_KEY, name="", index=0, tasks=asked.tasks, next_tasks=None, last=False, barrier=False,
        started_ms=now_ms, finished=0, durations=DurationSummary(0, None, 0.0), running=(),
    )  # fmt: skip
    marks = JobMarks(
        name=asked.name, user=asked.user, priority=asked.priority, isolation=None, deadline_ms=deadline_ms,
        job_class=asked.job_class, copies=True, marked=True,
    )  # fmt: skip
    return JobView(
        job=_KEY, marks=marks, started_ms=now_ms, arrival=arrival, stages=(stage,), held=MappingProxyType({}),
        running_slots=0,
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
            found.append({"job": old.job, "name": snapshot.jobs[old.job].marks.name, **delay})
    return found
