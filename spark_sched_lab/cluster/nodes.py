"""Nodes that join, leave or die while a simulation runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spark_sched_lab.cluster.cluster import NodeSpec
from spark_sched_lab.cluster.placement import Slots
from spark_sched_lab.engine import planning
from spark_sched_lab.engine.agenda import Agenda, Instant, NodeChange
from spark_sched_lab.engine.attempts import Attempts
from spark_sched_lab.engine.emitted_events import EmittedEvents
from spark_sched_lab.engine.plan_in_force import Plans
from spark_sched_lab.engine.reservations import Reservations


@dataclass(slots=True, eq=False)
class Nodes:
    """Updates slots, reservations and plans when nodes join and leave."""

    nodes: Sequence[NodeSpec]
    instant: Instant
    slots: Slots
    reservations: Reservations
    emitted: EmittedEvents
    attempts: Attempts
    plans: Plans

    def schedule(self, agenda: Agenda) -> None:
        """Put the times at which nodes join and leave on the agenda."""
        for number, node in enumerate(self.nodes):
            if node.from_ms:
                agenda.push(node.from_ms, NodeChange(number, True))
            if node.until_ms is not None:
                agenda.push(node.until_ms, NodeChange(number, False))

    def changed(self, node: int, joins: bool) -> None:
        spec, now_ms = self.nodes[node], self.instant.now_ms
        totals = self.plans.totals.copy()  # snapshots keep theirs
        totals[node] = spec.slots if joins else 0
        self.plans.totals = totals
        if self.reservations.tenants is not None:
            self.reservations.tenants.usage.capacity(sum(totals))
        self.instant.changed |= planning.NODES
        if joins:
            self.slots.join(node, spec.slots)
            self.reservations.node_joined(node, now_ms)
            self.emitted.node_joined(spec, now_ms)
        else:
            self.reservations.node_leaves(node, now_ms)
            self.slots.leave(node, spec.slots)
            if spec.dies:
                self.attempts.lose(node)
            self.attempts.node_emptied(node)
