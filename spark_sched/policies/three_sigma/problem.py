"""The planning problem of one cycle as arrays, for every solver the same (3Sigma §4.3.3 and §4.3.5).

Instead of a variable for each partition's part of a job, capacity is counted for unions of partitions: what
may run only inside a union must fit into it. By Hall's theorem a split exists at a moment exactly if this
holds for every union of partition sets that some job may use (``docs/explanation/model.md``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from spark_sched.arrays import Bools, Floats, Ints
from spark_sched.policies.three_sigma.window import Grid

NO_OPTION = -1
#: Expected slots by which a row may be passed: rounding of sums of a thousand terms, not of plans.
SLACK_SLOTS = 1e-6
#: Unions of masks that have a capacity row each, see `closed_under_union`.
_MOST_UNIONS = 128


@dataclass(frozen=True, slots=True)
class Candidate:
    """One pending job on one equivalence set: an option for each start.

    Attributes:
        mask: its partitions as bits.
        slots: k, how many it takes.
        utility: expected utility by start, shape (T,); 0 or less: not an option.
        consumption: chance that it still runs by elapsed time, shape (E,); 1 at 0.
    """

    job: int
    mask: int
    slots: int
    utility: Floats
    consumption: Floats


@dataclass(frozen=True, slots=True)
class Running:
    """One running job.

    Attributes:
        slots: those that it has, by partition, shape (Q,).
        remaining: chance that it still runs, by time step, shape (T,).
        cost: what its preemption costs, or None if it must not be preempted.
    """

    slots: Floats
    remaining: Floats
    cost: float | None


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Groups are the candidates that may start, ordered by set and job; an option is (group, start).

    P jobs, G groups, M sets, N unions, T time steps, E elapsed times, R running jobs that may be preempted.
    It is flat, since solvers hand single arrays to compiled code, which takes no objects.

    Attributes:
        jobs: P.
        candidate_of, job_of, mask_of: of a group, shape (G,): its number among the candidates that the
            problem was built from, its job, and its place in ``masks``.
        demand: k of a group in slots, shape (G,).
        utility: expected utility, shape (G, T); 0 where there is no option.
        use: k · consumption by elapsed time, shape (G, E + 1); the last column is 0.
        masks, unions: partition sets as bits.
        inside: whether a set lies inside a union, shape (M, N).
        first, last: the groups of a set are ``first[m]:last[m]``.
        groups_of: groups of a job, padded with G, shape (P, most groups per job).
        free: expected free slots by union and time step, shape (N, T), nothing preempted.
        free_of: likewise by partition, shape (Q, T).
        preemptible: numbers of the running jobs that may be, shape (R,).
        cost: of preempting them, shape (R,).
        credit: k_r of a running job inside a union, shape (R, N).
        held: likewise by partition, shape (R, Q).
        remaining: its chance to run by time step, shape (R, T).
    """

    grid: Grid
    jobs: int
    candidate_of: Ints
    job_of: Ints
    mask_of: Ints
    demand: Floats
    utility: Floats
    use: Floats
    masks: tuple[int, ...]
    unions: tuple[int, ...]
    inside: Bools
    first: Ints
    last: Ints
    groups_of: Ints
    free: Floats
    free_of: Floats
    preemptible: Ints
    cost: Floats
    credit: Floats
    held: Floats
    remaining: Floats

    @property
    def groups(self) -> int:
        return len(self.job_of)

    @property
    def options(self) -> int:
        return int(np.count_nonzero(self.utility > 0.0))

    def rows(self, groups: Ints, starts: Ints) -> Floats:
        """Expected slots of options by time step, shape (len(groups), T)."""
        return np.asarray(self.use[groups[:, None], self.grid.elapsed_of[starts]])

    def value(self, assignment: Assignment) -> float:
        """Σ U − Σ P: the objective of §4.3.5."""
        chosen = assignment.group != NO_OPTION
        won = self.utility[assignment.group[chosen], assignment.start[chosen]].sum()
        return float(won - self.cost[assignment.preempted].sum())

    def left(self, assignment: Assignment) -> Floats:
        """Expected slots left by union and time step, shape (N, T); negative where too many are used."""
        chosen = np.flatnonzero(assignment.group != NO_OPTION)
        groups, starts = assignment.group[chosen], assignment.start[chosen]
        by_mask = np.zeros((len(self.masks), self.grid.steps))
        np.add.at(by_mask, self.mask_of[groups], self.rows(groups, starts))
        credit = self.credit[assignment.preempted].T @ self.remaining[assignment.preempted]
        return np.asarray(self.free + credit - self.inside.T.astype(float) @ by_mask)

    def fits(self, assignment: Assignment) -> bool:
        """Whether the capacity rows hold (equation 3 with preemption's credits)."""
        return bool((self.left(assignment) >= -SLACK_SLOTS).all())


