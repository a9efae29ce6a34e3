"""Forecasts that are kept are those that would be made, whatever happens in between."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_sched.config import validate
from spark_sched.predict import Forecast, ForecastCache, Predictor, RuntimeDistribution, forecasts
from spark_sched.predict.build import build_live
from spark_sched.predict.stages import history
from spark_sched.predict.stages.earlier_runs import LatestRuns
from spark_sched.protocol.events import (
    Event,
    ExecutorAdded,
    ExecutorRemoved,
    JobEnded,
    JobStarted,
    ShortTasks,
    StageEnded,
    StageStarted,
    TaskEnded,
    TaskLaunched,
)
from spark_sched.state import ClusterState


class Story:
    """Random lives of jobs on three executors, one of them slower than the others."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._jobs: dict[str, dict[str, list[int]]] = {}  # tasks that have not ended, by stage
        self._stages_begun: dict[str, int] = {}
        self._running: list[TaskLaunched] = []
        self._number = self._now_ms = 0

    def events(self, steps: int) -> Iterator[Event]:
        for executor in ("quick", "slow", "lost"):
            yield ExecutorAdded(0, executor, "h", 100)
        yield ExecutorRemoved(0, "lost", "gone")
        for _ in range(steps):
            self._now_ms += 10
            yield from self._random.choice([self._begin, self._stage, self._run, self._run, self._end])()

    def _begin(self) -> Iterator[Event]:
        self._number += 1
        job = f"j{self._number}"
        name = self._random.choice(["a", "b", "c", job])
        self._jobs[job], self._stages_begun[job] = {}, 0
        user = self._random.choice(["ann", None])
        yield JobStarted(self._now_ms, job, name, user, 0, None, None, None, True, True)

    def _stage(self) -> Iterator[Event]:
        if not self._jobs:
            return
        job = self._random.choice(list(self._jobs))
        if len(self._jobs[job]) > 1:
            return
        index = self._stages_begun[job]
        self._stages_begun[job] += 1
        tasks = self._random.choice([2, 2, 2, 5])
        stage = f"{job}.{index}"
        self._jobs[job][stage] = list(range(tasks))
        yield StageStarted(
            self._now_ms, job, stage, f"s{index % 2}", index, tasks, None, False, False,
            next_at_most=self._random.choice([None, 4]),
        )  # fmt: skip

    def _run(self) -> Iterator[Event]:
        for job, stages in list(self._jobs.items()):
            for stage, left in list(stages.items()):
                if not left and self._random.random() < 0.7:
                    del stages[stage]
                    yield StageEnded(self._now_ms, job, stage, self._random.random() < 0.9)
                elif left and self._random.random() < 0.7:
                    yield from self._attempts(job, stage, left)

    def _attempts(self, job: str, stage: str, left: list[int]) -> Iterator[Event]:
        index = left.pop()
        self._number += 1
        executor = self._random.choice(["quick", "slow"])
        ran_ms = self._random.randrange(5, 9) * (40 if executor == "slow" else 1)
        if self._random.random() < 0.3:
            yield ShortTasks(self._now_ms, job, stage, executor, [self._number], [index], [ran_ms])
            return
        copy = self._random.random() < 0.1
        yield TaskLaunched(self._now_ms, job, stage, self._number, index, executor, copy)
        outcome = self._random.choice(["success"] * 8 + ["failed", "killed"])
        if outcome != "success":
            left.append(index)
        yield TaskEnded(self._now_ms, job, stage, self._number, index, executor, ran_ms, outcome, copy)

    def _end(self) -> Iterator[Event]:
        over = [job for job, stages in self._jobs.items() if not stages and self._stages_begun[job]]
        if over:
            job = self._random.choice(over)
            del self._jobs[job]
            yield JobEnded(self._now_ms, job, "ended")


class Learner:
    """A state and a predictor that follow events."""

    def __init__(self, *, task_times: bool) -> None:
        self.state = ClusterState()
        self.predictor: Predictor = build_live(validate({}), task_times=task_times, runs=None, past=None)[0]

    def take(self, event: Event) -> None:
        ended = self.state.apply(event)
        self.predictor.observe(event)
        if ended is not None:
            self.predictor.learn(ended)


def plain(value: Any) -> Any:
    """A forecast in values that can be compared."""
    if isinstance(value, Forecast):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, LatestRuns):
        return value.runs
    if isinstance(value, RuntimeDistribution):
        return value.t_s.tolist(), value.p.tolist()
    return repr(value)


@pytest.mark.parametrize("task_times", [False, True])
@given(seed=st.integers(0, 10**6), every=st.integers(1, 5), names_kept=st.sampled_from([2, 10_000]))
def test_kept_forecasts_are_those_that_would_be_made(
    task_times: bool, seed: int, every: int, names_kept: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(history, "NAMES_KEPT", names_kept)
        keeps, makes = Learner(task_times=task_times), Learner(task_times=task_times)
        cache = ForecastCache(keeps.predictor)
        compared = 0
        for number, event in enumerate(Story(seed).events(40)):
            keeps.take(event)
            makes.take(event)
            if number % every == 0:
                kept = cache.of(keeps.state.snapshot())
                made = forecasts(makes.predictor, makes.state.snapshot())
                assert list(kept) == list(made)
                for job in made:
                    assert plain(kept[job]) == plain(made[job]), job
                    compared += 1
        assert cache.made <= compared
