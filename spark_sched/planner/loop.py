"""The planner's main loop. Its clock, its generator and its connection to the driver are arguments."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from spark_sched.errors import BadInputError
from spark_sched.planner.keeper import Keeper, Learning
from spark_sched.planner.log import Throttle
from spark_sched.planner.outlook import Outlook
from spark_sched.planner.pace import Pace
from spark_sched.planner.recorder import EventRecorder
from spark_sched.planner.transport import Driver
from spark_sched.policies import ChangesWith, JobForecast, Plan, Policy
from spark_sched.policies.budget import Budget
from spark_sched.predict import Forecast, ForecastCache, Predictor
from spark_sched.protocol.events import (
    Batch,
    Event,
    JobEnded,
    ShortTasks,
    SlotFreed,
    SlotHeld,
    TaskEnded,
    TaskLaunched,
    decode_batch,
    parse_batch,
)
from spark_sched.protocol.plan import PlanTexts
from spark_sched.state import ClusterState, Snapshot

#: Answers a question about a snapshot with its forecasts at a time of the driver's clock (ms), given what the
#: policy remembers.
Answer: TypeAlias = Callable[[str, Snapshot, Mapping[str, Forecast], int, Any], Mapping[str, Any]]

#: Events taken at once: some 20 ms of work.
MAX_EVENTS = 2_000
#: Longest wait for events. The driver restarts a planner that is silent for longer than stallTimeout.
MAX_POLL_MS = 1_000
#: A plan that took so many times its budget is slow: by default 3 s of the 10 s of stallTimeout.
_SLOW = 3.0
_OF_TASKS = frozenset((TaskLaunched, TaskEnded, ShortTasks, SlotHeld, SlotFreed))


@dataclass(slots=True)
class PlannerCounters:
    """The planner's counters; rejected plans are counted by the code of the driver's answer."""

    batches: int = 0
    resets: int = 0
    events: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    plans_accepted: int = 0
    plans_rejected: Counter[str] = field(default_factory=Counter)
    plans_unchanged: int = 0
    plans_failed: int = 0
    plans_slow: int = 0


@dataclass(slots=True)
class _Plans:
    """State after the plans so far: how many were sent, the policy's memory, and the plan in force."""

    sent: int = 0
    memory: Any = None
    in_force: Plan | None = None
    texts: PlanTexts = field(default_factory=PlanTexts)


