"""The input of a comparison: a trace's jobs with their task times, the history before them, and the
attributes known at each submission."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from spark_sched.predict.tasks.history import SubmittedStage, TaskHistory
from spark_sched_lab.accuracy.tasks import MeasuredJob, measured_jobs, paper_features
from spark_sched_lab.simulator import JobSpec, StageSpec
from spark_sched_lab.traces.generators import recurring


@dataclass(frozen=True)
class Workload:
    """Jobs to run, and those before them to learn from, both in the order of their submission."""

    history: tuple[MeasuredJob, ...]
    jobs: tuple[MeasuredJob, ...]

    def specs(self) -> list[JobSpec]:
        """The jobs for the simulator, the first one at 0."""
        begin_s = self.jobs[0].submit_s if self.jobs else 0.0
        return [
            JobSpec(
                job.key,
                round((job.submit_s - begin_s) * 1000.0),
                tuple(
                    StageSpec([max(1, round(t * 1000.0)) for t in stage], parents)
                    for stage, parents in zip(job.stages, job.parents, strict=True)
                ),
                name=job.attributes[0].name or "",
                user=job.attributes[0].user,
            )
            for job in self.jobs
        ]


def split(jobs: Sequence[MeasuredJob]) -> Workload:
    """The first half by submission as history, the second to run (§4.3)."""
    half = len(jobs) // 2
    return Workload(tuple(jobs[:half]), tuple(jobs[half:]))


@dataclass(frozen=True)
class TraceSpec:
    """The arguments of `spark_sched_lab.traces.generators.recurring`, which documents them."""

    like: str
    dag: bool = False
    updated: float | None = None
    stretches: float = 0.5


def generated(trace: TraceSpec, seed: int, jobs: int) -> Workload:
    """The generator's trace: its first two thirds are history."""
    drawn = recurring(np.random.default_rng(seed), jobs=jobs, history=2 * jobs, **asdict(trace))
    found = measured_jobs(drawn.chunks())
    return Workload(tuple(found[: 2 * jobs]), tuple(found[2 * jobs :]))


def learning(workload: Workload) -> TaskHistory:
    """3Sigma's predictor by the paper's features that starts empty and learns while the jobs run, as in a new
    application."""
    return TaskHistory(stages_of={job.key: _stages(job) for job in workload.jobs})


def trained(workload: Workload) -> TaskHistory:
    """3Sigma's predictor after the workload's history, by the paper's features; it does not learn while the
    jobs run: the paper trains it once."""
    history = TaskHistory(stages_of={job.key: _stages(job) for job in workload.jobs}, learns=False)
    for job in workload.history:
        stages = _stages(job)
        asked = history.ask_job(stages)
        if len(stages) > 1:
            history.compare(asked, job.stages)
        # One after the other: each stage is a job of the history trace (§6).
        for stage, (submission, _), times in zip(stages, asked, job.stages, strict=True):
            history.learn(stage.attributes, times, history.ask(stage, submission))
    return history


def _stages(job: MeasuredJob) -> list[SubmittedStage]:
    """What 3Sigma knows of a job's stages."""
    return [
        SubmittedStage(len(times), paper_features(attributes))
        for times, attributes in zip(job.stages, job.attributes, strict=True)
    ]
