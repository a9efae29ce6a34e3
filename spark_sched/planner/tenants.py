"""Tenants' queues in the model of the queue: floors, weights, ceilings, and who is admitted."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from spark_sched.arrays import Floats
from spark_sched.config.queues import QueueSpec, QueueTree
from spark_sched.predict.queue_model import Layer, Limit
from spark_sched.state import JobMarks


class Tenants:
    """The tree of queues, and the queue of each job. A job keeps its queue until it ends."""

    def __init__(self, tree: QueueTree | None) -> None:
        self.tree = tree
        self._queue_of: dict[str, str] = {}
        above = {spec.parent for spec in tree.queues} if tree is not None else set()
        leaves = [spec.path for spec in tree.queues if spec.path not in above] if tree is not None else []
        places = {spec.path: at for at, spec in enumerate(tree.queues)} if tree is not None else {}
        if tree is not None:
            # Queues of one parent follow each other.
            leaves.sort(key=lambda leaf: [places[spec.path] for spec in tree.path_of(leaf)])
        self._number = {leaf: at for at, leaf in enumerate(leaves)}
        self._leaves = leaves

    @property
    def shares(self) -> bool:
        """Whether queues divide the slots by floors and weights."""
        return self.tree is not None and self.tree.shares

    def queue_of(self, job: str, marks: JobMarks) -> int:
        """The number of the job's queue; 0 without queues."""
        if self.tree is None:
            return 0
        if job not in self._queue_of:
            self._queue_of[job] = self.tree.place(marks.user or "", marks.name, marks.job_class or "")
        return self._number[self._queue_of[job]]

    def forget(self, job: str) -> None:
        self._queue_of.pop(job, None)

    def clear(self) -> None:
        """Forget all jobs: events will report the active ones again."""
        self._queue_of.clear()

    def layers(self, queues: Sequence[int], weights: Floats, slots: int) -> tuple[Layer, ...]:
        """Those above groups of jobs, of queues in ascending order, with these weights in their queues."""
        tree = self.tree
        if tree is None or not tree.shares:
            return ()
        present = sorted(set(queues))
        paths = [tree.path_of(self._leaves[queue]) for queue in present]
        depth = max(map(len, paths))
        found: list[Layer] = []
        above = [0] * len(paths)
        for level in range(depth):
            specs = [path[min(level, len(path) - 1)] for path in paths]
            new = [True, *(a is not b for a, b in pairwise(specs))]
            at = (np.cumsum(new) - 1).tolist()
            nodes = [spec for spec, is_new in zip(specs, new, strict=True) if is_new]
            ceiling = np.array([_ceiling(spec, slots) for spec in nodes])
            found.append(
                Layer(
                    np.array([place for place, is_new in zip(above, new, strict=True) if is_new]),
                    np.array([spec.weight or 1.0 for spec in nodes]),
                    np.minimum(ceiling, [self._floor(spec, tree, slots) for spec in nodes]),
                    ceiling,
                )
            )
            above = at
        if len(queues) > len(present):
            numbers = {queue: at for at, queue in enumerate(present)}
            none = np.zeros(len(queues))
            found.append(Layer(np.array([numbers[q] for q in queues]), weights, none, none + np.inf))
        return tuple(found)

    def _floor(self, spec: QueueSpec, tree: QueueTree, slots: int) -> float:
        """What the queue is promised, or those below it are."""
        own = spec.floor.at_most(slots) if spec.floor is not None else 0
        below = sum(self._floor(each, tree, slots) for each in tree.queues if each.parent == spec.path)
        return max(float(own), below)

    def limits(
        self, queues: Sequence[int], admission: Sequence[tuple[float, ...]], slots: int
    ) -> tuple[Limit, ...]:
        """Of jobs with these queues, admitted in the order of these keys."""
        tree = self.tree
        if tree is None:
            return ()
        order = sorted(range(len(queues)), key=admission.__getitem__)
        found = []
        for spec in sorted(tree.queues, key=lambda each: -each.path.count(".")):
            most = np.inf if tree.shares else _ceiling(spec, slots)
            if np.isinf(most) and spec.max_running_jobs is None:
                continue
            below = {self._number[leaf] for leaf in self._leaves if f"{leaf}.".startswith(f"{spec.path}.")}
            jobs = np.array([at for at in order if queues[at] in below], dtype=np.int64)
            if jobs.size:
                found.append(Limit(jobs, most, spec.max_running_jobs))
        return tuple(found)


def _ceiling(spec: QueueSpec, slots: int) -> float:
    return float("inf") if spec.ceiling is None else float(spec.ceiling.of(slots))
