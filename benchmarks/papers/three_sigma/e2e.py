"""One end-to-end run (§5): a workload, a policy and its knowledge, as a function of JSON values."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from spark_sched.config import validate
from spark_sched.policies import Plan, PolicySettings, create, kind_of
from spark_sched.policies.three_sigma.window import FIRST_STEP, USUAL_STEP_MS, USUAL_WINDOW_MS, WINDOW
from spark_sched.predict import Forecast, RuntimeDistribution
from spark_sched.predict.runtimes.active import RuntimeHistory
from spark_sched.predict.runtimes.features import JobAttributes
from spark_sched.protocol.events import Event
from spark_sched.state import JobView, Snapshot
from spark_sched_lab.engine.engine import Simulation
from spark_sched_lab.engine.oracle import Oracle
from spark_sched_lab.engine.planning import Planner
from spark_sched_lab.runs.simulate.from_trace import jobs_of_trace
from spark_sched_lab.simulator import ClusterSpec, JobSpec, uniform_nodes
from spark_sched_lab.traces.generators.e2e import BEST_EFFORT, e2e

NODES, PARTITIONS, CYCLE_MS = 256, 8, 2_000
SLACKS = (0.2, 0.4, 0.6, 0.8)
#: Added to the seed of the workload that the predictor learns beforehand.
_BEFORE = 1000


def workload(
    seed: int, hours: float, load: float, slacks: Sequence[float] = SLACKS, nodes: int = NODES, wider: int = 1
) -> list[JobSpec]:
    """The E2E workload, the same for all policies; every job has ``wider`` times the slots, on a
    cluster of ``nodes`` that is sized for that."""
    rng = np.random.default_rng(seed)
    trace = e2e(rng, nodes=nodes // wider, hours=hours, load=load, partitions=PARTITIONS, slacks=slacks)

    def widened(job: JobSpec) -> JobSpec:
        stages = (replace(stage, durations_ms=list(stage.durations_ms) * wider) for stage in job.stages)
        return replace(job, stages=tuple(stages))

    return [widened(job) for job in jobs_of_trace(trace.chunks(), Counter())]


def run(
    *,
    policy: str,
    seed: int,
    hours: float,
    load: float,
    slacks: Sequence[float] = SLACKS,
    shift: float | None = None,
    cov: float = 0.0,
    samples: int | None = None,
    calibrated: bool = True,
    nodes: int = NODES,
    wider: int = 1,
) -> dict[str, Any]:
    """Misses, goodput and latency of a policy on one seed's workload.

    ``point-perf-est`` knows every runtime. The others have the predictions of 3σPredict, trained on another
    workload of the generator that is twice as long; with ``shift`` instead a normal distribution around the
    true runtime (§6.3), with ``samples`` this number of draws from 3σPredict's distribution (§6.4). Without
    ``calibrated`` the distributions are the histograms themselves, as in the paper.

    SLO jobs due within the hours simulated count. Goodput is the work, at full speed, of jobs that ended by
    then; best-effort latency the mean over those that ended.
    """
    jobs = workload(seed, hours, load, slacks, nodes, wider)
    horizon_ms = round(hours * 3_600_000)
    noting = _Noting(policy)
    rng = np.random.default_rng(seed)
    knows: Any
    source: Iterable[JobSpec] = jobs
    if policy == "point-perf-est":
        knows = Oracle()
        source = knows.watch(jobs)
    elif shift is not None:
        knows = _Around(shift, cov, np.random.default_rng((seed, 1)))
        source = knows.watch(jobs)
    elif policy == "prio":
        knows = None  # it uses no forecast
    else:
        knows = _trained(workload(seed + _BEFORE, 2 * hours, load, slacks, nodes, wider))
        if not calibrated:
            knows = _AsInThePaper(knows)
        if samples is not None:
            knows = _Sampled(knows, samples, np.random.default_rng((seed, 2)))
    timed: Any = None if knows is None else _Timed(knows)
    planner = Planner(noting, timed, rng, CYCLE_MS)
    cluster = ClusterSpec(uniform_nodes(nodes, 1, partitions=PARTITIONS))
    result = Simulation(
        cluster, source, planner, validate({}), seed=seed, keep_tasks=False, until_ms=horizon_ms
    ).run()
    return {
        "policy": policy,
        "seed": seed,
        **_outcome(list(result.rows()), jobs, horizon_ms),
        **noting.figures(),
        "lookup_ms": None if timed is None else timed.figures(),
    }


def _outcome(rows: Sequence[Mapping[str, Any]], jobs: Sequence[JobSpec], horizon_ms: int) -> dict[str, Any]:
    work_h = {job.key: job.work_ms() / 3.6e6 for job in jobs}
    due = [row for row in rows if row["deadline_ms"] is not None and row["deadline_ms"] <= horizon_ms]
    missed = sum(row["end_ms"] is None or row["end_ms"] > row["deadline_ms"] for row in due)
    best_effort = [row for row in rows if row["class"] == BEST_EFFORT]
    ended = [row for row in best_effort if row["end_ms"] is not None]
    return {
        "jobs": len(jobs),
        "slo_jobs": len(due),
        "slo_miss_percent": 100 * missed / max(1, len(due)),
        "goodput_machine_h": sum(work_h[row["job"]] for row in rows if row["end_ms"] is not None),
        "be_goodput_machine_h": sum(work_h[row["job"]] for row in ended),
        "be_latency_s": float(np.mean([row["jct_ms"] for row in ended])) / 1000 if ended else None,
        "be_unfinished_percent": 100 * (1 - len(ended) / max(1, len(best_effort))),
        "wasted_machine_h": sum(row["wasted_ms"] for row in rows) / 3.6e6,
        "evicted_tasks": sum(row["evictions"] for row in rows),
    }


def _trained(jobs: Sequence[JobSpec]) -> RuntimeHistory:
    """A predictor that has seen these jobs, in the order of their submission."""
    history = RuntimeHistory()
    for job in jobs:
        stage = job.stages[0]
        attributes = JobAttributes(
            submit_s=job.submit_ms / 1000,
            user=job.user,
            name=job.name or None,
            job_class=job.job_class,
            priority=job.priority,
            slots=stage.tasks,
        )
        submission = history.predictor.submit(attributes)
        prediction = history.predictor.predict(submission)
        history.predictor.learn(submission, max(stage.durations_ms) / 1000, prediction)
    return history


class _Around(Oracle):
    """§6.3: N(runtime · (1 + s), runtime · CoV), s ~ N(shift, 0.1) for each job; the point is its mean."""

    def __init__(self, shift: float, cov: float, rng: np.random.Generator) -> None:
        super().__init__()
        self._shift, self._cov, self._rng = shift, cov, rng

    def watch(self, jobs: Iterable[JobSpec]) -> Iterator[JobSpec]:
        for job in jobs:
            runtime_s = max(job.stages[0].durations_ms) / 1000
            # The mean must be above 0: it is at least a hundredth of the runtime.
            mean_s = runtime_s * max(0.01, 1.0 + self._rng.normal(self._shift, 0.1))
            given = RuntimeDistribution.normal_s(mean_s, runtime_s * self._cov)
            self._forecasts[job.key] = Forecast(runtime=given, runtime_point_s=mean_s, source="§6.3")
            yield job


class _Wrapped:
    """A predictor around another one, which does all that a subclass does not."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _Sampled(_Wrapped):
    """``samples`` samples of another predictor's distribution, and their mean, drawn once for each job."""

    def __init__(self, inner: Any, samples: int, rng: np.random.Generator) -> None:
        super().__init__(inner)
        self._samples, self._rng = samples, rng
        self._drawn: dict[str, tuple[object, Forecast]] = {}

    def forecast(self, job: JobView) -> Forecast:
        forecast: Forecast = self._inner.forecast(job)
        if forecast.runtime is None:
            return forecast
        known = self._drawn.get(job.job)
        if known is None or known[0] is not forecast.runtime:
            drawn_s = forecast.runtime.quantile(self._rng.random(self._samples))
            given = RuntimeDistribution.from_samples_s(drawn_s)
            answer = replace(forecast, runtime=given, runtime_point_s=float(np.mean(drawn_s)))
            known = self._drawn[job.job] = (forecast.runtime, answer)
        return known[1]