class PlannerLoop:
    """Polls events, keeps the state and sends plans. One thread; ``cycle`` is one turn.

    A plan is made at most once per interval, when an event occurred that the policy's plans depend on (its
    `Capabilities`), or when the last plan asked for it (``again_ms``). It is sent when its rules differ from
    those in force, again before those expire, and once a second while jobs come, begin and end, for the
    forecasts that it carries. If the driver refuses the plan or the policy fails, the loop counts and logs
    this and tries again in the next interval. Meanwhile the driver uses the last valid rules, then its
    configuration.

    Args:
        interval_ms: least time between two plans.
        validity_ms: how long the policy's plans are valid.
        clock_ms: a monotonic clock in milliseconds.
        budget: the time for one decision, which the policy was given, too; much longer ones are logged.
        recorder: records every event, if given.
        answer: answers a user's question in JSON text; None: questions get no answer.
        keeper: stores what is learned; None: nothing is kept beyond this process.
    """

    def __init__(
        self,
        driver: Driver,
        policy: Policy,
        predictor: Predictor,
        rng: np.random.Generator,
        *,
        interval_ms: float,
        validity_ms: float,
        clock_ms: Callable[[], float],
        sleep_ms: Callable[[float], None],
        log: logging.Logger,
        outlook: Outlook | None = None,
        budget: Budget | None = None,
        recorder: EventRecorder | None = None,
        answer: Answer | None = None,
        keeper: Keeper | None = None,
    ) -> None:
        self.counters = PlannerCounters()
        self.state = ClusterState()
        self._driver = driver
        self._policy = policy
        self._forecasts = ForecastCache(predictor)
        self._rng = rng
        # Three tries before the rules in force expire.
        self._pace = Pace(interval_ms, max(interval_ms, validity_ms / 3.0), clock_ms, sleep_ms)
        self._log = log
        self._recorder = recorder
        self._answer = answer
        self._learning = Learning(keeper)
        self._throttle = Throttle()
        self._budget = Budget() if budget is None else budget
        self._outlook = Outlook(clock_ms) if outlook is None else outlook
        self._plans = _Plans(memory=self._learning.recall(policy, log))

    def run(self) -> None:
        """Run cycles until the driver stops, and report to it when everything is stored.

        Raises DriverLostError if the driver ends before that, BadInputError for a bad batch.
        """
        while self.cycle():
            pass
        self._learning.keeper.close()
        self._driver.stored_up_to(self.state.version, self._learning.keeper.given_up)
        self._driver.stored()

    def cycle(self) -> bool:
        """One turn; false: it was the last one."""
        # 1. Poll, no longer than until the next plan is due.
        wait_ms = min(float(MAX_POLL_MS), max(0.0, self._pace.left_ms()))
        text = self._driver.poll(MAX_EVENTS, int(wait_ms))
        self._pace.heard()
        # 2. Check and apply. A bad batch ends the planner: the next one starts from the whole state.
        raw = parse_batch(text)
        batch = self._take(raw)
        self._learning.keeper.try_again()
        if raw.get("stopping") is True:
            return False  # the driver is gone
        if self._learning.reportable():
            self._driver.stored_up_to(self.state.version, self._learning.keeper.given_up)
        if raw.get("asked") is True:
            self._answer_questions()
        # 3. Snapshot, forecast, decide and submit, at most every interval.
        if self._pace.left_ms() <= 0.0:
            self._plan()
        # 4. Let events gather. Without a pause a busy driver would be polled once per event.
        if (self._pace.changed or batch.events) and len(batch.events) < MAX_EVENTS:
            self._pace.let_events_gather()
        return True

    def _take(self, raw: Any) -> Batch:
        batch = decode_batch(raw)
        counters, predictor = self.counters, self._forecasts.predictor
        counters.batches += 1
        counters.events += len(batch.events)
        for kind, times in batch.skipped.items():
            counters.skipped[kind] += times
            if seen := self._throttle(f"skipped {kind}"):
                self._log.warning(
                    "events of type %r are unknown here and skipped (seen %d times)", kind, seen
                )
        if self._recorder is not None:
            self._recorder.record(raw)
        if batch.reset:
            counters.resets += 1
            predictor.reset()
            self._outlook.clear()
        learned_before = self._learning.learned_before(batch)
        for event, ended, before in zip(
            batch.events, self.state.apply_batch(batch), learned_before, strict=True
        ):
            if before:
                continue
            predictor.observe(event)
            if ended is not None:
                predictor.learn(ended)
                self._outlook.learn(ended)
            if isinstance(event, JobEnded):
                self._learning.job_ended(event)
        if batch.reset or self._matter(batch.events):
            self._pace.changed = True
        return batch

    def _matter(self, events: Sequence[Event]) -> bool:
        """Whether the policy's plans can depend on one of these events."""
        if self._policy.capabilities.changes_with > ChangesWith.STAGES:
            return bool(events)
        return not _OF_TASKS.issuperset(map(type, events))

    def _now_ms(self) -> int:
        """The driver's clock."""
        return self.state.now_ms + self._pace.since_heard_ms()

    def _answer_questions(self) -> None:
        for each in json.loads(self._driver.questions()):
            try:
                if self._answer is None:
                    raise BadInputError("this planner answers no questions")
                snapshot = self.state.snapshot()
                known = self._forecasts.of(snapshot)
                text = json.dumps(
                    self._answer(each["text"], snapshot, known, self._now_ms(), self._plans.memory)
                )
            except Exception as error:  # A question must not end the planner.
                text = json.dumps({"error": str(error) or type(error).__name__})
                if not isinstance(error, BadInputError):
                    self._log.error("a question could not be answered", exc_info=error)
            self._driver.answer(each["id"], text)

    def _plan(self) -> None:
        now_ms = self._now_ms()
        self._pace.planned()
        try:
            snapshot = self.state.snapshot().to_plan()
            known = self._forecasts.of(snapshot)
            plan, memory = self._policy.decide(snapshot, known, now_ms, self._rng, self._plans.memory)
            self._note_slow(len(snapshot.jobs))
            forecasts_due_ms = float("inf")
            with self._for_people():
                self._outlook.see(snapshot)
                forecasts_due_ms = self._outlook.due_ms(snapshot)
            is_news = self._is_news(plan) or self._pace.planned_at_ms >= forecasts_due_ms
            text = self._text_of(plan, snapshot, known, now_ms) if is_news else None
            with self._for_people():
                forecasts_due_ms = self._outlook.due_ms(snapshot)
        except Exception as error:  # A policy's bug must not end the planner: the last rules stay in force.
            self._fail(error)
            return
        self._plans.memory = memory
        self._learning.remember(self._policy, memory)
        # Policies use the driver's clock.
        self._pace.again_at_ms = forecasts_due_ms
        if plan.again_ms is not None:
            asked_ms = self._pace.planned_at_ms + (plan.again_ms - now_ms)
            self._pace.again_at_ms = min(forecasts_due_ms, asked_ms)
        if text is None:
            self.counters.plans_unchanged += 1
            return
        self._plans.sent += 1
        answer = self._driver.submit_plan(text)
        self._pace.sent()
        if answer == "accepted":
            self.counters.plans_accepted += 1
            self._plans.in_force = plan
        else:
            self._plans.in_force = None
            self._refused(answer)

    def _text_of(self, plan: Plan, snapshot: Snapshot, known: Mapping[str, Forecast], now_ms: int) -> str:
        """The plan's text, with the fields that are only for people."""
        solve_ms = self._pace.since_planned_ms()
        ends: Mapping[str, JobForecast] = {}
        with self._for_people():
            ends = self._outlook.ends(snapshot, known, plan, now_ms)
        full = replace(plan, number=self._plans.sent + 1, solve_ms=solve_ms, forecasts=ends)
        return self._plans.texts.of(full)

    @contextmanager
    def _for_people(self) -> Iterator[None]:
        """Log an error in what is only for people: the plan's rules do not depend on it."""
        try:
            yield
        except Exception as error:
            if times := self._throttle(f"ends {type(error).__name__}"):
                self._log.error("no ends could be forecast (%d times)", times, exc_info=error)

    def _is_news(self, plan: Plan) -> bool:
        """Whether the driver needs the plan: its rules differ from those in force, or those expire soon."""
        old = self._plans.in_force
        if old is None or self._pace.refresh_is_due():
            return True
        return _rules(plan) != _rules(old)

    def _refused(self, answer: str) -> None:
        code = answer.removeprefix("rejected:").partition(":")[0].strip() or "no_reason"
        self.counters.plans_rejected[code] += 1
        # The next interval tries again even if nothing happens until then.
        self._pace.changed = True
        if times := self._throttle(f"rejected {code}"):
            self._log.warning(
                "plan %d was not taken: %s (%s: %d times)", self._plans.sent, answer, code, times
            )

    def _note_slow(self, jobs: int) -> None:
        """Say that the policy takes so long that the driver may soon believe that the planner hangs."""
        took_ms = self._pace.since_planned_ms()
        if took_ms <= _SLOW * self._budget.limit_ms:
            return
        self.counters.plans_slow += 1
        if times := self._throttle("slow"):
            self._log.warning(
                "policy %s took %.1f s to plan %d jobs (%d slow plans): the driver restarts a planner that "
                "is silent for spark.sched.planner.stallTimeout: raise it, or choose another policy",
                self._policy.name, took_ms / 1_000.0, jobs, times,
            )  # fmt: skip

    def _fail(self, error: Exception) -> None:
        self.counters.plans_failed += 1
        self._pace.sent()
        if times := self._throttle(f"failed {type(error).__name__}"):
            self._log.error(
                "policy %s failed (%d times), no plan this time", self._policy.name, times, exc_info=error
            )


def _rules(plan: Plan) -> tuple[object, ...]:
    """The rules that the driver applies."""
    return plan.jobs, plan.ordered, plan.policy, plan.new_jobs_wait, plan.queue_weights, plan.slowness
