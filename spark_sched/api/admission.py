"""Admission: the planner's forecast for a job before it is submitted."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from spark_sched.api.attached import attached
from spark_sched.api.job import Deadline, deadline_length_ms
from spark_sched.errors import BadInputError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

#: Spark numbers the tasks of a stage with 32 bits.
_MOST_TASKS = 2**31 - 1


class PlannerSilentError(RuntimeError):
    """The planner did not answer in time: it is starting, busy or switched off."""


@dataclass(frozen=True, slots=True)
class Delay:
    """A job that would wait longer.

    Attributes:
        job: its id.
        name: its name.
        how: ``later``: it starts ``by_s`` seconds later; ``no start``: it no longer starts within the
            plan-ahead window; ``preempted``: its tasks are evicted.
        by_s: the delay in seconds; None unless ``how`` is ``later``.
    """

    job: str
    name: str
    how: Literal["later", "no start", "preempted"]
    by_s: float | None


@dataclass(frozen=True, slots=True)
class Admission:
    """The planner's forecast for the job in question. Times are in seconds from the question on.

    Attributes:
        probability: probability of meeting the deadline; None if no deadline was given, without history, or
            (if the policy plans no starts) behind more than a thousand jobs.
        start_s: when the job would start; None: not within the plan-ahead window, or the policy plans no
            starts (only ``3sigma`` and its variants plan them).
        earliest_deadline_s: the earliest deadline that the job meets with probability ``confidence``; None if
            no start in the window meets any deadline with that probability, without history, or (if the
            policy plans no starts) behind more than a thousand jobs.
        confidence: 0.95.
        runtime_s: median and 95 % quantile of the runtime; None while no job has ended.
        runtime_source: the history behind the runtime, or ``no history``.
        delays: jobs that would wait longer because of this one, as far as the policy plans starts.
    """

    probability: float | None
    start_s: float | None
    earliest_deadline_s: float | None
    confidence: float
    runtime_s: tuple[float, float] | None
    runtime_source: str
    delays: tuple[Delay, ...]

    def __str__(self) -> str:
        begins = "no planned start" if self.start_s is None else f"starts in {self.start_s:.0f} s"
        runs = "" if self.runtime_s is None else f"runs {self.runtime_s[0]:.0f} s "
        parts = [f"{begins}, {runs}({self.runtime_source})"]
        if self.probability is not None:
            parts.append(f"meets its deadline with probability {self.probability:.0%}")
        if self.earliest_deadline_s is not None:
            parts.append(
                f"a deadline of {self.earliest_deadline_s:.0f} s would be met with probability "
                f"{self.confidence:.0%}"
            )
        if self.delays:
            parts.append(f"delays {', '.join(delay.name for delay in self.delays)}")
        return "; ".join(parts)


def admission(
    spark: SparkSession | SparkContext,
    name: str,
    *,
    tasks: int,
    deadline: Deadline | None = None,
    user: str | None = None,
    job_class: str | None = None,
    priority: int = 0,
    timeout_s: float = 10.0,
) -> Admission:
    """Ask the planner how it would plan a job, before submitting it with `spark_sched.job`.

    The answer follows from the present plan, from history, and from the outcomes of earlier forecasts in the
    same situation. It reserves nothing: jobs that arrive later change the outcome.

    Args:
        spark: a session or context of this process (not Spark Connect), attached.
        name: as for `spark_sched.job`.
        tasks: tasks of the job's widest stage. The job takes that many slots, at most all of the cluster.
        deadline: when the job must end, as for `spark_sched.job`.
        user: as for `spark_sched.job`; by default the application's user.
        job_class: as for `spark_sched.job`.
        priority: as for `spark_sched.job`.
        timeout_s: how long to wait for the answer, in seconds.

    Raises:
        BadInputError: an argument is wrong, or the application is not attached.
        PlannerSilentError: the planner did not answer within ``timeout_s``.
    """
    _check(name, tasks, priority, timeout_s)
    deadline_ms = None if deadline is None else deadline_length_ms(deadline, int(time.time() * 1000))
    context, scheduler = attached(
        spark,
        connect="cannot ask the planner: ask where the driver runs",
        lacks="plans nothing",
    )
    question = json.dumps(
        {
            "ask": "admission",
            "name": name.strip(),
            "tasks": tasks,
            "deadline_ms": deadline_ms,
            "user": context.sparkUser() if user is None else user,
            "class": job_class,
            "priority": priority,
        }
    )
    text = scheduler.ask(context._jsc.sc(), question, int(timeout_s * 1000))
    if not text:
        raise PlannerSilentError(
            f"the planner did not answer within {timeout_s:g} s: it may be starting, busy or switched off "
            "(spark.sched.planner.enabled); ask again or raise timeout_s"
        )
    answer = json.loads(text)
    if "error" in answer:
        raise BadInputError(answer["error"])
    return Admission(
        answer["probability"],
        answer["start_s"],
        answer["earliest_deadline_s"],
        answer["confidence"],
        None if answer["runtime_s"] is None else (answer["runtime_s"][0], answer["runtime_s"][1]),
        answer["runtime_source"],
        tuple(Delay(each["job"], each["name"], each["how"], each["by_s"]) for each in answer["delays"]),
    )


def _check(name: str, tasks: int, priority: int, timeout_s: float) -> None:
    if isinstance(tasks, bool) or not isinstance(tasks, int) or not 1 <= tasks <= _MOST_TASKS:
        raise BadInputError(f"tasks is {tasks!r} but must be a whole number from 1 to {_MOST_TASKS}")
    if not isinstance(name, str) or not name.strip():
        raise BadInputError(f"name is {name!r} but must be text that is not empty")
    if isinstance(priority, bool) or not isinstance(priority, int):
        raise BadInputError(f"priority is {priority!r} but must be a whole number")
    if not isinstance(timeout_s, (int, float)) or not 0.0 < timeout_s < 1e6:
        raise BadInputError(f"timeout_s is {timeout_s!r} but must be a number of seconds above 0")
