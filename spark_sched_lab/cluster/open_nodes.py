"""Nodes with an open slot by partition and by whether they sleep; a random one of them in constant time."""

from __future__ import annotations

import random
from collections.abc import Container, Iterable, Iterator, Sequence

#: No suitable node.
NONE = -1


class OpenNodes:
    """The nodes that have a free slot which no job holds, in one list per *group*: partition and whether the
    node sleeps.

    The choice is random, as Spark shuffles its offers, to spread tasks evenly over nodes.

    Args:
        partition: of each node.
        sleep: nodes sleep while they are empty, and do so in the beginning.

    Attributes:
        place: where each node stands in its group's list; NONE: in no list, as it has no open slot.
        anywhere: all groups, as `random` takes them.
    """

    __slots__ = ("_asleep", "_groups", "_partition", "_partitions", "_rng", "_sleep", "anywhere", "place")

    def __init__(self, partition: Sequence[int], sleep: bool, rng: random.Random) -> None:
        self._partition = partition
        self._partitions = sorted(set(partition))
        self._sleep = sleep
        self._asleep = [sleep] * len(partition)
        # Group 2p: partition p, awake; 2p + 1: asleep.
        self._groups: list[list[int]] = [[] for _ in range(2 * (self._partitions[-1] + 1))]
        self._rng = rng
        self.place: list[int] = [NONE] * len(partition)
        self.anywhere = self._tiers(self._partitions)

    # ---- changes ----

    def add(self, node: int) -> None:
        """The node, which is in no list, has an open slot."""
        group = self._group(node)
        self.place[node] = len(group)
        group.append(node)

    def remove(self, node: int) -> None:
        """The node has no open slot, if it had one."""
        place = self.place[node]
        if place != NONE:
            group = self._group(node)
            last = group.pop()
            if last != node:
                group[place] = last
                self.place[last] = place
            self.place[node] = NONE

    def sleeps(self, node: int, asleep: bool) -> None:
        """Mark the node as asleep: it is taken only if no awake node is suitable."""
        if self._asleep[node] != asleep:
            listed = self.place[node] != NONE
            if listed:
                self.remove(node)
            self._asleep[node] = asleep
            if listed:
                self.add(node)

    # ---- choice ----

    def random(self, tiers: list[list[list[int]]]) -> int:
        """A node of the first tier that has any, all equally likely; NONE where all groups are empty."""
        for tier in tiers:
            if len(tier) == 1:
                group = tier[0]
                if group:
                    return group[int(self._rng.random() * len(group))] if len(group) > 1 else group[0]
                continue
            count = sum(map(len, tier))
            at = int(self._rng.random() * count)
            for group in tier:
                if at < len(group):
                    return group[at]
                at -= len(group)
        return NONE

    def random_among(self, partitions: Container[int]) -> int:
        """As `random`, of nodes of these partitions."""
        return self.random(self._tiers([p for p in self._partitions if p in partitions]))

    def random_on(self, partition: int) -> int:
        """As `random`, of nodes of one partition, which the cluster may not have."""
        return self.random(self._tiers([partition])) if 2 * partition < len(self._groups) else NONE

    def one_of(self, nodes: Sequence[int]) -> int:
        """A random one of these nodes, NONE where there is none."""
        return nodes[int(self._rng.random() * len(nodes))] if nodes else NONE

    def first_of(self, levels: Iterable[Iterable[int]]) -> int:
        """A random node of the first of these lists that has any, in linear time; NONE where none has."""
        for nodes in levels:
            open_nodes = [node for node in nodes if self.place[node] != NONE]
            if open_nodes:
                return self.one_of(open_nodes)
        return NONE

    def on(self, partition: int) -> Iterator[int]:
        """The nodes of a partition, those that are awake first."""
        for group in self._groups[2 * partition : 2 * partition + 2]:
            yield from group

    def __iter__(self) -> Iterator[int]:
        """All of them, those that are awake first."""
        for tier in self.anywhere:
            for group in tier:
                yield from group

    # ---- parts ----

    def _tiers(self, partitions: list[int]) -> list[list[list[int]]]:
        """Awake groups, then sleeping ones if nodes ever sleep."""
        tiers = [[self._groups[2 * p] for p in partitions]]
        return [*tiers, [self._groups[2 * p + 1] for p in partitions]] if self._sleep else tiers

    def _group(self, node: int) -> list[int]:
        return self._groups[2 * self._partition[node] + self._asleep[node]]
