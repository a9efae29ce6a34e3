#!/usr/bin/env python3
"""Straggler copies on reserved slots: reduction of the completion time of jobs with Pareto task durations.

    python benchmarks/copies.py [--runs N] [--json]

Sleeping tasks, α = 1.6, 20 a stage, on 24 slots; a copy draws a duration of its own. The same marked job runs
with ``copies="auto"`` and ``copies="never"``, in random order, on the same seed: reservations are on in both,
only copies differ. Beside it stands the paper's formula (section IV-C) for the same draws' distribution.
"""

from __future__ import annotations

import click
import numpy as np
from _common import application, local_properties, publish, stderr, workspace

from spark_sched import attach
from spark_sched.policies.reservation import stage_time_with_copies_s
from spark_sched_lab.runs.paired.application import Mark, StagesJob
from spark_sched_lab.runs.paired.statistics import spread

GOAL = 0.40
FORMULA_DRAWS = 20_000


def formula(tasks: int, alpha: float, rng: np.random.Generator) -> tuple[float, float]:
    """The paper's T′ against T: mean of 1 − T′/T, and 1 − mean T′ / mean T."""
    durations, copies = 1 + rng.pareto(alpha, size=(2, FORMULA_DRAWS, tasks))
    with_copies, without = stage_time_with_copies_s(durations, copies), durations.max(axis=1)
    return float(np.mean(1 - with_copies / without)), float(1 - with_copies.mean() / without.mean())


@click.command()
@click.option("--runs", default=12, show_default=True, help="Paired seeds.")
@click.option("--stages", default=3, show_default=True, help="Stages per job.")
@click.option("--tasks", default=20, show_default=True, help="Tasks per stage.")
@click.option("--slots", default=24, show_default=True, help="Slots, at least as many as tasks.")
@click.option("--alpha", default=1.6, show_default=True, help="Pareto shape.")
@click.option("--min-task-ms", default=600, show_default=True, help="Pareto scale: the shortest task.")
@click.option("--max-task-ms", default=60_000, show_default=True, help="Draws above are cut here.")
@click.option("--seed", default=0, show_default=True)
@click.option("--json", "json_output", is_flag=True)
def main(
    runs: int,
    stages: int,
    tasks: int,
    slots: int,
    alpha: float,
    min_task_ms: int,
    max_task_ms: int,
    seed: int,
    json_output: bool,
) -> None:
    """Straggler copies on reserved slots, with and without."""
    if slots < tasks:
        raise click.UsageError(f"--slots is {slots}: a stage of {tasks} tasks needs at least as many")
    rng = np.random.default_rng(seed)

    def draw() -> list[int]:
        return [int(ms) for ms in np.minimum(max_task_ms, min_task_ms * (1 + rng.pareto(alpha, tasks)))]

    rows = []
    with workspace() as directory:
        properties = attach.conf(f"local[{slots}]", local_properties(directory))
        with application("copies", properties, directory) as arm:
            arm.stages([StagesJob([([50] * slots, [50] * slots)] * 3, Mark("warm-up", 10, 1.0))])
            for run in range(runs):
                work = [(draw(), draw()) for _ in range(stages)]
                row: dict[str, float] = {"run": run}
                for copies in rng.permutation(["auto", "never"]):
                    mark = Mark("pareto", 10, 1.0, "auto" if copies == "auto" else "never")
                    done = arm.stages([StagesJob(work, mark)])
                    row[f"jct_{copies}_s"] = round(done.jct_s[0], 3)
                    if copies == "auto":
                        names = ("copies_launched", "copies_won", "copies_wasted_ms")
                        row |= {name: done.counters.get(name, 0) for name in names}
                row["reduction"] = round(1 - row["jct_auto_s"] / row["jct_never_s"], 4)
                rows.append(row)
                stderr.print(f"run {run + 1} of {runs}: {row}", highlight=False)
    reduction = spread([row["reduction"] for row in rows], rng)
    mean_of_ratios, ratio_of_means = formula(tasks, alpha, np.random.default_rng(seed))
    totals = {name: sum(row[f"jct_{name}_s"] for row in rows) for name in ("auto", "never")}
    document = {
        "benchmark": "copies",
        "runs": runs,
        "seed": seed,
        "sizes": {"stages": stages, "tasks": tasks, "slots": slots, "alpha": alpha, "t_m_ms": min_task_ms},
        "reduction": reduction.as_json(),
        "ratio_of_means": round(1 - totals["auto"] / totals["never"], 4),
        "paper_formula": {"mean": round(mean_of_ratios, 3), "ratio_of_means": round(ratio_of_means, 3)},
        "goal": GOAL,
        "goal_met": reduction.mean >= GOAL,
        "rows": rows,
    }
    interval = "" if reduction.low is None else f" (95 %: {reduction.low:.3f} to {reduction.high:.3f})"
    measured = f"mean of 1 − JCT with / without copies: {reduction.mean:.3f}{interval}; goal {GOAL}"
    expected = (
        f"the paper's formula for one stage: {mean_of_ratios:.2f}; as a ratio of means {ratio_of_means:.2f}, "
        f"measured {document['ratio_of_means']:.2f}"
    )
    publish(document, [measured, expected], json_output)


if __name__ == "__main__":
    main()
