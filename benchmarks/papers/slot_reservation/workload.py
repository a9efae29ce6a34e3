"""The set-up of the paper's section VI-B: 1,000 nodes of 4 slots, foreground jobs, 8,000 background jobs.

The paper's traces were not published. These replace them:

* MLlib-like jobs: SparkBench's KMeans, SVM and PageRank as chains of equally wide stages, 20 tasks each (the
  degree of parallelism of the paper's figure 5). They are marked jobs of several Spark jobs, so that the
  scheduler knows neither the next stage's width nor which stage is the last, as live.
* SQL-like jobs: 20 queries of fixed shape: scans, one per table, then joins and aggregations over shuffles.
  Widths change from stage to stage; the DAG is known, as Spark knows a query's.
* Google-like jobs: widths, durations and gaps between arrivals drawn from the fit to the 2011 trace that
  ships with this package; no task is longer than the one-hour window from which the paper samples jobs.

Task times within a stage of MLlib-like and SQL-like jobs are log-normal with a coefficient of variation of
0.2: the paper saw "only a few stragglers" in them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from spark_sched_lab.runs.workloads.background import draw_tasks_ms, trace_fit
from spark_sched_lab.simulator import ClusterSpec, JobSpec, Locality, StageSpec, pareto_sampler, uniform_nodes

NODES, SLOTS = 1_000, 4
FOREGROUND_PRIORITY = 10
#: Suites of foreground jobs, as in figure 15.
SUITES = ("mllib", "mllib-2x", "sql")

_MLLIB_WIDTH = 20
#: Application: stages, mean task time in seconds.
_MLLIB = {"kmeans": (10, 2.0), "svm": (12, 1.5), "pagerank": (8, 3.0)}
_QUERIES = 20
_QUERY_SHAPES_SEED = 15  # the queries are the same ones in every run
_SPREAD = 0.2  # coefficient of variation of task times within a stage
_GOOGLE_WINDOW_S = 3_600.0
# The fit has 200 quantiles of the width, the last of them the trace's widest job (10,500 tasks): as one draw
# in 200 it would alone make the mean job three times as wide as the trace's (32 tasks). This is the one
# before.
_GOOGLE_WIDEST = 1_050


@dataclass(frozen=True)
class Size:
    """The number of nodes and jobs of a run.

    Attributes:
        nodes: of 4 slots.
        jobs: background jobs.
        each: foreground jobs of each MLlib application and suite.
        queries: foreground runs of each of the 20 queries.
        load: background work that arrives per slot and second, by the tasks' own times (without what missing
            locality adds). At values well above 1 a task is always waiting for a freed slot.
    """

    nodes: int = NODES
    jobs: int = 8_000
    each: int = 6
    queries: int = 1
    load: float = 2.0


def cluster(size: Size, slowdown: float, *, held_is_near: bool) -> ClusterSpec:
    """The paper's: tasks wait 3 s for their input's nodes, elsewhere they run ``slowdown`` times as long."""
    locality = Locality(wait_ms=3_000, slowdown=slowdown, held_is_near=held_is_near)
    return ClusterSpec(uniform_nodes(size.nodes, SLOTS), locality=locality)


def background(size: Size, rng: np.random.Generator, *, stretch: float = 1.0) -> list[JobSpec]:
    """``size.jobs`` jobs of priority 0, a third of each kind, in the order of their arrival.

    ``stretch`` multiplies the task times and leaves the arrivals as they are.
    """
    fit = trace_fit()
    shapes = _query_shapes()
    made: list[tuple[str, list[StageSpec]]] = []
    for number in range(size.jobs):
        kind = ("google", "mllib", "sql")[number % 3]
        if kind == "google":
            tasks_ms = draw_tasks_ms(
                fit, rng, time_scale=1.0, max_task_s=_GOOGLE_WINDOW_S, max_tasks=_GOOGLE_WIDEST
            )
            stages = [StageSpec(tasks_ms)]
        elif kind == "mllib":
            stages = _mllib(tuple(_MLLIB)[int(rng.integers(len(_MLLIB)))], _MLLIB_WIDTH, rng)
        else:
            stages = _query(shapes[int(rng.integers(len(shapes)))], rng)
        made.append((kind, stages))
    order = rng.permutation(len(made))
    work_ms = sum(sum(sum(stage.durations_ms) for stage in stages) for _, stages in made)
    window_ms = work_ms / (size.nodes * SLOTS * size.load)
    gaps = np.interp(
        rng.random(size.jobs),
        np.linspace(0.0, 1.0, len(fit["arrival_gap_over_mean"])),
        fit["arrival_gap_over_mean"],
    )
    times_ms = np.cumsum(gaps)
    times_ms *= window_ms / times_ms[-1]
    jobs = []
    for number, (which, at_ms) in enumerate(zip(order.tolist(), times_ms.tolist(), strict=True)):
        kind, stages = made[which]
        if stretch != 1.0:
            stages = [
                replace(stage, durations_ms=[max(1, round(ms * stretch)) for ms in stage.durations_ms])
                for stage in stages
            ]
        jobs.append(JobSpec(f"bg-{number}", round(at_ms), tuple(stages), job_class=f"background {kind}"))
    return jobs


def foreground(
    size: Size, rng: np.random.Generator, busy_ms: int, suites: Sequence[str] = SUITES
) -> list[JobSpec]:
    """Jobs of priority 10 at even distances while the cluster is busy, the suites mixed.

    ``busy_ms`` is how long the background keeps every slot busy; they come between 15 % and 70 % of that.
    They are few compared with 4,000 slots, so that they compete with the background and rarely with each
    other.
    """
    made: list[JobSpec] = []
    for suite in SUITES:
        # Every suite draws from a generator of its own: leaving one out does not change the others.
        own = np.random.default_rng(rng.integers(2**63))
        if suite not in suites:
            continue
        if suite == "sql":
            for nth in range(size.queries):
                for number, shape in enumerate(_query_shapes()):
                    key = f"sql-q{number}-{nth}"
                    made.append(_foreground_job(key, suite, _query(shape, own), marked=False))
        else:
            width = _MLLIB_WIDTH * (2 if suite == "mllib-2x" else 1)
            for application in _MLLIB:
                for number in range(size.each):
                    stages = _mllib(application, width, own)
                    key = f"{suite}-{application}-{number}"
                    made.append(_foreground_job(key, suite, stages, marked=True))
    first, last = 0.15 * busy_ms, 0.7 * busy_ms
    order = rng.permutation(len(made)).tolist()
    gap = (last - first) / max(1, len(made))
    return [replace(made[which], submit_ms=round(first + gap * nth)) for nth, which in enumerate(order)]


def busy_ms(size: Size, jobs: Sequence[JobSpec]) -> int:
    """How long the background's work lasts on all slots."""
    return round(sum(job.work_ms() for job in jobs) / (size.nodes * SLOTS))


