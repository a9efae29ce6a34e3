"""GS and SLearn written anew from the paper's §5.1 for jobs of one stage: every job must end when the
simulator says. The file shares no code with the policies, the queues or the pilots' gates.

Two rules are this project's own: of queues without a running task the one that is due first is next, and
within a queue jobs go by their arrival even if they joined it later (docs/explanation/slearn.md).
"""

from __future__ import annotations

import heapq
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from spark_sched.config import validate
from spark_sched.policies import PolicySettings, create
from spark_sched.policies.options import OptionValues
from spark_sched.policies.slearn.variants import SLearnPolicy
from spark_sched.predict.tasks.pilots import TaskTimePredictor
from spark_sched_lab.simulator import ClusterSpec, JobSpec, StageSpec, simulate, uniform_nodes

SLOTS = 20
QUEUES = 10


def queue_of(work_ms: float) -> int:
    """The index of the queue with Q_hi = 10^6 ms · 10^q (§5.2.1)."""
    return next((q for q in range(QUEUES - 1) if work_ms < 1e6 * 10.0**q), QUEUES - 1)


class Job:
    def __init__(self, arrival: int, submit_ms: int, tasks_ms: list[int]) -> None:
        self.arrival, self.submit_ms, self.tasks_ms = arrival, submit_ms, tasks_ms
        self.first: list[int] = []  # may start now, the last one next
        self.behind: list[int] = []  # wait for the pilots
        self.pilots: set[int] = set()
        self.queue = self.running = 0
        self.left, self.end_ms = len(tasks_ms), -1


def by_the_paper(jobs: list[Job], pilots: dict[int, set[int]] | None) -> list[int]:
    """When each job ends: sized by its pilots, or by its true work (Oracle) if there are none."""
    free, running, due_ms = SLOTS, [0] * QUEUES, [0] * QUEUES
    ends: list[tuple[int, int, Job, int, int]] = []
    at = now_ms = 0
    here: list[Job] = []

    def start(job: Job, task: int) -> None:
        nonlocal free
        free -= 1
        job.running += 1
        running[job.queue] += 1
        heapq.heappush(ends, (now_ms + job.tasks_ms[task], job.arrival * 1000 + task, job, task, now_ms))

    def move(job: Job, queue: int) -> None:
        running[job.queue] -= job.running
        running[queue] += job.running
        job.queue = queue

    while at < len(jobs) or ends:
        now_ms = min([each.submit_ms for each in jobs[at : at + 1]] + [each[0] for each in ends[:1]])
        while ends and ends[0][0] == now_ms:
            _, _, job, task, began_ms = heapq.heappop(ends)
            free, job.running, job.left = free + 1, job.running - 1, job.left - 1
            running[job.queue] -= 1
            share = max(0.01, 10.0**-job.queue)
            due_ms[job.queue] = now_ms + int((now_ms - began_ms) * (1.0 / share - 1.0))
            if not job.left:
                job.end_ms = now_ms
                here.remove(job)
            if task in job.pilots:
                job.pilots.remove(task)
                if not job.pilots and pilots is not None:
                    mean_ms = np.mean([job.tasks_ms[pilot] for pilot in pilots[job.arrival]])
                    job.first, job.behind = job.behind, []
                    move(job, queue_of(float(mean_ms) * len(job.tasks_ms)))
        while at < len(jobs) and jobs[at].submit_ms == now_ms:
            job, at = jobs[at], at + 1
            here.append(job)
            tasks = list(range(len(job.tasks_ms)))[::-1]
            if pilots is None:
                job.queue = queue_of(sum(job.tasks_ms))
                job.first = tasks
                continue
            job.pilots = set(pilots.get(job.arrival, ()))
            job.queue = 1 if job.pilots else 0
            job.first = [task for task in tasks if task in job.pilots or not job.pilots]
            job.behind = [task for task in tasks if task not in job.first]
        while free and (waiting := [job for job in here if job.first]):
            queue = min({job.queue for job in waiting}, key=lambda q: (running[q] / 10.0**-q, due_ms[q], q))
            job = next(job for job in waiting if job.queue == queue)
            start(job, job.first.pop())
        while free and (gated := [job for job in here if job.behind]):  # work conservation
            start(gated[0], gated[0].behind.pop())
    return [job.end_ms for job in jobs]


class Recorded(SLearnPolicy):
    """SLearn that records which tasks it drew."""

    def __init__(self) -> None:
        paper = OptionValues(given={"firstQueue": "1000s"})
        super().__init__(replace(PolicySettings.from_config(validate({})), options=paper), fixed_percent=10.0)
        self.drawn: dict[int, set[int]] = {}

    def _sized(self, known: Any, job: Any, *given: Any) -> Any:
        after = super()._sized(known, job, *given)
        if after.pilots is not None:
            self.drawn[int(job.job)] = set(after.pilots.tasks)
        return after


def specs(seed: int) -> list[JobSpec]:
    """Jobs of 1 to 40 tasks with work for several queues, at a load near 1."""
    rng = np.random.default_rng(seed)
    at_ms = np.cumsum(rng.exponential(40_000.0, 120)).astype(int).tolist()
    found = []
    for number, submit_ms in enumerate(at_ms):
        mean_ms = float(rng.lognormal(np.log(15_000.0), 1.5))
        tasks = np.maximum(1, rng.lognormal(np.log(mean_ms), 0.5, int(rng.integers(1, 41)))).astype(int)
        found.append(JobSpec(str(number), submit_ms, (StageSpec(tasks.tolist()),)))
    return found


def fresh(jobs: list[JobSpec]) -> list[Job]:
    return [Job(n, each.submit_ms, list(each.stages[0].durations_ms)) for n, each in enumerate(jobs)]


@pytest.mark.parametrize("seed", range(4))
def test_every_job_of_slearn_ends_when_the_paper_says(seed: int) -> None:
    jobs, policy = specs(seed), Recorded()
    cluster = ClusterSpec(uniform_nodes(SLOTS, 1))
    result = simulate(cluster, jobs, policy, predictor=TaskTimePredictor(None), seed=seed)
    wide = {n for n, each in enumerate(jobs) if each.stages[0].tasks >= 3}
    assert policy.drawn.keys() == wide
    ours = {row["job"]: row["end_ms"] for row in result.rows()}
    expected = by_the_paper(fresh(jobs), policy.drawn)
    assert {str(n): end_ms for n, end_ms in enumerate(expected)} == ours
    assert expected != by_the_paper(fresh(jobs), None)  # sizes matter on these jobs


@pytest.mark.parametrize("seed", range(4))
def test_every_job_of_the_oracle_ends_when_the_paper_says(seed: int) -> None:
    jobs = specs(seed)
    paper = validate({"spark.sched.policy.gs-oracle.firstQueue": "1000s"})
    policy = create("gs-oracle", PolicySettings.from_config(paper))
    cluster = ClusterSpec(uniform_nodes(SLOTS, 1))
    result = simulate(cluster, jobs, policy, predictor="oracle", seed=seed)
    ours = {row["job"]: row["end_ms"] for row in result.rows()}
    assert {str(n): end_ms for n, end_ms in enumerate(by_the_paper(fresh(jobs), None))} == ours
