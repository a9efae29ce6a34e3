"""Tasks with CPU, memory and bandwidth demands, drawn from the short jobs of the Google 2011 trace."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass, fields
from importlib import resources
from typing import Any

import numpy as np

from spark_sched.arrays import Bools, Floats, Ints
from spark_sched.errors import BadInputError
from spark_sched_lab.energy.centre import ROOM
from spark_sched_lab.energy.topology import Topology

_DATA = "data/google2011_jobs.json"
#: Longest task as a multiple of its job's mean: the spread inside a job is drawn from a distribution whose
#: tail is cut off here.
_LONGEST = 4.0


@dataclass(frozen=True)
class FlowSizes:
    """A distribution of flow sizes: bytes at cumulative shares, log-linear in between.

    Raises BadInputError if shares do not rise from 0 to 1 or sizes are not positive and rising.
    """

    shares: tuple[float, ...]
    sizes_b: tuple[float, ...]

    def __post_init__(self) -> None:
        rising = all(a < b for a, b in zip(self.shares, self.shares[1:], strict=False))
        grows = all(0.0 < a < b for a, b in zip(self.sizes_b, self.sizes_b[1:], strict=False))
        if len(self.shares) != len(self.sizes_b) or len(self.shares) < 2 or not rising or not grows:
            raise BadInputError(
                "flow sizes need two or more sizes above 0 and as many shares, both in rising order"
            )
        if self.shares[0] != 0.0 or self.shares[-1] != 1.0:
            raise BadInputError(
                f"shares of flow sizes must go from 0 to 1, not {self.shares[0]} to {self.shares[-1]}"
            )

    def draw(self, count: int, rng: np.random.Generator) -> Floats:
        """Sizes in bytes, shape (count,)."""
        return np.exp(np.interp(rng.random(count), self.shares, np.log(self.sizes_b)))


#: Shaped after the text of Benson et al., IMC 2010, which the thesis draws from ([42]): 80 % of the flows are
#: below 10 kB and most bytes are in the largest tenth. The plotted curve itself is not published as numbers.
FLOW_SIZES = FlowSizes((0.0, 0.5, 0.8, 0.9, 0.99, 1.0), (100.0, 1e3, 1e4, 1e5, 1e7, 1e8))


@dataclass(frozen=True, slots=True, eq=False)
class Tasks:
    """Tasks in the order of arrival; those of a job are neighbours, and the first of them is its master.

    Attributes:
        arrival_s: second of arrival, shape (N,), not falling.
        job: number of the job, shape (N,).
        duration_s: execution time in the trace, with exactly the requested CPU; shape (N,).
        cpu, memory: demand, the largest machine having 1; shape (N,).
        external_b, internal_b: size of the flow to the outside and of that to the master; bytes, shape (N,).

    Raises:
        BadInputError: columns differ in length, arrivals fall or are not whole numbers of seconds from 0, or
            a number is out of its range or not finite.
    """

    arrival_s: Ints
    job: Ints
    duration_s: Floats
    cpu: Floats
    memory: Floats
    external_b: Floats
    internal_b: Floats

    def __post_init__(self) -> None:
        if len({len(getattr(self, column.name)) for column in fields(self)}) != 1:
            raise BadInputError("the columns of tasks must have the same length")
        if (np.diff(self.arrival_s) < 0).any():
            raise BadInputError("tasks must be in the order of their arrival")
        whole = len(self.arrival_s) == 0 or np.issubdtype(self.arrival_s.dtype, np.integer)
        if not whole or (self.arrival_s < 0).any():
            raise BadInputError("arrival_s of tasks must be whole numbers of seconds from 0")
        for name in ("duration_s", "cpu"):
            _require(name, getattr(self, name) > 0.0, getattr(self, name), "above 0")
        for name in ("memory", "external_b", "internal_b"):
            _require(name, getattr(self, name) >= 0.0, getattr(self, name), "at least 0")

    def __len__(self) -> int:
        return len(self.job)

    def master(self) -> Ints:
        """The number of each task's master task, shape (N,)."""
        _, first, member = np.unique(self.job, return_index=True, return_inverse=True)
        return first[member].astype(np.int64)

    def load(self, topology: Topology, horizon_s: float) -> float:
        """Requested CPU-seconds divided by the data centre's CPU-seconds in the horizon."""
        return float((self.cpu * self.duration_s).sum()) / (topology.cpu * horizon_s)


