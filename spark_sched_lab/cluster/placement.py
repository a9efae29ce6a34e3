"""The choice of a task's slot: free and held slots by node. The time of a choice does not depend on their
number, except for powerful jobs."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Protocol

from spark_sched_lab.cluster.cluster import ClusterSpec, NodeSpec
from spark_sched_lab.cluster.open_nodes import NONE, OpenNodes
from spark_sched_lab.enforce.enforcement import by_speed
from spark_sched_lab.engine.records import JobRun, StageRun

_priority = attrgetter("priority")


class NodeTable:
    """What stays the same of each node.

    Attributes:
        names: of the nodes, by number.
        number: of each node, by its name.
        racks: by number; -1: none.
        partition: by number.
        profiles: all that nodes have.
        of_profile: the nodes of each resource profile; empty: all are of one.
    """

    __slots__ = ("names", "number", "of_profile", "partition", "profiles", "racks")

    def __init__(self, nodes: Sequence[NodeSpec]) -> None:
        self.names = [node.name for node in nodes]
        self.number = {node.name: i for i, node in enumerate(nodes)}
        self.racks = [-1 if node.rack is None else node.rack for node in nodes]
        self.partition = [node.partition for node in nodes]
        self.of_profile: dict[int, list[int]] = {}
        self.profiles = frozenset(node.profile for node in nodes)
        if len(self.profiles) > 1:
            for i, node in enumerate(nodes):
                self.of_profile.setdefault(node.profile, []).append(i)

    def that_run(self, stage: StageRun) -> list[int] | None:
        """The nodes of the stage's resource profile; None: all are."""
        return self.of_profile.get(stage.spec.profile, []) if self.of_profile else None


@dataclass(slots=True)
class Offers:
    """Which free slots Spark offers.

    Attributes:
        all: whether it offers all at this instant, not those alone that became free.
        changes: how often a node joined or left.
    """

    all: bool = False
    changes: int = 0


class AskedLedger(Protocol):
    """The ledger's answers about nodes, by their numbers, at a time."""

    def may_launch(self, job: JobRun, node: int, now_ms: int) -> bool:
        """Whether a task of the job may take a slot of the node."""
        ...

    def refused_on(self, job: JobRun, node: int, now_ms: int) -> int:
        """How many of the node's free slots are held against the job."""
        ...


