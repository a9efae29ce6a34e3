"""The runs of an experiment, arm by arm and seed by seed, one after another in this process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from spark_sched_lab.engine.results import Result
from spark_sched_lab.runs.simulate.experiment import Experiment, SimulatedArm

#: Called with the name of the run, the number of ended jobs, and the number of all jobs (None: not known
#: yet).
Progress = Callable[[str, int, "int | None"], None]


class SeedRun(NamedTuple):
    """One arm with one seed; ``left_out`` counts the jobs of the seed's workload that cannot be run."""

    arm: SimulatedArm
    seed: int
    result: Result
    left_out: Counter[str]


def runs_here(
    plan: Experiment,
    arms: Sequence[SimulatedArm],
    seeds: Sequence[int],
    *,
    keep_tasks: bool,
    progress: Progress,
) -> Iterator[SeedRun]:
    """Every run, seeds outside: the arms of one seed share its jobs."""
    done = 0
    for nth, seed in enumerate(seeds):
        left_out: Counter[str] = Counter()
        jobs = plan.jobs(seed, left_out)
        total = done + len(jobs) * len(arms) * (len(seeds) - nth)
        for arm in arms:
            what, begun = f"{arm.name}, seed {seed}", done

            def tick(
                ended: int, now_ms: int, what: str = what, begun: int = begun, total: int = total
            ) -> None:
                progress(what, begun + ended, total)

            progress(what, begun, total)
            result = plan.run(arm, seed, jobs, keep_tasks=keep_tasks, progress=tick)
            done += len(jobs)
            progress(what, done, total)
            yield SeedRun(arm, seed, result, left_out)