class _AsInThePaper(_Wrapped):
    """Another predictor's distributions before their calibration, which the paper does not have."""

    def forecast(self, job: JobView) -> Forecast:
        forecast: Forecast = self._inner.forecast(job)
        history = self._inner.history_of(job.job)
        return forecast if history is None else replace(forecast, runtime=history)


class _Timed(_Wrapped):
    """Measures how long a job's first forecast takes, its submission included (§6.5)."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self._spent_ms: dict[str, float] = {}

    def observe(self, event: Event) -> None:
        began_s = time.process_time()
        self._inner.observe(event)
        job = getattr(event, "job", None)
        if type(event).__name__ in ("JobStarted", "StageStarted") and isinstance(job, str):
            spent_ms = 1000 * (time.process_time() - began_s)
            self._spent_ms[job] = self._spent_ms.get(job, 0.0) + spent_ms

    def figures(self) -> dict[str, float] | None:
        return _quantiles(list(self._spent_ms.values())) if self._spent_ms else None


class _Noting:
    """A policy that records the time and the proven value of its plans."""

    def __init__(self, name: str) -> None:
        # A window that does not follow the runtimes: the experiment's own, whatever jobs it has.
        window = {FIRST_STEP: f"{USUAL_STEP_MS}ms", WINDOW: f"{USUAL_WINDOW_MS}ms"}
        declared = kind_of(name).options.declared
        given = {option.key(name).name: text for option, text in window.items() if option in declared}
        self._inner = create(name, PolicySettings.from_config(validate(given)))
        if hasattr(self._inner, "_clock_s"):
            self._inner._clock_s = time.process_time
        self.name = name
        self.capabilities = self._inner.capabilities
        self._cycle_ms: list[float] = []
        self._solve_ms: list[float] = []
        self._pending: list[int] = []
        self._gaps: list[tuple[int, float]] = []
        self._statuses: Counter[str] = Counter()

    def decide(
        self,
        snapshot: Snapshot,
        forecasts: Mapping[str, Forecast],
        now_ms: int,
        rng: np.random.Generator,
        memory: Any,
    ) -> tuple[Plan, Any]:
        began_s = time.process_time()
        plan, memory = self._inner.decide(snapshot, forecasts, now_ms, rng, memory)
        self._cycle_ms.append(1000 * (time.process_time() - began_s))
        if plan.quality is not None:
            quality = plan.quality
            self._statuses[quality.status] += 1
            self._pending.append(quality.pending)
            if quality.gap is not None:
                self._gaps.append((quality.pending, quality.gap))
            if quality.steps_ms is not None:
                self._solve_ms.append(quality.steps_ms["solve"])
        return plan, memory

    def figures(self) -> dict[str, Any]:
        found: dict[str, Any] = {"plans": len(self._cycle_ms), "status": dict(self._statuses)}
        many = [100 * gap for pending, gap in self._gaps if pending >= 50]
        for name, values in (
            ("cycle_cpu_ms", self._cycle_ms),
            ("solve_cpu_ms", self._solve_ms),
            ("pending", self._pending),
            ("gap_percent", many),
        ):
            if values:
                found[name] = _quantiles(values)
        return found


def _quantiles(values: Sequence[float]) -> dict[str, float]:
    p50, p99 = np.percentile(values, [50, 99]).tolist()
    return {"p50": p50, "p99": p99, "max": float(max(values))}