def _require(name: str, legal: Bools, values: Floats, range_: str) -> None:
    wrong = ~(legal & np.isfinite(values))
    if wrong.any():
        task = int(wrong.argmax())
        raise BadInputError(f"{name} of task {task} is {values[task]:g} but must be {range_} and finite")


def require_fit(topology: Topology, tasks: Tasks) -> None:
    """Raise BadInputError if no empty server has both the CPU and the memory of a task."""
    fits = np.zeros(len(tasks), dtype=bool)
    for kind in (topology.types[number] for number in set(topology.servers)):
        fits |= (tasks.cpu <= kind.cpu + ROOM) & (tasks.memory <= kind.memory + ROOM)
    if not fits.all():
        task = int(fits.argmin())
        raise BadInputError(
            f"task {task} asks for {tasks.cpu[task]:g} CPU and {tasks.memory[task]:g} memory and no server "
            "has both: give larger servers or a smaller task"
        )


@functools.cache
def _source() -> dict[str, Any]:
    text = resources.files(__package__).joinpath(_DATA).read_text(encoding="utf-8")
    document: dict[str, Any] = json.loads(text)
    return document


def google_like(
    rng: np.random.Generator,
    topology: Topology,
    *,
    horizon_s: float,
    load: float = 0.3,
    width: float = 1.0,
) -> Tasks:
    """Jobs drawn from the trace's short jobs, at the trace's gaps scaled to a load.

    All tasks of a job arrive in one second (§4.2.2), so that wide jobs are bursts; the gaps between jobs have
    the trace's distribution. Durations inside a job are log-normal with the job's own spread.

    Args:
        horizon_s: no job arrives after it; seconds.
        load: requested CPU-seconds divided by available CPU-seconds, on average. The thesis states none; 0.3
            is its figure for servers in general (§3.1.2: busy 30 % of the time).
        width: share of a job's tasks that are kept, each by chance; below 1 for data centres too small for
            the trace's jobs, which arrive more often for that.

    Raises:
        BadInputError: an argument is out of its range.
    """
    for name, value in (("horizon_s", horizon_s), ("load", load), ("width", width)):
        if not 0.0 < value < np.inf:
            raise BadInputError(f"{name} is {value!r} but must be above 0 and finite")
    if width > 1.0:
        raise BadInputError(f"width is {width!r} but is a share of a job's tasks: at most 1")
    rows = {name: np.array(_source()[name], dtype=float)
            for name in ("weight", "tasks", "mean_s", "cov", "cpu", "memory")}  # fmt: skip
    share = rows["weight"] / rows["weight"].sum()
    work = float((share * rows["tasks"] * width * rows["mean_s"] * rows["cpu"]).sum())
    gap_s = work / (load * topology.cpu)
    count = round(horizon_s / gap_s * 1.5) + 20
    quantiles = _source()["arrival_gap_over_mean"]
    gaps_s = gap_s * np.interp(rng.random(count), np.linspace(0.0, 1.0, len(quantiles)), quantiles)
    at_s = np.cumsum(
        gaps_s / np.interp(rng.random(100_000), np.linspace(0.0, 1.0, len(quantiles)), quantiles).mean()
    )
    at_s = at_s[at_s < horizon_s]
    row = rng.choice(len(share), size=len(at_s), p=share)
    widths = rng.binomial(rows["tasks"][row].astype(np.int64), width)
    number = np.repeat(np.arange(len(row)), widths)
    of = row[number]
    sigma = np.sqrt(np.log1p(rows["cov"][of] ** 2))
    factor = np.exp(rng.standard_normal(len(of)) * sigma - sigma**2 / 2.0)
    return Tasks(
        arrival_s=at_s[number].astype(np.int64),
        job=number,
        duration_s=np.maximum(1.0, rows["mean_s"][of] * np.minimum(factor, _LONGEST)),
        cpu=np.maximum(1e-4, rows["cpu"][of]),
        memory=rows["memory"][of],
        external_b=FLOW_SIZES.draw(len(of), rng),
        internal_b=FLOW_SIZES.draw(len(of), rng),
    )
