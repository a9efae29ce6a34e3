"""The energy of nodes over a slot: operation and, for those asleep, activation (§3.1.2)."""

from __future__ import annotations

import numpy as np

from spark_sched.arrays import Floats
from spark_sched_lab.energy.centre import DataCentre
from spark_sched_lab.energy.paths import SwitchCosts
from spark_sched_lab.energy.topology import Topology


class SlotCosts:
    """Joules of a slot of ``slot_s`` seconds.

    Attributes:
        activation_j: of each server, P_peak · ρ; shape (H,).
        idle_j: idle power over the slot, shape (H,).
        cpu_j, memory_j: energy of a unit of CPU and of memory in use over the slot, shape (H,).
        switch_j, switch_activation_j: of a switch of each layer that is on over the slot, and to turn it on.
    """

    def __init__(self, topology: Topology, slot_s: float) -> None:
        by_server = topology.by_server
        self.activation_j: Floats = by_server(lambda kind: kind.peak_w) * topology.server_wake_s
        self.idle_j: Floats = by_server(lambda kind: kind.idle_w) * slot_s
        self.cpu_j: Floats = by_server(lambda kind: kind.cpu_w / kind.cpu) * slot_s
        self.memory_j: Floats = by_server(lambda kind: kind.memory_w / kind.memory) * slot_s
        self.switch_j = [kind.on_w * slot_s for kind in topology.switches]
        self.switch_activation_j = [kind.on_w * topology.switch_wake_s for kind in topology.switches]

    def servers(self, centre: DataCentre, cpu: float, memory: float) -> Floats:
        """Operation with a task's demand, and activation of servers asleep, shape (H,).

        The load of other tasks is not a cost of this path, because it is the same for every path.
        """
        operation = self.idle_j + self.cpu_j * cpu + self.memory_j * memory
        return np.where(centre.tasks == 0, operation + self.activation_j, operation)

    def switches(self, centre: DataCentre) -> SwitchCosts:
        """P_switch of each switch: operation, and activation of those asleep."""
        layers = [
            np.where(flows == 0, on_j + activation_j, on_j)
            for on_j, activation_j, flows in zip(
                self.switch_j, self.switch_activation_j, centre.flows, strict=True
            )
        ]
        return SwitchCosts(*layers)
