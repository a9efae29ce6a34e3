"""The part of the slots that each tenants' queue gets by floors, weights and ceilings."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np

from spark_sched.config.queues import QueueSpec, QueueTree
from spark_sched.predict.queue_model import parts_of
from spark_sched.state import JobMarks


class QueueParts:
    """Where a policy's jobs are, and what they have there.

    The queues are those of the policy's start. No groups of users are known here, as in the simulator: a rule
    by group matches no job. Where queues do not divide the slots by floors or weights, jobs of all queues are
    in one order, and all slots are theirs.
    """

    def __init__(self, tree: QueueTree | None) -> None:
        self._tree = tree if tree is not None and tree.shares else None

    @property
    def divide(self) -> bool:
        """Whether queues divide the slots."""
        return self._tree is not None

    def queue_of(self, marks: JobMarks) -> str:
        """The lowest queue of a job; empty where queues do not divide the slots."""
        if self._tree is None:
            return ""
        return self._tree.place(marks.user or "", marks.name, marks.job_class or "")

    def slots_of(self, queue: str, present: Collection[str], slots: int) -> float:
        """What jobs of a lowest queue have of these slots while those of the queues ``present`` have all that
        they can get: from the top down ``min(ceiling, max(floor, level * weight))``."""
        tree = self._tree
        if tree is None:
            return float(slots)
        there_is = float(slots)
        active = {spec.path for each in {queue, *present} for spec in tree.path_of(each)}
        for spec in tree.path_of(queue):
            siblings = [each for each in tree.queues if each.parent == spec.parent and each.path in active]
            there_is = _parts(tree, siblings, there_is, slots)[siblings.index(spec)]
        return there_is


def _parts(tree: QueueTree, siblings: Iterable[QueueSpec], there_is: float, slots: int) -> list[float]:
    """Of what their parent has, in the order of the siblings."""
    ceilings = [float(slots) if each.ceiling is None else float(each.ceiling.of(slots)) for each in siblings]
    floors = [min(at, _floor(tree, each, slots)) for at, each in zip(ceilings, siblings, strict=True)]
    weights = [each.weight or 1.0 for each in siblings]
    found = parts_of(np.array([ceilings]), np.array([floors]), np.array([there_is]), np.array(weights))
    return [float(part) for part in found[0]]


def _floor(tree: QueueTree, spec: QueueSpec, slots: int) -> float:
    """What the queue is promised, or those below it are."""
    own = spec.floor.at_most(slots) if spec.floor is not None else 0
    return max(float(own), sum(_floor(tree, each, slots) for each in tree.queues if each.parent == spec.path))
