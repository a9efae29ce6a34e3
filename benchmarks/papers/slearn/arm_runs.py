"""The runs behind the figures: policies on one workload, and predictors on its jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.papers.slearn.workload import (
    TraceSpec,
    Workload,
    generated,
    learning,
    trained,
)
from spark_sched.config import validate
from spark_sched.policies import Policy, PolicySettings, create, kind_of
from spark_sched.policies.options import OptionValues
from spark_sched.policies.slearn.adaptive import pilot_count
from spark_sched.policies.slearn.gs import THIN_LIMIT
from spark_sched.policies.slearn.job_memory import JobMemory
from spark_sched.policies.slearn.queues import FIRST_QUEUE, PAPER_MS, Queues
from spark_sched.policies.slearn.variants import SLearnPolicy
from spark_sched.predict import Forecast
from spark_sched.predict.tasks.pilots import TaskTimePredictor
from spark_sched.state import JobView
from spark_sched_lab.accuracy.tasks import covs, score, summary
from spark_sched_lab.engine.results import Result
from spark_sched_lab.simulator import ClusterSpec, simulate, uniform_nodes

#: The paper's cluster: 150 nodes, which are 150 slots to its jobs.
SLOTS = 150
#: Sampling ratios of table 6, in percent.
RATIOS = (1, 2, 3, 4, 5, 10)
#: Windows of figure 1 in days. The generated traces are shorter than the paper's: 14 days cover all of them.
WINDOWS_DAYS = (1.0, 3.0, 14.0)
#: Arms whose waits figure 6 shows.
WAITS = ("slearn", "3sigma-gs")
#: An arm whose history is empty at first and learns during the run.
LEARNS = "-learns"


class _Watched(SLearnPolicy):
    """SLearn that records the sampling ratio of each job."""

    def __init__(self, settings: PolicySettings) -> None:
        super().__init__(settings)
        self.percents: dict[str, int] = {}

    def _sized(
        self,
        known: JobMemory,
        job: JobView,
        forecast: Forecast,
        percent: int,
        rng: np.random.Generator,
        queues: Queues,
    ) -> JobMemory:
        after = super()._sized(known, job, forecast, percent, rng, queues)
        if after.percent is not None:
            self.percents[job.job] = after.percent
        return after


def run_arm(
    workload: Workload, policy: Policy, seed: int, *, keep_tasks: bool = False, learns: bool = False
) -> Result:
    """``learns``: the history is empty at first and learns during the run."""
    predictor: Any = "none"
    if policy.name == "gs-oracle":
        predictor = "oracle"
    elif policy.name == "gs-las":
        predictor = TaskTimePredictor(None)
    elif policy.name != "fifo":
        predictor = TaskTimePredictor(None, learning(workload) if learns else trained(workload))
    cluster = ClusterSpec(uniform_nodes(SLOTS, 1))
    return simulate(cluster, workload.specs(), policy, predictor=predictor, seed=seed, keep_tasks=keep_tasks)


def policy_of(arm: str) -> Policy:
    """An arm: a policy of the registry, with ``-learns`` one whose history learns; ``slearn-N`` is SLearn at
    a fixed ratio of N percent, ``slearn/N`` with a thin limit of N tasks."""
    arm = arm.removesuffix(LEARNS)
    settings = PolicySettings.from_config(validate({}))
    # The paper's first queue, 1,000 s, instead of one that follows the jobs' sizes.
    paper = replace(settings, options=OptionValues(given={FIRST_QUEUE.name: f"{PAPER_MS:.0f}ms"}))
    if arm == "slearn":
        return _Watched(paper)
    name, _, limit = arm.partition("/")
    if limit:
        return SLearnPolicy(paper, thin_limit=int(limit))
    _, _, percent = name.partition("slearn-")
    if percent.isdigit():
        return SLearnPolicy(paper, fixed_percent=float(percent))
    given = {}
    if FIRST_QUEUE in kind_of(name).options.declared:
        given = {FIRST_QUEUE.key(name).name: f"{PAPER_MS:.0f}ms"}
    return create(name, replace(settings, policy_options=given))


def jcts(trace: Mapping[str, Any], seed: int, arms: Sequence[str], jobs: int) -> dict[str, Any]:
    """The completion time of every job under each arm on a `TraceSpec`; jobs are in the order of their
    submission.

    Returns:
        ``width``, ``work_s`` and ``submit_s`` of the jobs; by arm ``jct_s``, ``wait`` (mean wait of a job's
        tasks over its mean task time, jobs of one stage only, for the arms of figure 6) and ``percent`` (the
        sampling ratio of each job that was sampled, under SLearn).
    """
    asked = TraceSpec(**trace)
    workload = generated(asked, seed, jobs)
    begin_s = workload.jobs[0].submit_s
    found: dict[str, Any] = {
        "width": [job.width for job in workload.jobs],
        "work_s": [round(job.work_s, 3) for job in workload.jobs],
        "submit_s": [round(job.submit_s - begin_s, 3) for job in workload.jobs],
        "jct_s": {},
        "wait": {},
        "percent": {},
    }
    for arm in arms:
        policy = policy_of(arm)
        result = run_arm(
            workload,
            policy,
            seed,
            keep_tasks=arm in WAITS and not asked.dag,
            learns=arm.endswith(LEARNS),
        )
        order = np.argsort(np.array(result.jobs["number"]))
        times = np.array(result.jobs["jct_ms"], dtype=float)[order] / 1000.0
        found["jct_s"][arm] = [round(float(value), 3) for value in times]
        if result.tasks["job"]:
            found["wait"][arm] = [round(value, 4) for value in _waits(workload, result)]
        if isinstance(policy, _Watched):
            found["percent"][arm] = [policy.percents.get(job.key) for job in workload.jobs]
    return found


def _waits(workload: Workload, result: Result) -> list[float]:
    submit_ms = np.array(result.jobs["submit_ms"])[np.argsort(np.array(result.jobs["number"]))]
    number = np.array(result.tasks["job"])
    waited = np.array(result.tasks["start_ms"]) - submit_ms[number]
    sums = np.bincount(number, weights=waited, minlength=submit_ms.size)
    # Both are sums over the job's tasks: their ratio is that of the means.
    return [float(total) / (1000.0 * job.work_s) for total, job in zip(sums, workload.jobs, strict=True)]


def accuracy(trace: Mapping[str, Any], seed: int, jobs: int) -> dict[str, Any]:
    """Tables 4 and 7 and figures 1 and 2 on the generated `TraceSpec`, and the load of table 5."""
    workload = generated(TraceSpec(**trace), seed, jobs)
    found = score(workload.history, workload.jobs, np.random.default_rng(seed), learns=False)
    rng = np.random.default_rng(seed)
    return {
        "predictors": summary(found),
        "covs": {str(days): _covs(workload, days) for days in WINDOWS_DAYS},
        "load": _load(workload),
        "ratio_error_pct": {str(ratio): _ratio_error(workload, ratio, rng) for ratio in RATIOS},
    }


def _covs(workload: Workload, days: float) -> dict[str, dict[str, float]]:
    return {
        kind: {f"p{q}": float(np.quantile(values, q / 100.0)) for q in (10, 25, 50, 75, 90)} if values else {}
        for kind, values in covs(workload.history, workload.jobs, days).items()
    }


def _ratio_error(workload: Workload, ratio: int, rng: np.random.Generator) -> float:
    """Median error in percent of sizes by that share of a wide job's tasks (table 6)."""
    errors = []
    for job in workload.jobs:
        times = np.asarray(job.stages[0])
        if times.size >= THIN_LIMIT:
            pilots = rng.choice(times, size=pilot_count(times.size, ratio), replace=False)
            errors.append(abs(float(pilots.mean() / times.mean()) - 1.0))
    return 100.0 * float(np.median(errors))


def _load(workload: Workload) -> dict[str, float]:
    """Load in windows of 1000 s that begin every 100 s: work that arrives, divided by the capacity of the
    slots (table 5)."""
    at_s = np.array([job.submit_s for job in workload.jobs])
    at_s = at_s - at_s[0]
    upto = np.concatenate(([0.0], np.cumsum([job.work_s for job in workload.jobs])))
    begins = np.arange(0.0, max(100.0, float(at_s[-1]) - 1000.0), 100.0)
    work = upto[np.searchsorted(at_s, begins + 1000.0)] - upto[np.searchsorted(at_s, begins)]
    load = work / (SLOTS * 1000.0)
    return {
        "mean": float(load.mean()),
        "p50": float(np.quantile(load, 0.5)),
        "p90": float(np.quantile(load, 0.9)),
    }
