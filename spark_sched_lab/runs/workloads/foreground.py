"""SparkBench's KMeans, SVM and PageRank: the jobs whose isolation is measured.

KMeans and SVM run MLlib's own algorithms, PageRank is RDD code, as in SparkBench. All three read their input
again in every iteration (SparkBench's "input larger than memory" case): see `SlowStorage`. Where MLlib would
cache the input, the comments say how the pass over storage was kept.

Each function returns numbers that depend on the seed only, never on scheduling, for runs to be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np

from spark_sched_lab.runs.workloads.storage import SlowStorage, slow_storage

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

FEATURES = 8
CLUSTERS = 4
DAMPING = 0.85


@dataclass(frozen=True)
class ForegroundSize:
    """How large a foreground job is.

    Attributes:
        storage: of the input; its partitions are the job's degree of parallelism.
        passes: reads of the whole input. Each is one stage of uneven reads, then MLlib's or the shuffle's own
            short stages.
        rows: points (KMeans, SVM) or pages (PageRank) per partition.
        clusters: KMeans' k, at most the rows of a partition.
    """

    storage: SlowStorage
    passes: int
    rows: int = 100
    clusters: int = CLUSTERS

    @property
    def parameters(self) -> dict[str, Any]:
        """The same as parameters of `PROGRAMS`."""
        return {**asdict(self.storage), "maxiterations": self.passes, "rows": self.rows, "k": self.clusters}


Foreground = Callable[["SparkContext", ForegroundSize], tuple[float, ...]]


def kmeans(sc: SparkContext, size: ForegroundSize) -> tuple[float, ...]:
    """Lloyd's iterations by MLlib; returns every coordinate of the final centres."""
    from pyspark.mllib.clustering import KMeans, KMeansModel

    storage, rows = size.storage, size.rows

    def read(partition: int, _: Iterable[int]) -> Iterator[np.ndarray]:
        yield from _points(storage.rng(partition), rows)

    centres = list(_points(storage.data_rng(0), rows)[: size.clusters])
    points = sc.parallelize(range(storage.partitions), storage.partitions).mapPartitionsWithIndex(read)
    for _ in range(size.passes):
        # MLlib's KMeans persists its input for the length of one `train`, whatever the caller asks: with all
        # iterations in one call only the first would read. So each call does one iteration from the centres
        # of the last, and drops what it persisted: one real pass over storage per iteration.
        start = KMeansModel(centres)
        model = KMeans.train(points, size.clusters, maxIterations=1, initialModel=start)
        centres = [np.asarray(centre) for centre in model.clusterCenters]
    return tuple(float(x) for centre in centres for x in centre)


def svm(sc: SparkContext, size: ForegroundSize) -> tuple[float, ...]:
    """Linear SVM by MLlib's stochastic gradient descent; returns the weights."""
    from pyspark.mllib.common import _java2py, _py2java, _to_java_object_rdd
    from pyspark.mllib.linalg import Vectors
    from pyspark.mllib.regression import LabeledPoint

    storage, rows = size.storage, size.rows
    truth = np.linspace(-1.0, 1.0, FEATURES)

    def read(partition: int, _: Iterable[int]) -> Iterator[LabeledPoint]:
        for row in storage.rng(partition).normal(size=(rows, FEATURES)):
            yield LabeledPoint(float(row @ truth > 0), row)

    points = sc.parallelize(range(storage.partitions), storage.partitions).mapPartitionsWithIndex(read)
    # The Python wrapper persists its input; the JVM class behind it does not (it warns and reads again in
    # each iteration), which is the case wanted here. Its first pass counts the rows.
    jvm: Any = sc._jvm
    trainer = jvm.org.apache.spark.mllib.classification.SVMWithSGD(1.0, max(1, size.passes - 1), 0.01, 1.0)
    trainer.setValidateData(False)
    # Known here; else MLlib begins with a stage of one task that reads a whole partition for its first row.
    getattr(trainer, "numFeatures_$eq")(FEATURES)
    trainer.optimizer().setConvergenceTol(0.0)  # the number of passes is part of the measurement
    initial = _py2java(sc, Vectors.zeros(FEATURES))
    model = trainer.run(_to_java_object_rdd(points).rdd(), initial)
    return tuple(float(w) for w in _java2py(sc, model.weights()))


def pagerank(sc: SparkContext, size: ForegroundSize) -> tuple[float, ...]:
    """PageRank over RDDs, one Spark job with a stage per iteration; returns ranks' sums per partition.

    Pages are dealt to partitions by number, so the join of ranks and links is local to a partition (as it is
    with co-partitioned RDDs) and each iteration reads the links from storage and shuffles once.
    """
    storage, rows = size.storage, size.rows
    partitions = storage.partitions
    pages = partitions * rows

    def share(partition: int, ranks: Iterable[tuple[int, float]]) -> Iterator[tuple[int, float]]:
        known = dict(ranks)
        targets = storage.rng(partition).integers(0, pages, size=(rows, 4))
        for row, linked in enumerate(targets.tolist()):
            page = row * partitions + partition
            rank = (1 - DAMPING) + DAMPING * known.get(page, 0.0)
            for target in linked:
                yield target, rank / len(linked)

    def partition_of(page: int) -> int:
        return page % partitions

    # In the first iteration nothing is known and every page has the rank (1 − d), as in SparkBench's loop
    # started from zero contributions.
    ranks: Any = sc.parallelize(range(partitions), partitions).mapPartitionsWithIndex(lambda _, __: iter(()))
    for _ in range(size.passes):
        ranks = ranks.mapPartitionsWithIndex(share).reduceByKey(add, partitions, partition_of)
    sums = ranks.mapPartitions(lambda pairs: [sum(rank for _, rank in sorted(pairs))]).collect()
    return tuple(float(s) for s in sums)


def _run(
    workload: Foreground, spark: SparkSession, parameters: Mapping[str, Any], seed: int
) -> tuple[float, ...]:
    size = ForegroundSize(
        storage=slow_storage(parameters, seed),
        passes=int(parameters["maxiterations"]),
        rows=int(parameters["rows"]),
        clusters=int(parameters.get("k", CLUSTERS)),
    )
    return workload(spark.sparkContext, size)


run_kmeans, run_svm, run_pagerank = (partial(_run, workload) for workload in (kmeans, svm, pagerank))


def same_results(first: Iterable[float], second: Iterable[float]) -> bool:
    """Whether two runs gave the same numbers.

    A shuffle hands rows over in the order they arrive, so sums of floats differ in the last bits from run to
    run on any scheduler; anything beyond that is a wrong answer.
    """
    a, b = np.array(list(first)), np.array(list(second))
    return a.shape == b.shape and bool(np.allclose(a, b, rtol=1e-9, atol=1e-9))


WORKLOADS: dict[str, Foreground] = {"kmeans": kmeans, "svm": svm, "pagerank": pagerank}


def _points(rng: np.random.Generator, rows: int) -> np.ndarray:
    """Points around ``CLUSTERS`` well-separated centres; shape ``(rows, FEATURES)``."""
    centre = rng.integers(0, CLUSTERS, size=rows)
    return rng.normal(size=(rows, FEATURES)) + 4.0 * centre[:, None]