def with_pareto_tasks(jobs: Sequence[JobSpec], alpha: float, rng: np.random.Generator) -> Iterator[JobSpec]:
    """The same jobs with every stage's task times Pareto(``alpha``) of the same mean; copies draw alike."""
    for job in jobs:
        stages = []
        for stage in job.stages:
            mean_ms = sum(stage.durations_ms) / stage.tasks
            draw = pareto_sampler(alpha, mean_ms * (alpha - 1.0) / alpha)
            stages.append(replace(stage, durations_ms=draw(rng, stage.tasks), copy_duration_ms=draw))
        yield replace(job, stages=tuple(stages))


def _foreground_job(key: str, suite: str, stages: list[StageSpec], *, marked: bool) -> JobSpec:
    return JobSpec(
        key,
        0,
        tuple(stages),
        job_class=suite,
        priority=FOREGROUND_PRIORITY,
        marked=marked,
        dag_known="nothing" if marked else "to the end",
    )


def _mllib(application: str, width: int, rng: np.random.Generator) -> list[StageSpec]:
    stages, mean_s = _MLLIB[application]
    return [
        StageSpec(_tasks_ms(width, mean_s, rng), (index - 1,) if index else ()) for index in range(stages)
    ]


#: Of each stage of a query: its tasks, their mean time in seconds, its parents.
_QueryShape: TypeAlias = list[tuple[int, float, tuple[int, ...]]]


def _query_shapes() -> list[_QueryShape]:
    """20 queries: a fact table joined with one to four dimension tables one after the other, then aggregated.

    A fact scan has 10 to 80 tasks and a dimension scan 2 to 10, of 2 to 4 s each. The shuffle before a join
    or the aggregation has half as many, as many or twice as many partitions as its widest input has tasks, at
    least 4, and its tasks take 0.5 to 2 s; the last stage has one. All values that have a range are
    log-uniform in it.
    """
    rng = np.random.default_rng(_QUERY_SHAPES_SEED)

    def log_uniform(low: float, high: float) -> float:
        return float(np.exp(rng.uniform(np.log(low), np.log(high))))

    def shape() -> _QueryShape:
        stages: _QueryShape = []

        def scan(least: int, most: int) -> int:
            stages.append((round(log_uniform(least, most)), log_uniform(2.0, 4.0), ()))
            return len(stages) - 1

        def shuffle(*inputs: int) -> int:
            widest = max(stages[number][0] for number in inputs)
            width = max(4, round(widest * float(rng.choice([0.5, 1.0, 2.0]))))
            stages.append((width, log_uniform(0.5, 2.0), inputs))
            return len(stages) - 1

        stream = scan(10, 80)
        for _ in range(int(rng.integers(1, 5))):
            stream = shuffle(stream, scan(2, 10))
        stages.append((1, log_uniform(0.5, 2.0), (shuffle(stream),)))
        return stages

    return [shape() for _ in range(_QUERIES)]


def _query(shape: _QueryShape, rng: np.random.Generator) -> list[StageSpec]:
    return [StageSpec(_tasks_ms(width, mean_s, rng), parents) for width, mean_s, parents in shape]


def _tasks_ms(tasks: int, mean_s: float, rng: np.random.Generator) -> list[int]:
    sigma = math.sqrt(math.log1p(_SPREAD**2))
    times_ms = 1_000.0 * mean_s * rng.lognormal(-(sigma**2) / 2.0, sigma, tasks)
    return [max(1, round(ms)) for ms in times_ms.tolist()]