class Slots:
    """Free slots, less those held for some job.

    Attributes:
        nodes: their names and places.
        free, held: by node.
        present: whether nodes are there.
        left: number of running tasks of nodes that accept no more tasks.
        open_total: free slots that no job holds.
        free_total: free slots.
        holders: by job, how many slots it holds on which nodes.
        ledger: who may take held slots. `Reservations` sets it, without which nobody holds a slot.
        opened: nodes where a slot became open since the engine last emptied this.
        offers: what Spark offers at this instant.
    """

    ledger: AskedLedger

    __slots__ = (
        "_levels", "_locality", "_open", "_slowness", "free", "free_total", "held", "holders", "ledger",
        "left", "nodes", "offers", "open_total", "opened", "present",
    )  # fmt: skip

    def __init__(self, cluster: ClusterSpec, rng: random.Random) -> None:
        nodes = cluster.nodes
        self.nodes = NodeTable(nodes)
        self.free = [0 if node.from_ms else node.slots for node in nodes]
        self.held = [0] * len(nodes)
        self.present = [node.from_ms == 0 for node in nodes]
        self.left: dict[int, int] = {}
        self.free_total = self.open_total = sum(self.free)
        self.holders: dict[JobRun, dict[int, int]] = {}
        self.opened: dict[int, None] = {}
        self.offers = Offers()
        self._locality = cluster.locality
        self._slowness: Mapping[str, float] = {}
        self._levels: list[list[int]] = []  # nodes by speed, the fastest first; empty: all are equal
        sleep = cluster.power_policy == "sleep" and cluster.model == "sharing"
        self._open = OpenNodes(self.nodes.partition, sleep, rng)
        for node, free in enumerate(self.free):
            if free:
                self._open.add(node)

    # ---- changes ----

    def take(self, node: int) -> None:
        """A task starts on a free slot of ``node``; the hold it used, if any, is dropped by its own call."""
        self.free[node] -= 1
        self.free_total -= 1
        self.open_total -= 1
        if self.free[node] <= self.held[node]:
            self._open.remove(node)

    def give(self, node: int) -> None:
        """A task on ``node`` ended."""
        if self.left and node in self.left:
            self.left[node] -= 1
            return
        self.free[node] += 1
        self.free_total += 1
        self.open_total += 1
        self.opened[node] = None
        if self._open.place[node] == NONE and self.free[node] > self.held[node]:
            self._open.add(node)

    def join(self, node: int, slots: int) -> None:
        """A node joins with all its slots free."""
        self.present[node] = True
        self.offers.changes += 1
        self.offers.all = True
        self.free[node] = slots
        self.free_total += slots
        self.open_total += slots
        self.opened[node] = None
        self._open.add(node)

    def leave(self, node: int, slots: int) -> None:
        """From now on no task is launched on ``node``; none of its ``slots`` slots is held at this point."""
        self.present[node] = False
        self.offers.changes += 1
        self.left[node] = slots - self.free[node]
        self.free_total -= self.free[node]
        self.open_total -= self.free[node]
        self.free[node] = 0
        self._open.remove(node)

    def hold(self, job: JobRun, node: int) -> None:
        self.held[node] += 1
        self.open_total -= 1
        mine = self.holders.setdefault(job, {})
        mine[node] = mine.get(node, 0) + 1
        if self.free[node] <= self.held[node]:
            self._open.remove(node)

    def unhold(self, job: JobRun, node: int) -> None:
        self.held[node] -= 1
        self.open_total += 1
        self.opened[node] = None
        mine = self.holders[job]
        if mine[node] == 1:
            del mine[node]
            if not mine:
                del self.holders[job]
        else:
            mine[node] -= 1
        if self._open.place[node] == NONE and self.free[node] > self.held[node]:
            self._open.add(node)

    def sleeps(self, node: int, asleep: bool) -> None:
        """A node that sleeps is taken only when none that is awake will do."""
        self._open.sleeps(node, asleep)

    def rank(self, slowness: Mapping[str, float]) -> None:
        """Powerful jobs take the nodes in this order from now on (`Plan.slowness`)."""
        if slowness != self._slowness:
            self._slowness = slowness
            names, number = self.nodes.names, self.nodes.number
            self._levels = [[number[n] for n in level] for level in by_speed(names, slowness)]

    # ---- choice ----

    def choose(self, stage: StageRun, now_ms: int) -> int:
        """The node where the stage's next task starts now, or NONE.

        Its job's held slots come first: they are where its last stage ran. Among unheld slots those with the
        task's input come first, then preferred partitions, then for powerful jobs the fastest nodes, then
        awake nodes, then a random one. Slots held for other jobs are taken last, and only those that the
        ledger does not refuse (Algorithm 1, TRYALLOCATETASK); those with the task's input before any without.
        """
        job = stage.job
        mine = self.holders.get(job)
        places = stage.places
        if self.nodes.of_profile:
            return self._choose_of_profile(stage, now_ms)
        local = places.local
        if local is not None:
            node = self.near(job, local, now_ms)
            if node != NONE:
                return node
            if mine and self._held_is_near():
                return next(iter(mine))
            if now_ms < places.any_at_ms:
                if now_ms < places.rack_at_ms:
                    return NONE
                return self._on_rack(places.local_racks, mine)
        if mine:
            return next(iter(mine))
        if self.open_total > 0:
            preferred = job.spec.preferred
            node = NONE if preferred is None else self._open.random_among(preferred.partitions)
            if node == NONE and self._levels and job.terms.powerful and local is None and not stage.spec.gang:
                node = self._open.first_of(self._levels)
            if node == NONE:
                node = self._open.random(self._open.anywhere)
            if node != NONE:
                return node
        return self._override(job, now_ms) if self.holders else NONE

    def near(self, job: JobRun, nodes: Collection[int], now_ms: int) -> int:
        """One of ``nodes`` with a slot that the job holds, that is open or that the job may take from another
        one, in this order; or NONE."""
        node = self._among(nodes, self.holders.get(job))
        return self._override(job, now_ms, nodes) if node == NONE and self.holders else node

    def is_open(self, node: int) -> bool:
        """Whether ``node`` has a free slot that no job holds."""
        return self.free[node] > self.held[node]

    def _choose_of_profile(self, stage: StageRun, now_ms: int) -> int:
        """As `choose`, of the nodes of the stage's resource profile."""
        job, nodes = stage.job, self.nodes.that_run(stage) or []
        mine = self.holders.get(job)
        node = next((n for n in nodes if n in mine), NONE) if mine else NONE
        if node != NONE:
            return node
        open_nodes = [n for n in nodes if self.is_open(n)]
        if open_nodes:
            preferred = job.spec.preferred
            if preferred is not None:
                liked = [n for n in open_nodes if self.nodes.partition[n] in preferred.partitions]
                open_nodes = liked or open_nodes
            if self._levels and job.terms.powerful and not stage.spec.gang:
                open_nodes = next(
                    filter(None, ([n for n in each if n in open_nodes] for each in self._levels))
                )
            return self._open.one_of(open_nodes)
        return self._override(job, now_ms, nodes) if self.holders else NONE

    def choose_within(self, stage: StageRun, share: dict[int, int]) -> int:
        """A node with an open slot on one of the partitions that ``share`` has slots left on, or NONE."""
        of_profile = self.nodes.that_run(stage)
        for partition, slots in share.items():
            if slots > 0:
                if of_profile is None:
                    node = self._open.random_on(partition)
                else:
                    node = self._open.one_of([n for n in self._open.on(partition) if n in of_profile])
                if node != NONE:
                    return node
        return NONE

    def open_on(self, partition: int, stage: StageRun) -> int:
        """Unheld free slots of a partition that the stage may use."""
        of_profile = self.nodes.that_run(stage)
        nodes = (n for n in self._open.on(partition) if of_profile is None or n in of_profile)
        return sum(self.free[node] - self.held[node] for node in nodes)

    def free_to(self, stage: StageRun, now_ms: int) -> int:
        """Free slots that the stage may use and that the ledger does not refuse its job."""
        nodes = self.nodes.that_run(stage)
        if not self.holders:
            return self.open_total if nodes is None else self._open_among(nodes)
        free = self.free
        some = (node for node in (range(len(free)) if nodes is None else nodes) if free[node])
        return sum(
            max(0, free[node] - (self.ledger.refused_on(stage.job, node, now_ms) if self.held[node] else 0))
            for node in some
        )

    def open_by_profile(self) -> dict[int, int]:
        """Unheld free slots by resource profile."""
        of_profile = self.nodes.of_profile
        if not of_profile:
            return {0: self.open_total}
        return {profile: self._open_among(nodes) for profile, nodes in of_profile.items()}

    def _open_among(self, nodes: Iterable[int]) -> int:
        return sum(max(0, self.free[node] - self.held[node]) for node in nodes)

    def could_take(self, stage: StageRun, nodes: Iterable[int], now_ms: int) -> bool:
        """Whether one of ``nodes`` may suit a stage that found none so far; cheaper than a choice."""
        local = stage.places.local
        if local is None or now_ms >= stage.places.rack_at_ms:
            return True
        return not local.keys().isdisjoint(nodes)

    def has_input(self, stage: StageRun, node: int) -> bool:
        """Whether a task that starts on ``node`` has its input there."""
        local = stage.places.local
        if local is None or node in local:
            return True
        return self._held_is_near() and node in self.holders.get(stage.job, ())

    def may_override(self, stage: StageRun, now_ms: int) -> bool:
        """Whether another job holds a slot that a task of the stage may take."""
        return self._override(stage.job, now_ms, self.nodes.that_run(stage)) != NONE

    def _held_is_near(self) -> bool:
        return self._locality is not None and self._locality.held_is_near

    def _among(self, nodes: Iterable[int], mine: dict[int, int] | None) -> int:
        free, held = self.free, self.held
        if mine:
            for node in nodes:
                if node in mine:
                    return node
        for node in nodes:
            if free[node] > held[node]:
                return node
        return NONE

    def _on_rack(self, racks: frozenset[int], mine: dict[int, int] | None) -> int:
        rack_of = self.nodes.racks
        for node in mine or ():
            if rack_of[node] in racks:
                return node
        for node in self._open:
            if rack_of[node] in racks:
                return node
        return NONE

    def _override(self, job: JobRun, now_ms: int, among: Collection[int] | None = None) -> int:
        """A slot held for another job that the ledger does not refuse, or NONE: of the lowest priority, of
        equals of the latest holder; on one of ``among`` if these nodes are given."""
        latest_first = reversed(self.holders)
        for holder in sorted(latest_first, key=_priority):
            if holder is not job:
                nodes = self.holders[holder]
                node = next((n for n in nodes if among is None or n in among), NONE)
                if node != NONE and self.ledger.may_launch(job, node, now_ms):
                    return node
        return NONE
