"""No job waits for ever: under any failure of pilots every task of every job runs to its end, once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_sched.config import validate
from spark_sched.policies import Capabilities, ChangesWith, Plan, PolicySettings, create
from spark_sched.predict import Forecast
from spark_sched.state import Snapshot
from spark_sched_lab.simulator import ClusterSpec, JobSpec, NodeSpec, StageSpec, simulate

SETTINGS = PolicySettings.from_config(validate({}))

durations = st.lists(st.sampled_from([1, 50, 1_000, 700_000]), min_size=1, max_size=9)


@st.composite
def workloads(draw: st.DrawFn) -> list[JobSpec]:
    jobs, at = [], 0
    for number in range(draw(st.integers(1, 6))):
        at += draw(st.sampled_from([0, 10, 2_000]))
        stages = []
        for index in range(draw(st.integers(1, 3))):
            parents = (index - 1,) if index and draw(st.booleans()) else ()
            stages.append(StageSpec(draw(durations), parents, gang=draw(st.integers(0, 5)) == 0))
        jobs.append(JobSpec(f"j{number}", at, tuple(stages), name=draw(st.sampled_from(["", "n"]))))
    return jobs


@st.composite
def clusters(draw: st.DrawFn) -> ClusterSpec:
    nodes = [NodeSpec("stays", 9)]
    for number in range(draw(st.integers(0, 4))):
        begin = draw(st.sampled_from([0, 30]))
        nodes.append(
            NodeSpec(
                f"n{number}", draw(st.integers(1, 3)), from_ms=begin,
                until_ms=begin + draw(st.sampled_from([1, 49, 50, 999, 3_000])), dies=draw(st.booleans()),
            )
        )  # fmt: skip
    return ClusterSpec(tuple(nodes))


class Evicting:
    """A policy whose jobs are killed now and then on top: any attempt may be lost, pilots above all."""

    capabilities = Capabilities(ChangesWith.GATES, task_times=True)

    def __init__(self, name: str, odds: float) -> None:
        self.name = name
        self._inner = create(name, SETTINGS)
        self._odds = odds
        self._left = 8

    def decide(
        self,
        snapshot: Snapshot,
        forecasts: Mapping[str, Forecast],
        now_ms: int,
        rng: np.random.Generator,
        memory: Any,
    ) -> tuple[Plan, Any]:
        plan, memory = self._inner.decide(snapshot, forecasts, now_ms, rng, memory)
        entries = []
        for entry in plan.jobs:
            hit = self._left > 0 and rng.random() < self._odds
            self._left -= hit
            entries.append(replace(entry, evict=hit))
        again_ms = now_ms + 20 if self._left > 0 and now_ms < 2_000 else None
        return replace(plan, jobs=tuple(entries), again_ms=again_ms), memory


@pytest.mark.parametrize("policy", ["slearn", "gs-las", "3sigma-tl"])
@given(jobs=workloads(), cluster=clusters(), odds=st.sampled_from([0.0, 0.3, 1.0]), seed=st.integers(0, 9))
def test_every_task_of_every_job_runs_to_its_end_once(
    policy: str, jobs: list[JobSpec], cluster: ClusterSpec, odds: float, seed: int
) -> None:
    result = simulate(cluster, jobs, Evicting(policy, odds), predictor="3sigma", seed=seed, check=True)
    assert result.unfinished == 0
    wanted = Counter(
        (number, stage, task)
        for number, job in enumerate(jobs)
        for stage, spec in enumerate(job.stages)
        for task in range(spec.tasks)
    )
    numbers = dict(zip(result.jobs["job"], result.jobs["number"], strict=True))
    order = {numbers[job.key]: number for number, job in enumerate(jobs)}
    columns = (result.tasks[name] for name in ("job", "stage", "task", "outcome"))
    done = Counter(
        (order[job], stage, task)
        for job, stage, task, outcome in zip(*columns, strict=True)
        if outcome == "success"
    )
    assert done == wanted


@given(jobs=workloads(), seed=st.integers(0, 9))
def test_no_slot_idles_while_a_task_that_could_run_waits(jobs: list[JobSpec], seed: int) -> None:
    """Work conservation: with pilots or without, as many tasks run at once as there are slots for."""
    plain = [replace(job, stages=tuple(replace(p, gang=False) for p in job.stages)) for job in jobs]
    result = simulate(ClusterSpec((NodeSpec("n", 3),)), plain, "slearn", seed=seed)
    numbers = dict(zip(result.jobs["job"], result.jobs["number"], strict=True))
    columns = {name: np.array(result.tasks[name]) for name in ("job", "stage", "start_ms", "end_ms")}
    for job in plain:
        for index, stage in enumerate(job.stages):
            mine = (columns["job"] == numbers[job.key]) & (columns["stage"] == index)
            parents = [
                columns["end_ms"][(columns["job"] == numbers[job.key]) & (columns["stage"] == p)].max()
                for p in stage.parents
            ]
            ready = max([job.submit_ms, *parents])
            for start in columns["start_ms"][mine]:
                # From the moment its stage was ready to the task's start all slots were busy.
                for at in {
                    ready,
                    *columns["end_ms"][(columns["end_ms"] > ready) & (columns["end_ms"] < start)],
                }:
                    if at < start:
                        busy = ((columns["start_ms"] <= at) & (columns["end_ms"] > at)).sum()
                        assert busy == 3, (job.key, index, at)
