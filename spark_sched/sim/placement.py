"""Which slot a task gets: free and held slots by node, in time that does not grow with their number."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

from spark_sched.sim.cluster import ClusterSpec
from spark_sched.sim.records import JobRun, StageRun

__all__ = ["NONE", "Slots"]

#: No node will do.
NONE = -1


class Slots:
    """Free slots, less those held for some job.

    Nodes with an unheld free slot stand in one list per *group* (partition and whether the node sleeps), so
    that a random one of a partition is found at once. Spark shuffles its offers for the same end: to spread
    tasks evenly over nodes.
    """

    def __init__(self, cluster: ClusterSpec, rng: random.Random) -> None:
        nodes = cluster.nodes
        self.names = [node.name for node in nodes]
        self.number = {node.name: i for i, node in enumerate(nodes)}
        self.free = [0 if node.from_ms else node.slots for node in nodes]
        self.held = [0] * len(nodes)
        self.present = [node.from_ms == 0 for node in nodes]
        self.open_total = sum(self.free)
        self.free_total = self.open_total
        self.holders: dict[JobRun, dict[int, int]] = {}
        #: Whether a slot held by the first job may go to the second, of equal priority, at this time.
        self.gives_way: Callable[[JobRun, JobRun, int], bool] | None = None
        #: Nodes where a slot became open since the engine last emptied this; kept if tasks wait for nodes.
        self.opened: dict[int, None] = {}
        self._local = cluster.locality is not None
        self._held_is_near = cluster.locality is not None and cluster.locality.held_is_near
        self.racks = [-1 if node.rack is None else node.rack for node in nodes]
        self._rng = rng
        self.partition = [node.partition for node in nodes]
        self._partitions = sorted(set(self.partition))
        self._asleep = [cluster.power_policy == "sleep" and cluster.model == "sharing"] * len(nodes)
        # Group 2p: partition p, awake; 2p + 1: asleep.
        self._groups: list[list[int]] = [[] for _ in range(2 * (self._partitions[-1] + 1))]
        self._place: list[int] = [NONE] * len(nodes)
        for node in range(len(nodes)):
            if self.free[node]:
                self._list(node)
        self.left: dict[int, int] = {}  # running tasks of nodes that take nothing more
        self._may_sleep = any(self._asleep)
        self._anywhere = self._tiers(self._partitions)

    # ---- changes ----

    def take(self, node: int) -> None:
        """A task starts on a free slot of ``node``; the hold it used, if any, is dropped by its own call."""
        self.free[node] -= 1
        self.free_total -= 1
        self.open_total -= 1
        if self.free[node] <= self.held[node]:
            self._unlist(node)

    def give(self, node: int) -> None:
        """A task on ``node`` ended."""
        if self.left and node in self.left:
            self.left[node] -= 1
            return
        self.free[node] += 1
        self.free_total += 1
        self.open_total += 1
        if self._local:
            self.opened[node] = None
        if self._place[node] == NONE and self.free[node] > self.held[node]:
            self._list(node)

    def join(self, node: int, slots: int) -> None:
        """A node comes with all its slots free."""
        self.present[node] = True
        self.free[node] = slots
        self.free_total += slots
        self.open_total += slots
        if self._local:
            self.opened[node] = None
        self._list(node)

    def leave(self, node: int, slots: int) -> None:
        """Nothing is launched on ``node`` of ``slots`` any more; nothing is held there by now."""
        self.present[node] = False
        self.left[node] = slots - self.free[node]
        self.free_total -= self.free[node]
        self.open_total -= self.free[node]
        self.free[node] = 0
        self._unlist(node)

    def hold(self, job: JobRun, node: int) -> None:
        self.held[node] += 1
        self.open_total -= 1
        mine = self.holders.setdefault(job, {})
        mine[node] = mine.get(node, 0) + 1
        if self.free[node] <= self.held[node]:
            self._unlist(node)

    def unhold(self, job: JobRun, node: int) -> None:
        self.held[node] -= 1
        self.open_total += 1
        if self._local:
            self.opened[node] = None
        mine = self.holders[job]
        if mine[node] == 1:
            del mine[node]
            if not mine:
                del self.holders[job]
        else:
            mine[node] -= 1
        if self._place[node] == NONE and self.free[node] > self.held[node]:
            self._list(node)

    def sleeps(self, node: int, asleep: bool) -> None:
        """A node that sleeps is taken only when none that is awake will do."""
        if self._asleep[node] != asleep:
            listed = self._place[node] != NONE
            if listed:
                self._unlist(node)
            self._asleep[node] = asleep
            if listed:
                self._list(node)

    # ---- choice ----

    def choose(self, stage: StageRun, now_ms: int) -> int:
        """The node where the stage's next task starts now, or NONE.

        Its job's held slots come first: they are where its last stage ran. Among unheld slots those with the
        task's input come first, then preferred partitions, then awake nodes, then chance. What others hold is
        taken last, and from lower priorities only (Algorithm 1, TRYALLOCATETASK).
        """
        job = stage.job
        mine = self.holders.get(job)
        local = stage.local
        if local is not None:
            node = self._among(local, mine)
            if node != NONE:
                return node
            if self._held_is_near and mine:
                return next(iter(mine))
            if now_ms < stage.any_at_ms:
                if now_ms < stage.rack_at_ms:
                    return NONE
                return self._on_rack(stage.local_racks, mine)
        if mine:
            return next(iter(mine))
        if self.open_total > 0:
            preferred = job.spec.preferred
            if preferred is not None:
                for tier in self._tiers(p for p in self._partitions if p in preferred):
                    node = self._random(tier)
                    if node != NONE:
                        return node
            for tier in self._anywhere:
                node = self._random(tier)
                if node != NONE:
                    return node
        return self._override(job, now_ms) if self.holders else NONE

    def near(self, job: JobRun, nodes: Iterable[int]) -> int:
        """One of ``nodes`` with a slot that the job holds or that is open, or NONE."""
        return self._among(nodes, self.holders.get(job))

    def is_open(self, node: int) -> bool:
        """Whether ``node`` has a free slot that nobody holds."""
        return self.free[node] > self.held[node]

    def choose_within(self, share: dict[int, int]) -> int:
        """A node with an open slot on one of the partitions that ``share`` has slots left on, or NONE."""
        for partition, slots in share.items():
            if slots > 0 and 2 * partition < len(self._groups):
                for tier in self._tiers((partition,)):
                    node = self._random(tier)
                    if node != NONE:
                        return node
        return NONE

    def open_on(self, partition: int) -> int:
        """Unheld free slots of a partition."""
        groups = self._groups[2 * partition : 2 * partition + 2]
        return sum(self.free[node] - self.held[node] for group in groups for node in group)

    def could_take(self, stage: StageRun, nodes: Iterable[int], now_ms: int) -> bool:
        """Whether one of ``nodes`` may do for a stage that found none so far: cheaper than a choice."""
        local = stage.local
        if local is None or now_ms >= stage.rack_at_ms:
            return True
        return not local.keys().isdisjoint(nodes)

    def has_input(self, stage: StageRun, node: int) -> bool:
        """Whether a task that starts on ``node`` has its input there."""
        local = stage.local
        if local is None or node in local:
            return True
        return self._held_is_near and node in self.holders.get(stage.job, ())

    def may_override(self, job: JobRun, now_ms: int) -> bool:
        """Whether another job holds a slot that a task of ``job`` may take."""
        return any(self._may_take(job, holder, now_ms) for holder in self.holders)

    def _may_take(self, job: JobRun, holder: JobRun, now_ms: int) -> bool:
        if holder.priority != job.priority:
            return holder.priority < job.priority
        if holder is job or holder.rule.pool is None or self.gives_way is None:
            return False
        return self.gives_way(holder, job, now_ms)

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
        for node in mine or ():
            if self.racks[node] in racks:
                return node
        for tier in self._anywhere:
            for group in tier:
                for node in group:
                    if self.racks[node] in racks:
                        return node
        return NONE

    def _override(self, job: JobRun, now_ms: int) -> int:
        """A slot held by the lowest priority below the job's own, else by an equal that gives way."""
        lowest: JobRun | None = None
        for holder in self.holders:
            lower = lowest is None or holder.priority <= lowest.priority
            if lower and self._may_take(job, holder, now_ms):
                lowest = holder
        return NONE if lowest is None else next(iter(self.holders[lowest]))

    # ---- the lists ----

    def _tiers(self, partitions: Iterable[int]) -> list[list[list[int]]]:
        """Awake groups, then sleeping ones if nodes ever sleep."""
        chosen = list(partitions)
        tiers = [[self._groups[2 * p] for p in chosen]]
        return [*tiers, [self._groups[2 * p + 1] for p in chosen]] if self._may_sleep else tiers

    def _random(self, tier: list[list[int]]) -> int:
        """A node of the tier's groups, each as likely as any other; NONE where all are empty."""
        if len(tier) == 1:
            group = tier[0]
            if len(group) > 1:
                return group[int(self._rng.random() * len(group))]
            return group[0] if group else NONE
        count = sum(map(len, tier))
        at = int(self._rng.random() * count)
        for group in tier:
            if at < len(group):
                return group[at]
            at -= len(group)
        return NONE

    def _group(self, node: int) -> list[int]:
        return self._groups[2 * self.partition[node] + self._asleep[node]]

    def _list(self, node: int) -> None:
        group = self._group(node)
        self._place[node] = len(group)
        group.append(node)

    def _unlist(self, node: int) -> None:
        place = self._place[node]
        if place != NONE:
            group = self._group(node)
            last = group.pop()
            if last != node:
                group[place] = last
                self._place[last] = place
            self._place[node] = NONE