@dataclass(frozen=True, slots=True, eq=False)
class Assignment:
    """The chosen options.

    Attributes:
        group, start: of each job, shape (P,); `NO_OPTION` where it gets none.
        preempted: of the problem's preemptible jobs, shape (R,).
    """

    group: Ints
    start: Ints
    preempted: Bools

    @classmethod
    def empty(cls, problem: Problem) -> Assignment:
        """Nothing starts, nothing is preempted: always feasible."""
        none = np.full(problem.jobs, NO_OPTION, dtype=np.int64)
        return cls(none, none.copy(), np.zeros(len(problem.cost), dtype=bool))


def closed_under_union(masks: Iterable[int], most: int) -> tuple[int, ...]:
    """Every union of the sets, smallest numbers first; beyond ``most`` only the sets and the union of all.

    With fewer than all, a plan may promise more than a later split can give; the slots of jobs that start now
    are always split before use.
    """
    given = sorted(set(masks))
    unions: set[int] = set()
    for mask in given:
        unions |= {mask} | {mask | other for other in unions}
        if len(unions) > most:
            everything = 0
            for each in given:
                everything |= each
            return tuple(sorted({*given, everything}))
    return tuple(sorted(unions))


def build(
    grid: Grid,
    capacity: Floats,
    jobs: int,
    candidates: Sequence[Candidate],
    running: Sequence[Running],
) -> Problem:
    """The problem of one cycle.

    Args:
        capacity: slots by partition, shape (Q,).
        jobs: P.
        candidates: of pending jobs; those without a start of positive utility are left out (§4.3.6).
    """
    partitions = len(capacity)
    numbers = [n for n, candidate in enumerate(candidates) if candidate.utility.max(initial=0.0) > 0.0]
    numbers.sort(key=lambda n: (candidates[n].mask, candidates[n].job))
    useful = [candidates[n] for n in numbers]
    masks = tuple(sorted({candidate.mask for candidate in useful}))
    unions = closed_under_union(masks, _MOST_UNIONS)
    count, elapsed = len(useful), len(grid.elapsed_ms)
    job_of = np.fromiter((candidate.job for candidate in useful), np.int64, count)
    mask_of = np.searchsorted(masks, np.fromiter((candidate.mask for candidate in useful), np.int64, count))
    demand = np.fromiter((candidate.slots for candidate in useful), float, count)
    use = np.zeros((count, elapsed + 1))
    utility = np.zeros((count, grid.steps))
    if useful:
        np.stack([candidate.consumption for candidate in useful], out=use[:, :elapsed])
        use *= demand[:, None]
        np.stack([candidate.utility for candidate in useful], out=utility)
        np.maximum(utility, 0.0, out=utility)
    bits = np.arange(partitions)
    in_mask = (np.array(masks, dtype=np.int64)[:, None] >> bits) & 1
    in_union = (np.array(unions, dtype=np.int64)[:, None] >> bits) & 1
    inside = np.asarray((in_mask[:, None, :] <= in_union[None, :, :]).all(axis=2))
    held = np.array([job.slots for job in running], dtype=float).reshape(len(running), partitions)
    stays = np.array([job.remaining for job in running], dtype=float).reshape(len(running), grid.steps)
    # Below 0 where executors were lost: then nothing fits, but the empty plan must.
    free_of = np.maximum(capacity[:, None] - held.T @ stays, 0.0)
    preemptible = np.array([n for n, job in enumerate(running) if job.cost is not None], dtype=np.int64)
    cost = np.array([job.cost for job in running if job.cost is not None], dtype=float)
    return Problem(
        grid=grid,
        jobs=jobs,
        candidate_of=np.array(numbers, dtype=np.int64),
        job_of=job_of,
        mask_of=mask_of,
        demand=demand,
        utility=utility,
        use=use,
        masks=masks,
        unions=unions,
        inside=inside,
        first=np.searchsorted(mask_of, np.arange(len(masks)), side="left"),
        last=np.searchsorted(mask_of, np.arange(len(masks)), side="right"),
        groups_of=_groups_of(job_of, jobs),
        free=in_union @ free_of,
        free_of=free_of,
        preemptible=preemptible,
        cost=cost,
        credit=held[preemptible] @ in_union.T.astype(float),
        held=held[preemptible],
        remaining=stays[preemptible],
    )


def _groups_of(job_of: Ints, jobs: int) -> Ints:
    """The groups of each job as rows, padded with the number of groups."""
    count = len(job_of)
    order = np.argsort(job_of, kind="stable")
    sizes = np.bincount(job_of, minlength=jobs)
    table = np.full((jobs, max(1, int(sizes.max(initial=0)))), count, dtype=np.int64)
    ordered = job_of[order]
    begins = np.cumsum(sizes) - sizes
    table[ordered, np.arange(count) - begins[ordered]] = order
    return table
