"""Tasks that prefer nodes of their own: Spark's delay scheduling, one task at a time.

A task launches at once on a node near its input. Elsewhere it launches when its stage has waited long enough
since it last got a slot there. As in Spark since 3.1, the wait does not restart after the stage has refused a
slot.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_sched_lab.cluster.placement import Slots
    from spark_sched_lab.engine.records import StageRun
    from spark_sched_lab.engine.workload import StageSpec


class Near:
    """The preferred nodes of one active stage's tasks.

    Attributes:
        any_at_ms: from then on its tasks accept any node.
        refused: whether it refused a slot because it was too far away; `any_at_ms` is fixed from then on.
    """

    __slots__ = ("_nodes", "_seen", "_wait_ms", "any_at_ms", "refused")

    def __init__(self, spec: StageSpec, numbers: Mapping[str, int], now_ms: int) -> None:
        names = spec.near if spec.near_wait_ms else ()
        # In the order of their numbers: a set of names has another order in every process.
        known = {nodes: tuple(sorted(numbers[name] for name in nodes)) for nodes in set(names)}
        self._nodes: list[tuple[int, ...]] = [known[nodes] for nodes in names] or [()] * spec.tasks
        self._seen = [numbers[name] for name in spec.seen_on]
        self._wait_ms = spec.near_wait_ms
        self.any_at_ms = now_ms + spec.near_wait_ms
        self.refused = False

    def choose(self, stage: StageRun, pending: list[int], slots: Slots, now_ms: int) -> int:
        """The node for the one of ``pending`` that launches next, which is moved to its end; or NONE."""
        tried: set[tuple[int, ...]] = set()
        free_place = -1
        # As Spark, which asks per slot: a task that prefers its node goes before those that prefer none.
        for place in range(len(pending) - 1, -1, -1):
            nodes = self._nodes[pending[place]]
            if nodes in tried:
                continue
            tried.add(nodes)
            if not nodes or not any(slots.present[node] for node in nodes):
                free_place = max(free_place, place)
                continue
            node = slots.near(stage.job, nodes, now_ms)
            if node >= 0:
                pending.append(pending.pop(place))
                if not self.refused:
                    self.any_at_ms = now_ms + self._wait_ms
                return node
        if free_place >= 0:
            node = self._anywhere(stage, pending[free_place], slots, now_ms)
            if node >= 0:
                pending.append(pending.pop(free_place))
                return node
        # A task that reads map outputs gets most of them from other nodes wherever it runs, and a slot held
        # for it is idle meanwhile (ADR 30; live: ``SchedTaskSetManager.offered``).
        takes_own = bool(stage.spec.parents) and stage.job in slots.holders
        if takes_own or now_ms >= self.any_at_ms:
            return self._anywhere(stage, pending[-1], slots, now_ms)
        return -1

    def _anywhere(self, stage: StageRun, task: int, slots: Slots, now_ms: int) -> int:
        """As `Slots.choose`, with the node where the task was seen in the place of chance."""
        if self._seen and stage.job not in slots.holders:
            node = self._seen[task]
            if slots.is_open(node):
                return node
        return slots.choose(stage, now_ms)
