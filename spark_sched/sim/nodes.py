"""Nodes that join, leave or die while a simulation runs."""

from __future__ import annotations

from collections.abc import Sequence

from spark_sched.sim import planning
from spark_sched.sim.agenda import Agenda, Instant, NodeChange
from spark_sched.sim.attempts import Attempts
from spark_sched.sim.cluster import NodeSpec
from spark_sched.sim.emitted_events import EmittedEvents
from spark_sched.sim.placement import Slots
from spark_sched.sim.plan_in_force import Plans
from spark_sched.sim.reservations import Reservations


class Nodes:
    """Updates slots, reservations and plans when nodes join and leave."""

    def __init__(
        self,
        nodes: Sequence[NodeSpec],
        instant: Instant,
        slots: Slots,
        reservations: Reservations,
        emitted: EmittedEvents,
        attempts: Attempts,
        plans: Plans,
    ) -> None:
        self._nodes = nodes
        self._instant = instant
        self._slots = slots
        self._reservations = reservations
        self._emitted = emitted
        self._attempts = attempts
        self._plans = plans

    def schedule(self, agenda: Agenda) -> None:
        """Put the times at which nodes join and leave on the agenda."""
        for number, node in enumerate(self._nodes):
            if node.from_ms:
                agenda.push(node.from_ms, NodeChange(number, True))
            if node.until_ms is not None:
                agenda.push(node.until_ms, NodeChange(number, False))

    def changed(self, node: int, joins: bool) -> None:
        """A node joins or leaves now."""
        spec, now_ms = self._nodes[node], self._instant.now_ms
        totals = self._plans.totals.copy()  # snapshots keep theirs
        totals[node] = spec.slots if joins else 0
        self._plans.totals = totals
        self._instant.changed |= planning.NODES
        if joins:
            self._slots.join(node, spec.slots)
            self._reservations.node_joined(node, now_ms)
            self._emitted.node_joined(spec, now_ms)
        else:
            self._reservations.node_leaves(node, now_ms)
            self._slots.leave(node, spec.slots)
            if spec.dies:
                self._attempts.lose(node)
            self._attempts.node_emptied(node)
