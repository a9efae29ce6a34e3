"""Reservations with a tuned isolation level: a recurring job's P is set from its measured runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from spark_sched.config.values import ValueKind, number, whole
from spark_sched.errors import BadInputError
from spark_sched.policies.base import (
    Capabilities,
    ChangesWith,
    JobDecision,
    KeptEntries,
    PolicySettings,
    make_plan,
)
from spark_sched.policies.options import Option, Options, OptionValues
from spark_sched.policies.reservation.policy import ReservationPolicy
from spark_sched.policies.tuning.measures import HeldIdle, Measure, Slowdown
from spark_sched.policies.tuning.steps import Goal, StepRule, Tuned
from spark_sched.predict import UNKNOWN, Forecast
from spark_sched.protocol.plan import Plan
from spark_sched.state import JobView, Snapshot


def _or_empty(value: ValueKind[float]) -> ValueKind[float | None]:
    return ValueKind(
        value.unit, f"{value.wanted}, or empty", lambda text: value.parse(text) if text else None
    )


_LOSS = Option(
    "loss",
    _or_empty(number(0.001, 0.5)),
    "",
    "Goal: the mean share of a run's slot time in which its slots are held idle. P falls when runs exceed "
    "the goal, and rises when they stay below it. Empty: no such goal.",
)
_SLOWDOWN = Option(
    "slowdown",
    _or_empty(number(1.01, 100)),
    "",
    "Goal: the mean time of a run divided by its estimated time alone on the cluster. P rises when runs "
    "exceed the goal, and falls when they stay below it. Empty: no such goal. Without any goal no level "
    "changes.",
)
_LOWEST = Option("lowest", number(0, 1), "0", "P is never tuned below this.")
_HIGHEST = Option("highest", number(0, 1), "1", "P is never tuned above this.")
_STEP = Option(
    "step",
    number(0.01, 1),
    "0.1",
    "The first step of P. A step in the opposite direction is half as long as the one before, but at least "
    "a quarter of this.",
)
_RUNS = Option("runs", whole(1, 50), "5", "Least number of runs of a job between two steps of its P.")
_BAND = Option(
    "band",
    number(0, 0.9),
    "0.2",
    "P does not change while the mean of the runs may lie between the goal and (1 - band) times the goal "
    "(for `slowdown`, of their parts above 1).",
)

#: Recurring jobs whose levels are remembered, the latest ones.
JOBS_KEPT = 1_000


def _check(values: OptionValues) -> None:
    if values[_LOSS] is not None and values[_SLOWDOWN] is not None:
        raise BadInputError(
            f"{values.key(_LOSS)} and {values.key(_SLOWDOWN)} are both set: set one goal and leave the other "
            "out"
        )
    if values[_LOWEST] > values[_HIGHEST]:
        raise BadInputError(
            f"{values.key(_LOWEST)} is {values[_LOWEST]:g} but must not be above "
            f"{values.key(_HIGHEST)}, which is {values[_HIGHEST]:g}"
        )


#: A recurring job: its user and name.
_Key: TypeAlias = tuple[str | None, str]


@dataclass(frozen=True, slots=True)
class _ActiveRun:
    """An active run. It keeps the level with which it started, so that it is evidence for that level.

    Attributes:
        started_ms: start of the run, because keys may be used again.
        tuned: the state of the recurring job when the run started.
    """

    key: _Key
    started_ms: int
    tuned: Tuned
    measure: Measure


@dataclass(frozen=True, slots=True)
class Tuning:
    """Levels of recurring jobs by user and name, at most `JOBS_KEPT`, and active runs by the job's key."""

    jobs: Mapping[_Key, Tuned] = field(default_factory=lambda: MappingProxyType({}))
    runs: Mapping[str, _ActiveRun] = field(default_factory=lambda: MappingProxyType({}))


