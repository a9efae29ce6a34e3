"""The simulated cluster: nodes with slots, partitions, racks and distances; or servers that share CPU."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from spark_sched.errors import BadInputError


@dataclass(frozen=True, slots=True)
class Power:
    """Power of a server in watts: thesis §6.2.6, equations 6.3 and 6.4."""

    idle_w: float = 0.0
    cpu_w: float = 0.0
    memory_w: float = 0.0
    sleep_w: float = 0.0

    @property
    def peak_w(self) -> float:
        return self.idle_w + self.cpu_w + self.memory_w


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """One node.

    Attributes:
        name: unique; the executor's key in events and snapshots.
        slots: number of tasks that it can run at once.
        partition: number of its equivalence set (3Sigma §4.3), from 0.
        rack: number of its rack; None: every node is a rack of its own.
        speed: tasks run this many times as fast as their durations say.
        cores: cores that its tasks share (processor sharing only).
        memory: memory that its tasks share, in any unit (processor sharing only); 0: not modelled.
        power: what it draws (processor sharing only).
        from_ms: it joins then (slots only).
        until_ms: from then on no task is launched and no slot held on it, but its running tasks continue, as
            on a decommissioned executor (slots only); None: it stays.
        dies: whether its running tasks are lost at ``until_ms`` and wait again.
        profile: number of its resource profile (slots only): it runs stages of this profile alone.
    """

    name: str
    slots: int
    partition: int = 0
    rack: int | None = None
    speed: float = 1.0
    cores: int = 1
    memory: float = 0.0
    power: Power = field(default_factory=Power)
    from_ms: int = 0
    until_ms: int | None = None
    dies: bool = False
    profile: int = 0


@dataclass(frozen=True, slots=True)
class Locality:
    """The slowdown of a task away from its input: "Speculative Slot Reservation" §VI-B.

    The input of a stage with parents is on the nodes that ran the parents' tasks. For ``wait_ms`` after the
    stage's start its tasks accept only those; where racks are given, their racks for as long again; then any
    slot. Elsewhere a task runs ``slowdown`` times as long (``rack_slowdown`` on the rack of its input).
    ``held_is_near``: a slot that is held for the job counts as near, as if the input were sent there while
    the slot is held.
    """

    wait_ms: int = 3_000
    slowdown: float = 5.0
    rack_slowdown: float | None = None
    held_is_near: bool = False


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """A cluster and the model of its servers.

    Attributes:
        nodes: in a fixed order, which decides ties.
        model: ``slots``: a task has its slot for itself. ``sharing``: the tasks of a node share its cores
            equally, each at most one (thesis §6.2.2).
        locality: None: a task's input is everywhere.
        memory_eviction: which task is evicted when a node's memory runs out: ``LSF`` the last started task
            whose need is not met, ``LPF`` tasks of the lowest priority, latest first, until the need is met
            (§6.2.3.4).
        power_policy: whether an empty node stays ``idle`` or goes to ``sleep`` at once (§6.2.5).
        wake_ms: time from sleep to the first instruction, at peak power.
    """

    nodes: tuple[NodeSpec, ...]
    model: Literal["slots", "sharing"] = "slots"
    locality: Locality | None = None
    memory_eviction: Literal["LSF", "LPF"] = "LSF"
    power_policy: Literal["idle", "sleep"] = "idle"
    wake_ms: int = 30_000

    def check(self) -> None:
        """Raise BadInputError if the cluster is invalid: the sentence names the node and the value."""
        if not self.nodes:
            raise BadInputError("the cluster has no node: give it one")
        if len({node.name for node in self.nodes}) != len(self.nodes):
            raise BadInputError("two nodes of the cluster have the same name: give each its own")
        for node in self.nodes:
            for what, value, least in (("slots", node.slots, 1), ("cores", node.cores, 1)):
                if value < least:
                    raise BadInputError(
                        f"node {node.name!r} has {what} {value} but must have {least} or more"
                    )
            if not node.speed > 0.0:
                raise BadInputError(f"node {node.name!r} has speed {node.speed!r} but it must be above 0")
            if node.from_ms < 0 or (node.until_ms is not None and node.until_ms < node.from_ms):
                raise BadInputError(
                    f"node {node.name!r} is there from {node.from_ms} to {node.until_ms} ms, but must not "
                    "end before it starts"
                )
            if self.model == "sharing" and (node.from_ms or node.until_ms is not None):
                raise BadInputError(
                    f"node {node.name!r} joins or leaves, which only nodes of the slots model can"
                )
            if node.partition < 0:
                raise BadInputError(
                    f"node {node.name!r} has partition {node.partition} but it must be 0 or more"
                )
        if len({node.profile for node in self.nodes}) > 1 and (
            self.locality is not None or self.model == "sharing"
        ):
            raise BadInputError(
                "nodes have different profiles, which is possible only in the slots model without locality"
            )
        if self.locality is not None and not self.locality.slowdown >= 1.0:
            raise BadInputError(f"locality.slowdown is {self.locality.slowdown!r} but must be 1 or more")

    @property
    def slots(self) -> int:
        return sum(node.slots for node in self.nodes)


def uniform_nodes(count: int, slots: int, *, partitions: int = 1) -> tuple[NodeSpec, ...]:
    """``count`` equal nodes ``n0``, ``n1``, …, assigned to partitions round-robin."""
    return tuple(NodeSpec(f"n{i}", slots, partition=i % partitions) for i in range(count))
