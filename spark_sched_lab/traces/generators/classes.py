"""Job classes as 3Sigma §5 makes them: clusters by runtime, with distributions of attributes."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import dataclass
from importlib.resources import files

import numpy as np

from spark_sched.arrays import Floats, Ints
from spark_sched.errors import BadInputError
from spark_sched_lab.traces.tables import Trace

#: Quantiles of the number of tasks that a class keeps (its inverse distribution, linear between them).
_LEVELS = np.linspace(0.0, 1.0, 21)
#: Most frequent (user, name) pairs a class keeps; rarer ones count as names seen once.
_FEATURES = 60
_LLOYD_STEPS = 100


@dataclass(frozen=True)
class JobClass:
    """Jobs of about one runtime.

    ``weight``: share of all jobs; ``log_mean``, ``log_sd``: of the natural log of the runtime in seconds, cut
    to ``min_s`` … ``max_s``; ``task_quantiles``: number of tasks at the levels 0, 0.05, … 1; ``features``:
    (user, name, probability); the remaining probability is that of names seen once.
    """

    weight: float
    log_mean: float
    log_sd: float
    min_s: float
    max_s: float
    task_quantiles: tuple[float, ...]
    features: tuple[tuple[str, str, float], ...]

    def runtimes_s(self, rng: np.random.Generator, count: int) -> Floats:
        """Log-normal, redrawn until inside the class's range."""
        if self.log_sd == 0 or self.min_s == self.max_s:
            return np.full(count, math.exp(self.log_mean))
        drawn = rng.lognormal(self.log_mean, self.log_sd, count)
        while (outside := (drawn < self.min_s) | (drawn > self.max_s)).any():
            drawn[outside] = rng.lognormal(self.log_mean, self.log_sd, int(outside.sum()))
        return drawn

    def task_counts(self, rng: np.random.Generator, count: int) -> Ints:
        drawn = np.interp(rng.random(count), _LEVELS, self.task_quantiles)
        return np.maximum(1, np.floor(drawn + 1e-9)).astype(np.int64)


def fit_classes(trace: Trace, *, classes: int = 8, largest_job_slots: int = 256) -> tuple[JobClass, ...]:
    """Classes of a trace's finished jobs with known runtime and at most ``largest_job_slots`` tasks, by
    k-means (Lloyd, started at quantiles, so without chance) on the log of the runtime; shortest first.

    Users and names are replaced by numbers in the order of their frequency.

    Raises:
        BadInputError: fewer than ``classes`` usable jobs.
    """
    jobs = trace.jobs.select(["runtime_s", "slots", "outcome", "user", "name"]).to_pylist()
    usable = [
        job
        for job in jobs
        if job["outcome"] == "finished"
        and job["runtime_s"]
        and job["slots"]
        and job["slots"] <= largest_job_slots
    ]
    if len(usable) < classes:
        raise BadInputError(
            f"{trace.meta.source or 'the trace'} has {len(usable)} finished jobs with runtime and size, "
            f"{classes} classes need more: fit to another trace or to fewer classes"
        )
    log_s = np.log([job["runtime_s"] for job in usable])
    label = _kmeans(log_s, classes)
    users = _numbered("u", (job["user"] for job in usable))
    names = _numbered("n", (job["name"] for job in usable))
    found = []
    for k in range(classes):
        members = np.flatnonzero(label == k)
        if not len(members):
            continue
        own = log_s[members]
        pairs = Counter((users[usable[i]["user"]], names[usable[i]["name"]]) for i in members)
        features = tuple(
            (user, name, round(n / len(members), 6))
            for (user, name), n in pairs.most_common(_FEATURES)
            if n > 1
        )
        sizes = np.quantile([usable[i]["slots"] for i in members], _LEVELS)
        found.append(
            JobClass(
                round(len(members) / len(usable), 6),
                round(float(own.mean()), 4),
                round(float(own.std()), 4),
                round(float(np.exp(own.min())), 3),
                round(float(np.exp(own.max())), 3),
                tuple(round(float(s), 2) for s in sizes),
                features,
            )
        )
    return tuple(found)


def google_classes() -> tuple[JobClass, ...]:
    """Eight classes fitted with `fit_classes` to the first 21 hours of Google's 2011 trace."""
    raw = json.loads(
        files("spark_sched_lab.traces.generators").joinpath("google2011_classes.json").read_text("utf-8")
    )
    return tuple(
        JobClass(
            **{
                **c,
                "task_quantiles": tuple(c["task_quantiles"]),
                "features": tuple(map(tuple, c["features"])),
            }
        )
        for c in raw["classes"]
    )


def _kmeans(values: Floats, classes: int) -> Ints:
    centers = np.unique(np.quantile(values, (np.arange(classes) + 0.5) / classes))
    label = np.zeros(len(values), dtype=np.int64)
    for _ in range(_LLOYD_STEPS):
        label = np.searchsorted((centers[1:] + centers[:-1]) / 2, values)
        sums = np.bincount(label, values, len(centers))
        counts = np.bincount(label, minlength=len(centers))
        moved = np.where(counts > 0, sums / np.maximum(counts, 1), centers)
        if np.allclose(moved, centers):
            break
        centers = moved
    return label


def _numbered(prefix: str, values: object) -> dict[str | None, str]:
    counts: Counter[str | None] = Counter(values)  # type: ignore[call-overload]
    return {value: f"{prefix}{i}" for i, (value, _) in enumerate(counts.most_common())}