class TunedReservationPolicy:
    """As ``reservation``, with P of recurring jobs tuned towards a goal (options ``loss`` or ``slowdown``).

    Runs with the same user and name are runs of one job. The policy tunes jobs that hold slots because of
    their priority; a job that sets its own isolation level keeps it. A job starts with
    ``spark.sched.reservation.isolation``, within the bounds. Its level changes between runs, and only when
    the runs since the last change exclude the goal (`StepRule`). Runs that started with an earlier level do
    not count. The reason in each job's plan states the last change and the results of the runs since.
    """

    name = "tuned-reservation"
    capabilities = Capabilities(
        changes_with=ChangesWith.ROUNDS, marks=frozenset({"priority", "isolation"}), tunes_isolation=True
    )
    options = Options((_LOSS, _SLOWDOWN, _LOWEST, _HIGHEST, _STEP, _RUNS, _BAND), _check)

    def __init__(self, settings: PolicySettings) -> None:
        self._settings = settings
        self._reservation = ReservationPolicy(settings)
        self._kept = KeptEntries()
        self._rule, self._measure = _tuning(settings.options)

    def decide(
        self,
        snapshot: Snapshot,
        forecasts: Mapping[str, Forecast],
        now_ms: int,
        rng: np.random.Generator,
        memory: Tuning | None,
    ) -> tuple[Plan, Tuning]:
        tuning = Tuning() if self._rule is None else self._seen(memory or Tuning(), snapshot, self._rule)

        def decide_job(job: JobView) -> JobDecision:
            run = tuning.runs.get(job.job)
            level = None if run is None else run.tuned.level
            rule, reason = self._reservation.rule(job, forecasts.get(job.job, UNKNOWN), level)
            why = "" if run is None else f"; {run.tuned.why}"
            return job.marks.priority, rule, f"priority {job.marks.priority}: {reason}{why}"

        def basis(job: JobView) -> tuple[object, ...]:
            run = tuning.runs.get(job.job)
            return job.marks, forecasts.get(job.job, UNKNOWN), None if run is None else run.tuned

        plan = make_plan(
            self.name,
            self._settings,
            snapshot,
            now_ms,
            ordered=False,
            rank_by=lambda job: (-job.marks.priority, job.arrival),
            decide_job=decide_job,
            kept=self._kept,
            basis=basis,
        )
        return plan, tuning

    def lasting(self, memory: Tuning) -> Mapping[str, Any]:
        """The levels of recurring jobs, and the goal that they are tuned towards."""
        jobs = [[*key, *astuple(tuned)] for key, tuned in memory.jobs.items()]
        return {"goal": self._goal(), "jobs": jobs}

    def restored(self, lasting: Mapping[str, Any]) -> Tuning:
        """Without the levels of another goal."""
        if self._rule is None or lasting["goal"] != self._goal():
            return Tuning()
        jobs = {}
        for user, name, level, steps, step, values, stepped, why in lasting["jobs"][-JOBS_KEPT:]:
            counted = tuple(float(value) for value in values)
            # Its bounds may have changed.
            bounded = self._rule.start(float(level)).level
            jobs[user, name] = Tuned(bounded, int(steps), float(step), counted, str(stepped), str(why))
        return Tuning(MappingProxyType(jobs))

    def _goal(self) -> list[float | None]:
        options = self._settings.options
        return [options[_LOSS], options[_SLOWDOWN]]

    def _seen(self, before: Tuning, snapshot: Snapshot, rule: StepRule) -> Tuning:
        slots = snapshot.slots
        jobs, runs = dict(before.jobs), {}
        for key, run in before.runs.items():
            job, ended = snapshot.jobs.get(key), snapshot.ended.get(key)
            if job is not None and job.started_ms == run.started_ms:
                runs[key] = replace(run, measure=run.measure.at(job, snapshot.now_ms, slots))
                continue
            value = None if ended is None else run.measure.value(ended)
            tuned = jobs.get(run.key)
            if value is not None and tuned is not None and tuned.steps == run.tuned.steps:
                del jobs[run.key]  # the latest ones stand last
                jobs[run.key] = rule.after(tuned, value)
        for key, job in snapshot.jobs.items():
            if key not in runs and self._is_tuned(job):
                mine = (job.marks.user, job.marks.name)
                tuned = jobs.setdefault(mine, rule.start(self._settings.isolation))
                measure = self._measure.at(job, snapshot.now_ms, slots)
                runs[key] = _ActiveRun(mine, job.started_ms, tuned, measure)
        for oldest in list(jobs)[: max(0, len(jobs) - JOBS_KEPT)]:
            del jobs[oldest]
        return Tuning(MappingProxyType(jobs), MappingProxyType(runs))

    def _is_tuned(self, job: JobView) -> bool:
        settings = self._settings
        return (
            settings.reservation_enabled
            and bool(job.marks.name)
            and job.marks.isolation is None
            and job.marks.priority >= settings.min_priority
        )


def _tuning(options: OptionValues) -> tuple[StepRule | None, Measure]:
    """The rule for steps, None without a goal, and the measure of each run."""
    loss, slowdown = options[_LOSS], options[_SLOWDOWN]
    measure: Measure = HeldIdle()
    if loss is not None:
        text = "{mean:.1f} % ({low:.1f} to {high:.1f}) of its slot time held idle, goal {goal:g} %"
        goal = Goal(loss, 0.0, False, text, 100.0)
    elif slowdown is not None:
        goal = Goal(slowdown, 1.0, True, "slowdown {mean:.2f} ({low:.2f} to {high:.2f}), goal {goal:g}", 1.0)
        measure = Slowdown()
    else:
        return None, measure
    rule = StepRule(goal, options[_LOWEST], options[_HIGHEST], options[_STEP], options[_RUNS], options[_BAND])
    return rule, measure
