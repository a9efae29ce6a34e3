"""KMeans and PageRank over cached RDDs, for recorded event logs.

Tasks wait instead of computing: to read a partition from storage once, for each pass over a cached partition,
and for the transfer of a partition that another executor has cached. Read times are uneven, so that some
executors cache more partitions than others, as where data do not lie evenly.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

Partition = tuple[int, np.ndarray]


@dataclass(frozen=True)
class CachedInput:
    """Data of ``partitions`` partitions; ``seed`` deals the times.

    Attributes:
        read_s: shortest and longest read of a partition from storage, in seconds.
        pass_s: shortest and longest pass over a cached partition, in seconds.
        away: a pass on another executor than the one that cached the partition takes this many times as long.
    """

    partitions: int
    read_s: tuple[float, float]
    pass_s: tuple[float, float]
    seed: int
    away: float = 1.6
    rows: int = 60

    def read(self, number: int, _: Iterable[int]) -> Iterator[Partition]:
        rng = np.random.default_rng([self.seed, 1, number])
        shortest, longest = self.read_s
        # Most reads are short and some long: who gets a long one caches fewer partitions.
        time.sleep(shortest + (longest - shortest) * float(rng.random()) ** 2)
        centre = rng.integers(0, 4, size=self.rows)
        yield os.getppid(), rng.normal(size=(self.rows, 4)) + 4.0 * centre[:, None]

    def passed(self, number: int, cached_by: int) -> None:
        """Takes as long as a pass over the partition that the executor of this daemon cached."""
        shortest, longest = self.pass_s
        pass_s = shortest + (longest - shortest) * float(
            np.random.default_rng([self.seed, 2, number]).random()
        )
        # A worker's parent is the daemon of its executor.
        time.sleep(pass_s if cached_by == os.getppid() else self.away * pass_s)

    def cached(self, sc: Any) -> Any:
        numbers = sc.parallelize(range(self.partitions), self.partitions)
        return numbers.mapPartitionsWithIndex(self.read).cache()


def kmeans(sc: Any, source: CachedInput, passes: int) -> tuple[float, ...]:
    """Lloyd's iterations, one Spark job of two stages each; returns every coordinate of the last centres."""
    points = source.cached(sc)
    points.count()
    centres = np.linspace(-1.0, 13.0, 4)[:, None] * np.ones(4)

    def assign(number: int, parts: Iterable[Partition]) -> Iterator[tuple[int, tuple[np.ndarray, int]]]:
        for cached_by, rows in parts:
            source.passed(number, cached_by)
            nearest = np.argmin(((rows[:, None, :] - centres[None]) ** 2).sum(axis=2), axis=1)
            for centre in range(len(centres)):
                mine = rows[nearest == centre]
                yield centre, (mine.sum(axis=0), len(mine))

    for _ in range(passes):
        sums = points.mapPartitionsWithIndex(assign).reduceByKey(
            lambda a, b: (a[0] + b[0], a[1] + b[1]), len(centres)
        )
        for centre, (total, count) in sums.collect():
            if count:
                centres[centre] = total / count
    points.unpersist()
    return tuple(float(x) for x in centres.ravel())


def pagerank(sc: Any, source: CachedInput, passes: int) -> tuple[float, ...]:
    """PageRank in one Spark job; each iteration is a stage that reads the links. Returns sums of ranks."""
    links, count = source.cached(sc), source.partitions
    links.count()
    ranks = sc.parallelize(range(count), count).map(lambda _: {})

    def share(
        number: int, pairs: Iterable[tuple[Partition, dict[int, float]]]
    ) -> Iterator[tuple[int, float]]:
        for (cached_by, rows), known in pairs:
            source.passed(number, cached_by)
            for target in (np.abs(rows[:, 0]) * 1000).astype(int) % count:
                yield int(target), 0.15 + 0.85 * known.get(number, 0.0) / len(rows)

    def summed(pairs: Iterable[tuple[int, float]]) -> Iterator[dict[int, float]]:
        found: dict[int, float] = {}
        for page, rank in pairs:
            found[page] = found.get(page, 0.0) + rank
        yield found

    for _ in range(passes):
        shares = links.zip(ranks).mapPartitionsWithIndex(share)
        ranks = shares.partitionBy(count, lambda page: page).mapPartitions(summed)
    found = ranks.map(lambda known: sum(known.values())).collect()
    links.unpersist()
    return tuple(found)


PROGRAMS = {"kmeans": kmeans, "pagerank": pagerank}
