"""Deadlines compared: attained isolation against held-idle slot time (equation 2, section IV-B)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.papers.figures import Figure, Value, figure
from benchmarks.papers.runs import Results, RunSpec, Scale, run_of
from spark_sched.protocol.events import Event, SlotFreed, StageStarted
from spark_sched_lab.simulator import ClusterSpec, JobSpec, StageSpec, simulate, uniform_nodes

_TIMES = ("Pareto 1.2", "Pareto 1.6", "Pareto 3", "log-normal 1", "bimodal")
_LEVELS = ("0.4", "0.9")
_TASKS, _STAGES, _MEDIAN_MS = 20, 30, 1_000.0
#: Settings that select a rule for deadlines.
_RULES: dict[str, dict[str, str]] = {
    **{
        f"fixed, {hold}": {
            "spark.sched.reservation.deadline": "fixed",
            "spark.sched.reservation.maxHold": hold,
        }
        for hold in ("3s", "10s", "30s")
    },
    **{
        f"{rule}, P = {level}": {
            "spark.sched.reservation.deadline": rule,
            "spark.sched.reservation.isolation": level,
        }
        for level in _LEVELS
        for rule in ("pareto", "calibrated")
    },
}


def _draw(times: str, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Random task times of a stage in ms; all distributions have the same median."""
    if times == "log-normal 1":
        return np.asarray(_MEDIAN_MS * np.exp(rng.standard_normal(_TASKS)))
    if times == "bimodal":
        slow = rng.random(_TASKS) < 0.1
        return np.asarray(_MEDIAN_MS * np.where(slow, 10.0, 1.0) * rng.uniform(0.95, 1.05, _TASKS))
    alpha = float(times.removeprefix("Pareto "))
    return np.asarray(_MEDIAN_MS * (2.0 * (1.0 - rng.random(_TASKS))) ** (-1.0 / alpha))


def stages_under(*, times: str, settings: Mapping[str, str], seeds: Sequence[int]) -> dict[str, float]:
    """Runs one job per seed, alone in the cluster, with stages as wide as the cluster.

    Returns the share of stages after a job's first whose holds lasted until the barrier, and the slot time
    held idle as a share of all.
    """
    lost, kept, held_ms, all_ms = 0.0, 0.0, 0.0, 0.0
    for seed in seeds:
        rng = np.random.default_rng((seed, _TIMES.index(times)))
        stages = [
            [max(1, round(time_ms)) for time_ms in _draw(times, rng).tolist()] for _ in range(_STAGES + 1)
        ]
        found = simulated_stages(stages, settings, seed=seed)
        lost, kept = lost + found["lost"], kept + found["stages"]
        held_ms, all_ms = held_ms + found["held_ms"], all_ms + found["slot_ms"]
    return {"attained": 1.0 - lost / kept, "held_idle": held_ms / all_ms}


def simulated_stages(
    stages: Sequence[Sequence[int]],
    settings: Mapping[str, str],
    *,
    isolation: float | None = None,
    seed: int = 0,
    slots: int | None = None,
) -> dict[str, float]:
    """One job of stages one after the other, alone on ``slots``; None: as many as its first stage has tasks.

    ``stages`` are the task times in ms.
    Returns ``stages`` that held slots until a barrier or lost them, from the second on (the first is learned
    from, the last one holds nothing); how many of them ``lost`` a hold; ``held_ms``: slot time held idle;
    ``slot_ms``: all slots' time.
    """
    slots = slots or len(stages[0])
    specs = tuple(StageSpec(times_ms, (i - 1,) if i else ()) for i, times_ms in enumerate(stages))
    watch = _ExpiredHolds()
    result = simulate(
        ClusterSpec(uniform_nodes(slots, 1)),
        [JobSpec("j", 0, specs, priority=10, isolation=isolation)],
        "reservation",
        settings={"spark.sched.copies.enabled": "false", **settings},
        seed=seed,
        keep_tasks=False,
        observer=watch,
    )
    return {
        "stages": len(stages) - 2,
        "lost": len(watch.expired - {1}),
        "held_ms": result.totals["held_idle_slot_ms"],
        "slot_ms": result.jobs["jct_ms"][0] * slots,
    }


class _ExpiredHolds:
    """Numbers of the stages whose holds expired, from 1."""

    def __init__(self) -> None:
        self._stages = 0
        self.expired: set[int] = set()

    def __call__(self, event: Event) -> None:
        if isinstance(event, StageStarted):
            self._stages += 1
        elif isinstance(event, SlotFreed) and event.reason == "expired":
            self.expired.add(self._stages)


def _run(scale: Scale, times: str, rule: str) -> RunSpec:
    jobs = 6 if scale.quick else 20
    seeds = [1_000 * seed + job for seed in scale.seeds for job in range(jobs)]
    return run_of(stages_under, 0.1, times=times, settings=_RULES[rule], seeds=seeds)


def _runs(scale: Scale) -> list[RunSpec]:
    return [_run(scale, times, rule) for times in _TIMES for rule in _RULES]


@figure("deadlines", "Fixed, Pareto and calibrated deadlines: attained isolation against idle slots", _runs)
def deadlines(scale: Scale, results: Results) -> Figure:
    rows: list[dict[str, Any]] = []
    values: list[Value] = []
    for times in _TIMES:
        for rule in _RULES:
            found = results[_run(scale, times, rule)]
            rows.append(
                {
                    "task times": times,
                    "deadline": rule,
                    "attained isolation": found["attained"],
                    "held idle": found["held_idle"],
                }
            )
            name = re.sub(r"\W+", "_", f"{times}_{rule}").lower()
            values.append(Value(f"attained_{name}", "", None, found["attained"], None, len(scale.seeds)))
            values.append(Value(f"held_idle_{name}", "", None, found["held_idle"], None, len(scale.seeds)))
    notes = (
        f"Not a figure of the paper. Jobs of {_STAGES + 1} stages of {_TASKS} tasks, each alone on {_TASKS} "
        "slots; task times have the same median of 1 s. Attained isolation is the share of stages, from the "
        "second on, whose holds lasted until the barrier: equation 2's P. Held idle is the share of all slot "
        "time. The paper's deadline uses α and t_m as estimated from the stage's own tasks. A fixed deadline "
        "counts from the stage's last launch. `benchmarks/deadlines.py` compares the rules on real Spark."
    )
    return Figure(rows, values, notes)
