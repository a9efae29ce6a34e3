"""The sleep workload: stages of sleeping tasks, with SparkBench's distributions and two more."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The first three are SparkBench's.
DISTRIBUTIONS = ("uniform", "gaussian", "poisson", "exponential", "pareto")
_NEEDS = {
    "uniform": ("max",),
    "gaussian": ("mean", "std"),
    "poisson": ("mean",),
    "exponential": ("mean",),
    "pareto": (),
}
_LONGEST_MS = 3_600_000
#: SparkBench's timedsleep sleeps once for each element of a task; a task has this number of them.
SLEEPS_PER_TASK = 100


def sleep_problem(parameters: Mapping[str, Any]) -> str | None:
    """What is wrong with the parameters together, as a clause; None if nothing is."""
    fixed, drawn = parameters["sleepms"], parameters["distribution"]
    if (fixed is None) == (drawn is None):
        which = "both sleepms and distribution" if fixed is not None else "neither sleepms nor distribution"
        return f"it has {which} but must have one of them"
    if drawn is None:
        return None
    for name in _NEEDS[drawn]:
        if parameters[name] is None:
            return f"{name} is missing, which the distribution {drawn!r} needs"
    if drawn == "pareto" and parameters["min"] <= 0:
        return "min is missing, which the distribution 'pareto' needs"
    if parameters["max"] is not None and parameters["max"] < parameters["min"]:
        return "max is below min"
    return None


def sleep_stages(parameters: Mapping[str, Any], seed: int) -> list[list[int]]:
    """Each stage's tasks' sleeps in ms."""
    shape = (int(parameters["stages"]), int(parameters["tasks"]))
    if parameters["sleepms"] is not None:
        return [[int(parameters["sleepms"])] * shape[1]] * shape[0]
    rng = np.random.default_rng([seed, 3])
    most = _LONGEST_MS if parameters["max"] is None else parameters["max"]
    drawn = np.asarray(_draw(parameters, most, shape, rng))
    return [[max(1, int(ms)) for ms in row] for row in np.clip(drawn, 1, most)]


def think_ms(parameters: Mapping[str, Any], seed: int) -> int:
    """How long the driver sleeps, in ms."""
    ((time_ms,),) = sleep_stages({**parameters, "stages": 1, "tasks": 1}, seed)
    return time_ms


def run_think(spark: SparkSession, parameters: Mapping[str, Any], seed: int) -> tuple[float, ...]:
    """Sleep in the driver, as SparkBench's sleep does; returns the time in ms."""
    time_ms = think_ms(parameters, seed)
    time.sleep(time_ms / 1000)
    return (float(time_ms),)


def _draw(
    parameters: Mapping[str, Any], most: float, shape: tuple[int, int], rng: np.random.Generator
) -> np.ndarray[Any, Any]:
    name, mean = parameters["distribution"], parameters["mean"]
    if name == "uniform":
        return rng.uniform(parameters["min"], most, shape)
    if name == "gaussian":
        return rng.normal(mean, parameters["std"], shape)
    if name == "poisson":
        return rng.poisson(mean, shape).astype(float)
    if name == "exponential":
        return rng.exponential(mean, shape)
    return float(parameters["min"]) * (1.0 + rng.pareto(parameters["alpha"], shape))


def timedsleep_stages(parameters: Mapping[str, Any], seed: int) -> list[list[int]]:
    """Sleeps in ms of a map stage and of the reduce stage after it, whose tasks only fetch a few rows."""
    tasks = int(parameters["partitions"])
    return [[SLEEPS_PER_TASK * int(parameters["sleepms"])] * tasks, [1] * tasks]


def _run(
    stages_of: Callable[[Mapping[str, Any], int], list[list[int]]],
    spark: SparkSession,
    parameters: Mapping[str, Any],
    seed: int,
) -> tuple[float, ...]:
    """Run the stages; returns the sum of their sleeps in ms."""
    from spark_sched_lab.runs.workloads.synthetic import run_stages

    stages = stages_of(parameters, seed)
    run_stages(spark, [(times_ms, times_ms) for times_ms in stages])
    return (float(sum(map(sum, stages))),)


run_sleep, run_timedsleep = (partial(_run, stages_of) for stages_of in (sleep_stages, timedsleep_stages))
